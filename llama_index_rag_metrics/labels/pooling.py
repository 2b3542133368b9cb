"""Which unlabelled passages to label next: the union of the systems' first ones."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from llama_index_rag_metrics.evaluation.evaluation_results import EvaluationResults
from llama_index_rag_metrics.files.lines import to_json, write_lines
from llama_index_rag_metrics.files.read_runs import read_qrels
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.relevance import RelevanceLike, as_relevance
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.report.model import Listing, Records, Report, Statement
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.errors import InvalidInput, check_integer

RunLike: TypeAlias = "Run | EvaluationResults | Mapping[str, Sequence[str]]"
LabelsLike: TypeAlias = "Mapping[str, RelevanceLike] | str | os.PathLike[str] | None"

_MOST_SHOWN = 5
_FIELDS = ("query_id", "id", "best_rank", "spread")
_PART = "What differs most comes first: until everything is labelled, differences look too large."


@dataclass(frozen=True, slots=True)
class PoolItem:
    """A passage to be labelled; `query` and `text` are "" where they aren't stored.

    `best_rank` is its best rank in any system, from 1. `spread` is how differently the systems rank
    it, from 0 (all alike) to 1: the largest difference of 1 / rank, which is 0 below the depth.
    """

    query_id: str
    id: str
    best_rank: int
    spread: float
    query: str = ""
    text: str = ""


@dataclass(frozen=True, repr=False)
class Pool(Reportable):
    """What to label next.

    Attributes:
        items: what to label, what the systems rank most differently first.
        depth: how many of each ranking were looked at.
        n_judged: how many of the passages within the depth are labelled.
        n_unjudged: how many aren't.
    """

    items: Sequence[PoolItem]
    depth: int
    n_judged: int
    n_unjudged: int

    def __len__(self) -> int:
        return len(self.items)

    def to_jsonl(self, path: str | os.PathLike[str]) -> None:
        """Write the items for those who label: query_id, query, doc_id, text; one per line.

        Systems and ranks are hidden. With a "grade" in every line, `read_qrels` reads the file.
        """
        write_lines(Path(path), map(to_json, self.records()))

    def records(self) -> Iterator[dict[str, str]]:
        """The items as `to_jsonl` writes them."""
        for item in self.items:
            passage = {"doc_id": item.id, "text": item.text}
            yield {"query_id": item.query_id, "query": item.query, **passage}

    def report(self, *, full: bool = False) -> Report:
        """How many passages have no label, and which to label next."""
        passages = counted(len(self), "passage", "passages")
        decision = [Statement(f"Label {passages}.", "open"), Statement(_PART, "quiet")]
        if not self.n_unjudged:
            text = f"Every passage within the first {self.depth:,} of a system is labelled."
            decision = [Statement(text, "best")]
        remarks = []
        for item in self.items:
            remarks.append((item.query_id, item.query, [f"{item.id}  {item.text}".rstrip()]))
        return Report(
            title=f"Labels for the first {self.depth:,}",
            lead=f"{self.n_judged:,} labelled, {self.n_unjudged:,} unlabelled passages retrieved",
            decision=decision,
            listings=[Listing.of("To label next", remarks, _MOST_SHOWN)],
            records=Records.of_fields(self.items, _FIELDS),
        )


def pool(
    runs: Mapping[str, RunLike],
    judgements: LabelsLike = None,
    *,
    depth: int = 10,
    n: int | None = None,
    dataset: RetrievalDataset | None = None,
) -> Pool:
    """Choose what to label next: the first passages of every system that have no label yet.

    Those come first that the systems rank most differently, by their `spread`: a passage that all
    rank alike can't tell which of them is better.

    Args:
        runs: name to what the system retrieved.
        judgements: what is labelled: query id to relevance, or a file of qrels. Grades below 0 are
            no labels. None: the labels of `dataset`, if that is given.
        depth: how many of each ranking count, from 1: the largest cutoff of the metrics.
        n: how many passages, from 1; None for all.
        dataset: where questions and texts come from, beside the runs' own texts.

    Raises:
        InvalidInput: there are no runs, or a number is out of range.

    Examples:
        >>> runs = {"a": {"q": ["x", "y"]}, "b": {"q": ["x", "yy"]}}
        >>> chosen = pool(runs, {"q": {"x": 1}}, depth=2)
        >>> [(item.id, item.spread) for item in chosen.items], chosen.n_judged
        ([('y', 0.5), ('yy', 0.5)], 1)
    """
    check_integer("depth", depth, 1)
    if n is not None:
        check_integer("n", n, 1, "a number of passages, from 1 on, or None for all")
    systems = _systems(runs)
    stored = RetrievalDataset({}) if dataset is None else dataset
    relevance = stored.relevance if judgements is None else read_qrels(judgements)
    items: list[PoolItem] = []
    n_judged = 0
    for query_id in dict.fromkeys(chain.from_iterable(systems)):
        grades = as_relevance(relevance.get(query_id, ())).grades
        for item in _union(query_id, systems, depth, stored):
            if grades.get(item.id, -1) >= 0:
                n_judged += 1
            else:
                items.append(item)
    items.sort(key=lambda item: (-item.spread, item.best_rank))
    return Pool(items[:n], depth, n_judged, len(items))


def _systems(runs: Mapping[str, RunLike]) -> list[Run]:
    if not isinstance(runs, Mapping) or not runs:
        raise InvalidInput("runs", runs, "at least one run, by its name")
    systems: list[Run] = []  # each repeat of a run counts as one
    for name, source in runs.items():
        run = source.run if isinstance(source, EvaluationResults) else source
        if not isinstance(run, Run):
            run = Run(run, name=name)
        systems += run.repeats or [run]
    return systems


def _union(
    query_id: str, systems: Sequence[Run], depth: int, stored: RetrievalDataset
) -> Iterator[PoolItem]:
    query = stored.queries.get(query_id, "")
    ranks: dict[str, list[int]] = {}
    texts: dict[str, str] = {}
    for run in systems:
        if query_id not in run:
            continue
        query = query or run.queries.get(query_id, "")
        ranking = run[query_id]
        for rank, item in enumerate(list(dict.fromkeys(ranking.ids))[:depth], 1):
            ranks.setdefault(item, []).append(rank)
        for item, text in zip(ranking.ids, ranking.texts or (), strict=False):
            texts[item] = text or texts.get(item, "")
    for item, item_ranks in ranks.items():
        best_rank = min(item_ranks)
        spread = 1 / best_rank
        if len(item_ranks) == len(systems):
            spread -= 1 / max(item_ranks)
        text = texts.get(item, "")
        if not text and item in stored.corpus:
            text = stored.indexed_text(item)
        yield PoolItem(query_id, item, best_rank, spread, query, text)
