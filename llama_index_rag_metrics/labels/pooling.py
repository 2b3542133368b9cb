"""Which unlabelled passages to label next: the union of the systems' first ones."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any, TypeAlias

from llama_index_rag_metrics.evaluation.evaluation_results import EvaluationResults
from llama_index_rag_metrics.files.lines import to_json, write_lines
from llama_index_rag_metrics.files.read_runs import read_qrels
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.amounts import check_integer
from llama_index_rag_metrics.runtime.errors import InvalidInput

RunLike: TypeAlias = "Run | EvaluationResults | Mapping[str, Sequence[str]]"
LabelsLike: TypeAlias = (
    "RetrievalDataset | Mapping[str, RelevanceLike] | str | os.PathLike[str] | None"
)
_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class PoolItem:
    """A passage to be labelled.

    `best_rank` is its best rank in any system, from 1. `spread` is how differently the systems rank
    it, from 0 (all alike) to 1: the largest difference of 1 / rank, which is 0 below the depth.
    """

    query_id: str
    id: str
    best_rank: int
    spread: float


@dataclass(frozen=True, repr=False)
class Pool(Reportable):
    """What to label next.

    Attributes:
        items: what to label, what the systems rank most differently first: query_id, id, best_rank
            and spread.
        depth: how many of each ranking were looked at.
        n_judged: how many of the passages within the depth are labelled.
        n_unjudged: how many aren't.
        queries: query id to question, where it is known.
        texts: (query id, passage) to text, where it is known.
        file: where the items were written, for the command that comes next; "" for nowhere.

    Examples:
        >>> from llama_index_rag_metrics import pool
        >>> chosen = pool({"a": {"q": ["x", "y"]}, "b": {"q": ["x", "yy"]}}, {"q": {"x": 1}})
        >>> [item.id for item in chosen.items], chosen.n_judged, chosen.n_unjudged
        (['y', 'yy'], 1, 2)
    """

    items: Sequence[PoolItem]
    depth: int
    n_judged: int
    n_unjudged: int
    queries: Mapping[str, str] = field(default_factory=dict, repr=False)
    texts: Mapping[tuple[str, str], str] = field(default_factory=dict, repr=False)
    file: str = ""

    def __len__(self) -> int:
        return len(self.items)

    def to_jsonl(self, path: str | os.PathLike[str]) -> None:
        """Write the items for those who label: query_id, query, doc_id, text; one per line.

        Systems and ranks are hidden. `write_review_page` makes a page of it; with a "grade" in
        every line, `read_qrels` reads the file.
        """
        write_lines(Path(path), map(to_json, self.records()))

    def records(self) -> Iterator[dict[str, str]]:
        """The items as `to_jsonl` writes them."""
        for item in self.items:
            query, text = self.queries.get(item.query_id, ""), self.texts.get(_key(item), "")
            yield {"query_id": item.query_id, "query": query, "doc_id": item.id, "text": text}

    def report(self, *, full: bool = False) -> m.Report:
        """How many passages have no label, and which to label next."""
        remarks = []
        for record in self.records():
            line = f"{record['doc_id']}  {record['text']}".rstrip()
            remarks.append((record["query_id"], record["query"], [line]))
        counts = [m.Cell(self.n_judged, "count"), m.Cell(self.n_unjudged, "count")]
        rows = [m.Row("passages", counts)]
        text = f"Of the first {self.depth:,} of each ranking."
        table = m.Table("", ("labelled", "unlabelled"), [rows], "")
        return m.Report(
            title=f"Labels for the first {self.depth:,}",
            lead=f"{self.n_judged:,} labelled, {self.n_unjudged:,} unlabelled passages retrieved",
            outcome=None if self.n_unjudged else m.Cell("complete", "outcome", "best"),
            decision=[_decision(self)],
            sections=[m.Section("Passages", [table], text)],
            listings=[m.Listing.of("To label next", remarks, _MOST_SHOWN)],
            records=m.Records(
                {
                    "query_id": [item.query_id for item in self.items],
                    "doc_id": [item.id for item in self.items],
                    "best_rank": [item.best_rank for item in self.items],
                    "spread": [item.spread for item in self.items],
                }
            ),
        )


def pool(
    runs: Mapping[str, RunLike] | Iterable[Run],
    judgements: LabelsLike = None,
    *,
    depth: int = 10,
    n: int | None = None,
    dataset: RetrievalDataset | None = None,
) -> Pool:
    """Choose what to label next: the first passages of every system that have no label yet.

    A passage that all systems rank alike can't tell which of them is better, so those come first
    that they rank most differently: by the largest difference of 1 / rank, which is 0 for a system
    that doesn't have the passage within the depth.

    Args:
        runs: name to what the system retrieved; or runs with names.
        judgements: what is labelled: query id to relevance, a dataset, or a file of qrels. Grades
            below 0 are no labels. None: the labels of `dataset`, if that is given.
        depth: how many of each ranking count, from 1: the largest cutoff of the metrics.
        n: how many passages, from 1; None for all.
        dataset: where questions and texts come from, beside the runs' own texts.

    Returns:
        What to label, the most telling first.

    Raises:
        InvalidInput: there are no runs, or a number is out of range.

    Examples:
        >>> chosen = pool({"a": {"q": ["x", "y"]}, "b": {"q": ["x", "yy"]}}, depth=2)
        >>> [(item.id, item.spread) for item in chosen.items]
        [('y', 0.5), ('yy', 0.5), ('x', 0.0)]
    """
    check_integer("depth", depth, 1)
    if n is not None:
        check_integer("n", n, 1, "a number of passages, from 1 on, or None for all")
    systems = _systems(runs)
    labels = _labels(dataset if judgements is None else judgements)
    items: list[PoolItem] = []
    n_judged = 0
    for query_id in dict.fromkeys(query_id for run in systems for query_id in run):
        grades = Relevance(labels.get(query_id, ())).grades
        for item in _union(query_id, systems, depth):
            if grades.get(item.id, -1) >= 0:
                n_judged += 1
            else:
                items.append(item)
    items.sort(key=lambda item: (-item.spread, item.best_rank))
    selection = items[:n]
    queries: dict[str, str] = {}
    for source in (*systems, dataset):
        if source is not None:
            queries.update(source.queries)
    texts = _texts(selection, systems, dataset)
    return Pool(selection, depth, n_judged, len(items), queries, texts)


def _systems(runs: Any) -> list[Run]:
    if not isinstance(runs, Mapping):
        named_runs = list(runs) if isinstance(runs, Iterable) else []
        if not all(isinstance(run, Run) and run.name for run in named_runs):
            raise InvalidInput("runs", runs, "name to run, or runs with names")
        runs = {run.name: run for run in named_runs}
    if not runs:
        raise InvalidInput("runs", [], "at least one run")
    systems = []
    for name, source in runs.items():
        run = source
        if isinstance(source, EvaluationResults):
            run = source.run
        elif not isinstance(source, Run):
            run = Run(source, name=name)
        if run.repeats:
            expected = "one in which each question was asked once"
            remedy = "To pool them, give each of run.repeats as a run of its own."
            raise InvalidInput(f"run {name!r}", f"{len(run.repeats)} of each", expected, remedy)
        systems.append(run)
    return systems


def _labels(source: Any) -> Mapping[str, RelevanceLike]:
    if source is None:
        return {}
    if isinstance(source, RetrievalDataset):
        return source.relevance
    return read_qrels(source)


def _union(query_id: str, systems: Sequence[Run], depth: int) -> list[PoolItem]:
    """The first passages of every system for a question, each once."""
    ranks: dict[str, list[int]] = {}
    for run in systems:
        if query_id in run:
            first_ids = list(dict.fromkeys(run[query_id].ids))[:depth]
            for rank, item in enumerate(first_ids, 1):
                ranks.setdefault(item, []).append(rank)
    items = []
    for item, item_ranks in ranks.items():
        best = min(item_ranks)
        spread = 1 / best
        if len(item_ranks) == len(systems):
            spread -= 1 / max(item_ranks)
        items.append(PoolItem(query_id, item, best, spread))
    return items


def _texts(
    items: Sequence[PoolItem], systems: Sequence[Run], dataset: RetrievalDataset | None
) -> dict[tuple[str, str], str]:
    """The texts of passages: as they were retrieved, or else from the dataset."""
    texts: dict[tuple[str, str], str] = {}
    for item in items:
        if dataset is not None and item.id in dataset.corpus:
            texts[_key(item)] = dataset.indexed_text(item.id)
    for query_id in dict.fromkeys(item.query_id for item in items):
        for run in systems:
            ranking = run.get(query_id)
            if ranking is not None and ranking.texts:
                pairs = zip(ranking.ids, ranking.texts, strict=True)
                texts |= {(query_id, item): text for item, text in pairs if text}
    return texts


def _key(item: PoolItem) -> tuple[str, str]:
    return item.query_id, item.id


def _decision(pool: Pool) -> m.Statement:
    if not pool.n_unjudged:
        text = f"Every passage within the first {pool.depth:,} of a system is labelled."
        return m.Statement(text, "best", evidence="Passages")
    passages, command = counted(len(pool), "passage", "passages"), ""
    text = f"Label these {passages}: to_jsonl() writes them."
    if len(pool) == 1:
        text = "Label this passage: to_jsonl() writes it."
    if pool.file:
        text = f"Label the {passages} in {pool.file}, then score with --qrels judgements.jsonl."
        command = f"rag-metrics labels review {quote(pool.file)} -o judgements.jsonl"
    return m.Statement(text, "open", evidence=f"To label next: {len(pool):,}", command=command)
