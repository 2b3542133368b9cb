"""Which unlabelled passages to label next: the union of the systems' first ones."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeAlias

from llama_index_rag_metrics.evaluation.evaluation_results import EvaluationResults
from llama_index_rag_metrics.files.lines import to_json, write_lines
from llama_index_rag_metrics.files.read_runs import read_qrels
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.amounts import check_integer
from llama_index_rag_metrics.runtime.errors import InvalidInput

if TYPE_CHECKING:
    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset

RunLike: TypeAlias = "Run | EvaluationResults | Mapping[str, Sequence[str]]"


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
        systems: name of the system to how many of its own are labelled, and how many aren't.
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
    systems: Mapping[str, tuple[int, int]] = field(default_factory=dict)
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
            yield {
                "query_id": item.query_id,
                "query": self.queries.get(item.query_id, ""),
                "doc_id": item.id,
                "text": self.texts.get((item.query_id, item.id), ""),
            }

    def report(self, *, full: bool = False) -> m.Report:
        """How many passages have no label, and which to label next."""
        return _report(self)


def pool(
    runs: Mapping[str, RunLike] | Iterable[Run],
    judgements: RetrievalDataset
    | Mapping[str, RelevanceLike]
    | str
    | os.PathLike[str]
    | None = None,
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
    by_name = _systems(runs)
    systems = list(by_name.values())
    labelled = _labels(dataset if judgements is None else judgements)
    items: list[PoolItem] = []
    n_judged = 0
    labels: dict[str, set[str]] = {}
    for query_id in dict.fromkeys(query_id for run in systems for query_id in run):
        grades = Relevance(labelled.get(query_id, ())).grades
        labels[query_id] = {item for item, grade in grades.items() if grade >= 0}
        for item in _union(query_id, systems, depth):
            if item.id in labels[query_id]:
                n_judged += 1
            else:
                items.append(item)
    n_unjudged = len(items)
    items.sort(key=lambda item: (-item.spread, item.best_rank))
    chosen = items[:n]
    queries: dict[str, str] = {}
    for run in systems:
        queries.update(run.queries)
    if dataset is not None:
        queries.update(dataset.queries)
    texts = _texts(chosen, systems, dataset)
    counts = {name: _counts(run, labels, depth) for name, run in by_name.items()}
    return Pool(chosen, depth, n_judged, n_unjudged, counts, queries, texts)


def run_of(name: str, source: Any) -> Run:
    """A run, of results or of query id to ranked ids."""
    run = source.run if isinstance(source, EvaluationResults) else source
    run = run if isinstance(run, Run) else Run(run, name=name)
    if run.repeats:
        expected = "one in which each question was asked once"
        remedy = "To pool them, give each of run.repeats as a run of its own."
        raise InvalidInput(f"run {name!r}", f"{len(run.repeats)} of each", expected, remedy)
    return run


def _systems(runs: Any) -> dict[str, Run]:
    if not isinstance(runs, Mapping):
        named = list(runs) if isinstance(runs, Iterable) else []
        if not all(isinstance(run, Run) and run.name for run in named):
            raise InvalidInput("runs", runs, "name to run, or runs with names")
        runs = {run.name: run for run in named}
    if not runs:
        raise InvalidInput("runs", [], "at least one run")
    return {name: run_of(name, run) for name, run in runs.items()}


def _labels(source: Any) -> Mapping[str, RelevanceLike]:
    if source is None:
        return {}
    relevance = getattr(source, "relevance", None)
    return relevance if isinstance(relevance, Mapping) else read_qrels(source)


def _union(query_id: str, systems: Sequence[Run], depth: int) -> list[PoolItem]:
    """The first passages of every system for a question, each once."""
    ranks: dict[str, list[int]] = {}
    for run in systems:
        if query_id in run:
            for rank, item in enumerate(_first(run[query_id].ids, depth), 1):
                ranks.setdefault(item, []).append(rank)
    items = []
    for item, of_item in ranks.items():
        best = min(of_item)
        worst = 1 / max(of_item) if len(of_item) == len(systems) else 0.0
        items.append(PoolItem(query_id, item, best, 1 / best - worst))
    return items


def _first(ids: Sequence[str], depth: int) -> list[str]:
    """The first passages of a ranking, each once."""
    return list(dict.fromkeys(ids))[:depth]


def _counts(run: Run, labels: Mapping[str, set[str]], depth: int) -> tuple[int, int]:
    """How many of the first passages of a system are labelled, and how many aren't."""
    n_judged = n_passages = 0
    for query_id, ranking in run.items():
        first = _first(ranking.ids, depth)
        n_passages += len(first)
        n_judged += len(labels[query_id].intersection(first))
    return n_judged, n_passages - n_judged


def _texts(
    items: Sequence[PoolItem], runs: Sequence[Run], dataset: RetrievalDataset | None
) -> dict[tuple[str, str], str]:
    texts: dict[tuple[str, str], str] = {}
    for item in items:
        if dataset is not None and item.id in dataset.corpus:
            texts[item.query_id, item.id] = dataset.indexed_text(item.id)
    for query_id in dict.fromkeys(item.query_id for item in items):
        for run in runs:
            known = run[query_id].texts if query_id in run else None
            for id_, text in zip(run[query_id].ids, known, strict=True) if known else ():
                if text:
                    texts[query_id, id_] = text
    return texts


_PASSAGES, _LISTING = "Passages", "To label next"
_MOST_SHOWN = 5


def _report(pool: Pool) -> m.Report:
    remarks = [
        (item["query_id"], item["query"], [f"{item['doc_id']}  {item['text']}".rstrip()])
        for item in pool.records()
    ]
    columns = {"query_id": "query_id", "doc_id": "id", "best_rank": "best_rank", "spread": "spread"}
    rows = [
        m.Row(name, [m.Cell(n, "count") for n in counts]) for name, counts in pool.systems.items()
    ]
    table = m.Table("", ("labelled", "unlabelled"), [rows], "system")
    is_done = not pool.n_unjudged
    return m.Report(
        title=f"Labels for the first {pool.depth:,}",
        lead=f"{pool.n_judged:,} labelled, {pool.n_unjudged:,} unlabelled passages retrieved",
        outcome=m.Cell("complete", "outcome", "best") if is_done else None,
        decision=[_decision(pool)],
        sections=[m.Section(_PASSAGES, [table], f"Of the first {pool.depth:,} of each ranking.")],
        listings=[m.Listing.of(_LISTING, remarks, _MOST_SHOWN)],
        records=m.Records(
            {name: [getattr(item, of) for item in pool.items] for name, of in columns.items()}
        ),
    )


def _decision(pool: Pool) -> m.Statement:
    if not pool.n_unjudged:
        text = f"Every passage within the first {pool.depth:,} of a system is labelled."
        return m.Statement(text, "best", evidence=_PASSAGES)
    passages = counted(len(pool), "passage", "passages")
    text, command = f"Label these {passages}: to_jsonl() writes them.", ""
    if len(pool) == 1:
        text = "Label this passage: to_jsonl() writes it."
    if pool.file:
        text = f"Label the {passages} in {pool.file}, then score with --qrels judgements.jsonl."
        command = f"rag-metrics labels review {quote(pool.file)} -o judgements.jsonl"
    return m.Statement(text, "open", evidence=f"{_LISTING}: {len(pool):,}", command=command)
