"""What labelled passages say today, remembered as hashes: enough to see later what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.labels.corpus import Passages, PassagesLike
from llama_index_rag_metrics.labels.labelled import Label, distinct, labels_of
from llama_index_rag_metrics.labels.likeness import text_hash
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning
from llama_index_rag_metrics.runtime.wording import first_of

if TYPE_CHECKING:
    from llama_index_rag_metrics.rankings.matching import MatchOn


def remember_texts(
    dataset: RetrievalDataset,
    index_or_nodes: PassagesLike | None = None,
    *,
    match_on: MatchOn = "node_id",
    keep_corpus: bool = True,
) -> RetrievalDataset:
    """Keep a hash of the text of every labelled passage, so that changes are seen without corpus.

    `check_labels` and `move_labels` then tell a passage that is as it was, one whose whole text is
    under another id, and one whose text is another. What became of a text that no passage has any
    more, whether it was edited, split or dropped, only the text itself could tell: keep the corpus
    where you can.

    White space and Unicode form don't count. Hashes of before are replaced, where the passage is
    there; call it again when you have looked at what changed.

    Args:
        dataset: the labels.
        index_or_nodes: what can be retrieved today, as `check_labels` takes it. None takes the
            dataset's own corpus.
        match_on: which id of a node the labels use, as in `evaluate`.
        keep_corpus: whether the new dataset has the corpus of the old one.

    Returns:
        A dataset with `text_hashes`, which its JSON and JSONL hold.

    Raises:
        InvalidInput: no labelled passage is there, or what can be retrieved is nothing of that
            kind.

    Examples:
        >>> from llama_index_rag_metrics import RetrievalDataset, check_labels
        >>> dataset = RetrievalDataset({"q1": "Which moon has geysers?"}, {"q1": ["d1"]})
        >>> dataset = remember_texts(dataset, {"d1": "Enceladus has geysers."})
        >>> [error.kind for error in check_labels(dataset, {"d1": "Io has volcanoes."}).errors]
        ['changed']
    """
    passages = Passages.of(dataset if index_or_nodes is None else index_or_nodes, match_on)
    labels = distinct(labels_of(dataset))
    texts = {label_id: _text(label, passages) for label_id, label in labels.items()}
    hashes = {label_id: text_hash(text) for label_id, text in texts.items() if text is not None}
    if labels and not hashes:
        expected = "what has a labelled passage"
        remedy = f"A label is {next(iter(labels))!r}, an id {next(iter(passages.texts))!r}."
        raise InvalidInput("index_or_nodes", f"none of {len(labels):,}", expected, remedy)
    if missing := [label_id for label_id in labels if label_id not in hashes]:
        warn_caller(
            LabelWarning(
                f"{len(missing):,} of {len(labels):,} labelled passages aren't there, so their "
                f"texts can't be remembered: {first_of([*map(repr, missing)])}"
            )
        )
    dropped = {} if keep_corpus else dict.fromkeys(("corpus", "titles", "document_metadata"))
    remembered = {**dataset.text_hashes, **hashes}
    return RetrievalDataset(**{**vars(dataset), **dropped, "text_hashes": remembered})


def _text(label: Label, passages: Passages) -> str | None:
    """What a label's passage, or the place that it names, says today."""
    if not label.by_place:
        return passages.texts.get(label.id)
    if label.place is None:
        return label.text
    here = passages.by_document.get(label.place.source, ())
    cuts = (passages.cut(passage_id, label.place) for passage_id in here)
    return next((text for text in cuts if text is not None), None)
