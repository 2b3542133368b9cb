"""Labels moved to new nodes: by their places in the documents, or else by their texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

from llama_index_rag_metrics.evaluation.passages import Passages, PassagesLike
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.report.model import Tone
from llama_index_rag_metrics.report.numbers import counted, questions
from llama_index_rag_metrics.runtime.errors import check_amount

from .checking import NO_TEXT, Finding, Kind, LabelFindings, follow
from .finding import Finder, judged, labels_of

_ALTERNATIVES = (
    "{n:,} of {labels} now in several passages, of which any will do: group_recall@k takes it so, "
    "recall@k and ndcg@k count each"
)


@dataclass(frozen=True, repr=False)
class MovedLabels(LabelFindings):
    """The result of `move_labels`.

    Attributes:
        dataset: the dataset with the new ids, whose corpus is the new nodes.
        findings: what became of every labelled passage: its kind is "kept" (its id has its text),
            "moved" (one node holds it), "split" (several do), "changed" (it was edited) or "lost".
    """

    dataset: RetrievalDataset

    tones: ClassVar[Mapping[Kind, Tone]] = {
        "lost": "alarm",
        "changed": "open",
        "split": "normal",
        "moved": "normal",
        "kept": "normal",
    }
    title: ClassVar = "Labels moved"
    praise: ClassVar = "Every label has a new place."


def move_labels(
    dataset: RetrievalDataset, new_nodes: PassagesLike, *, threshold: float = 0.5
) -> MovedLabels:
    """Move labels to new nodes, after documents were split or ingested again.

    A label goes to every node that holds at least `threshold` of its text: by its place in the
    document where that is known and the texts agree there, or else by its text. Where none holds
    that much, it goes to several that do together. Several new ids of one label become a group of
    alternatives, any of which meets the need. Grades are kept; of several labels in one node, the
    best grade counts. Lost labels are dropped, and listed; a question without any is unlabelled.

    Args:
        dataset: the labels. Places are from `Relevance(spans=...)`, or the metadata "ref_doc_id",
            "start_char_idx" and "end_char_idx" of its documents; texts from its corpus, or its
            expected texts.
        new_nodes: what can be retrieved now; as `check_labels` takes it.
        threshold: the share of a label's text from which a node holds it, in (0, 1].

    Raises:
        InvalidInput: `new_nodes` is of another kind, or the threshold is out of range.

    Examples:
        >>> from llama_index_rag_metrics import RetrievalDataset
        >>> dataset = RetrievalDataset(
        ...     {"q1": "Which moon has geysers?"}, {"q1": ["d1"]}, {"d1": "Enceladus has geysers."}
        ... )
        >>> moved = move_labels(dataset, {"n7": "Saturn has moons. Enceladus has geysers."})
        >>> moved.dataset.relevance["q1"], moved.counts["moved"]
        (Relevance(['n7']), 1)
    """
    check_amount("threshold", threshold, "a number above 0, up to 1", lambda share: 0 < share <= 1)
    old_relevance = judged(dataset)
    passages = Passages.of(new_nodes)
    labels = labels_of(dataset, old_relevance)
    found_labels = dict(follow(labels, Finder(passages, labels.values(), threshold)))
    findings = list(found_labels.values())
    relevance = {}
    for query_id, old in old_relevance.items():
        new_ids = {item: found_labels[labels[query_id, item]].new_ids for item in old.grades}
        relabelled = _relabelled(old, new_ids)
        if relabelled or not old:  # that all is lost doesn't say that nothing answers it
            relevance[query_id] = relabelled
    notes = list(_notes(findings))
    moved = RetrievalDataset(
        dataset.queries,
        relevance,
        passages.texts,
        dataset.metadata,
        name=dataset.name,
        document_metadata=_stored_places(passages),
        notes=[*dataset.notes, *notes],
    )
    n_labels, n_passages = len(findings), len(passages.texts)
    return MovedLabels(findings, n_labels, n_passages, notes, dataset.queries, dataset.name, moved)


def _stored_places(passages: Passages) -> dict[str, dict[str, Any]]:
    metadata: dict[str, dict[str, Any]] = {}
    for passage_id, place in passages.places.items():
        if place.source != passage_id:
            ends = {"start_char_idx": place.start, "end_char_idx": place.end}
            metadata[passage_id] = {"ref_doc_id": place.source, **ends}
    return metadata


def _relabelled(old: Relevance, new_ids: Mapping[str, tuple[str, ...]]) -> Relevance:
    grades: dict[str, float] = {}
    for item, grade in old.grades.items():
        for new_id in new_ids[item]:
            grades[new_id] = max(grade, grades.get(new_id, grade))
    groups: list[list[str]] = []
    for need in old.alternatives or [(item,) for item in old]:
        ids_of_need = chain.from_iterable(new_ids[item] for item in need)
        groups.append(list(dict.fromkeys(ids_of_need)))
    if old.facet_names is not None:
        facets = dict(zip(old.facet_names, groups, strict=True))
        weights = dict(zip(old.facet_names, old.weights or (), strict=True))
        return Relevance(facets=facets, weights=weights, grades=grades)
    groups = list(filter(None, groups))
    single_ids = {ids[0] for ids in groups if len(ids) == 1}
    if old.alternatives is None and len(single_ids) == len(groups):  # each label has its own
        return Relevance(grades)
    return Relevance(grades, groups=groups or None)


def _notes(findings: list[Finding]) -> Iterator[str]:
    labels = counted(len(findings), "labelled passage", "labelled passages")
    lost_ids = [finding.query_ids for finding in findings if finding.kind == "lost"]
    n_changed = sum(finding.kind == "changed" for finding in findings)
    unknown = sum(finding.kind in ("kept", "lost") and not finding.old_text for finding in findings)
    n_several = sum(len(finding.new_ids) > 1 for finding in findings)
    if unknown:
        yield NO_TEXT.format(unknown=unknown, named=len(findings))
    if lost_ids:
        yield f"{len(lost_ids):,} of {labels} lost, of {questions(len(set().union(*lost_ids)))}"
    if n_changed:
        yield f"{n_changed:,} of {labels} moved to a text that was edited since"
    if n_several:
        yield _ALTERNATIVES.format(n=n_several, labels=labels)
