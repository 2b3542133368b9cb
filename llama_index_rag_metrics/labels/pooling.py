"""Which unjudged items to judge next, and when it is enough."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults
from llama_index_rag_metrics.files.lines import to_json, write_lines
from llama_index_rag_metrics.files.runs.read_runs import read_qrels
from llama_index_rag_metrics.labels import Strategy
from llama_index_rag_metrics.labels.decisive import (
    Belief,
    PoolItems,
    Query,
    checked_metric,
    queries_under,
)
from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.rankings.judging.judged import JudgedRankings, grades_best_first
from llama_index_rag_metrics.rankings.relevance import RelevanceLike
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.numbers import between, counted, digits_of, percent, score
from llama_index_rag_metrics.report.reportable import Reportable, Sentence
from llama_index_rag_metrics.runtime.amounts import check_amount, check_integer
from llama_index_rag_metrics.runtime.arrays import FloatArray
from llama_index_rag_metrics.runtime.errors import InvalidInput

if TYPE_CHECKING:
    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset

RunLike: TypeAlias = "Run | EvaluationResults | Mapping[str, Sequence[str]]"

# whether no judgement can change a verdict, hardly any would, or it is open
State: TypeAlias = Literal["certain", "likely", "open"]


@dataclass(frozen=True, slots=True)
class PoolItem:
    """A passage to be judged; weights compare within one pool."""

    query_id: str
    id: str
    weight: float


@dataclass(frozen=True, slots=True, repr=False)
class PairOutlook(Sentence):
    """How far the comparison of two systems is decided, over `n` questions."""

    first: str
    second: str
    difference: float
    low: float
    high: float
    chance: float
    state: State
    n: int

    def __str__(self) -> str:
        digits = digits_of(self.n)
        ahead = score(self.difference, 0.0, digits)
        return (
            f"{self.first} is {ahead} ahead of {self.second}; however the rest is labelled, that "
            f"stays at {between(self.low, self.high, digits)}"
        )


@dataclass(frozen=True, repr=False)
class Pool(Reportable):
    """What to judge next.

    Attributes:
        items: what to judge, the most telling first: query_id, id, and weight.
        pairs: each comparison: first (the system ahead), second, the difference of their means with
            unlabelled passages as not relevant, its bounds low and high, the chance that judging
            the rest changes its sign, and the state: "certain", "likely" or "open".
        metric: the metric that decides.
        level: the chance up to which a verdict is likely.
        n_judged: how many of the items in sight of the metric are judged.
        n_unjudged: how many aren't.
        queries: query id to question, where it is known.
        texts: (query id, passage) to text, where it is known.
        file: where the items were written, for the command that comes next; "" for nowhere.

    Examples:
        >>> from llama_index_rag_metrics import pool
        >>> outlook = pool({"a": {"q": ["x", "y"]}, "b": {"q": ["x", "z"]}}, metric="precision@2")
        >>> outlook.is_enough, outlook.n_judged, outlook.n_unjudged
        (False, 0, 3)
    """

    items: Sequence[PoolItem]
    pairs: Sequence[PairOutlook]
    metric: str
    level: float
    n_judged: int
    n_unjudged: int
    queries: Mapping[str, str] = field(default_factory=dict, repr=False)
    texts: Mapping[tuple[str, str], str] = field(default_factory=dict, repr=False)
    file: str = ""

    @property
    def is_enough(self) -> bool:
        """Whether every verdict is certain or likely, so that judging can stop."""
        return all(pair.state != "open" for pair in self.pairs)

    def __len__(self) -> int:
        return len(self.items)

    def to_jsonl(self, path: str | os.PathLike[str]) -> None:
        """Write the items for those who judge: query_id, query, doc_id, text; one per line.

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
        """How certain each verdict is, and what to judge next."""
        return _report(self)


def scores_if(metric: RankingMetric, items: PoolItems, grades: FloatArray) -> FloatArray:
    """(samples, queries, systems) the scores under (samples, items) grades from 0 on."""
    n_samples, n_queries = len(grades), len(items.query_ids)
    sample, place = divmod(np.flatnonzero(grades), len(items.ids) or 1)
    of_query = sample * n_queries + items.query[place]
    counts = np.bincount(of_query, minlength=n_samples * n_queries)
    judged_grade = grades_best_first(grades[sample, place], counts)
    judged_offset = np.concatenate([[0], np.cumsum(counts)])
    scores = np.empty((n_samples, n_queries, items.rank.shape[1]))
    for system, rank in enumerate(items.rank.T):
        retrieved = np.flatnonzero(rank)
        retrieved = retrieved[np.lexsort((rank[retrieved], items.query[retrieved]))]
        of_system = grades[:, retrieved]
        sample, place = divmod(np.flatnonzero(of_system), len(retrieved) or 1)
        judged = JudgedRankings(
            depth=np.tile(items.depth[:, system], n_samples),
            item_query=sample * n_queries + items.query[retrieved][place],
            item_rank=rank[retrieved][place],
            item_grade=of_system[sample, place],
            judged_grade=judged_grade,
            judged_offset=judged_offset,
        )
        scores[:, :, system] = metric.score_queries(judged).reshape(n_samples, n_queries)
        judged.forget_views()
    return scores


# grades that are drawn and scored at once: so much memory, however many samples
_GRADES_AT_ONCE = 1_000_000
_TIE = 1e-12


def pool(
    runs: Mapping[str, RunLike] | Iterable[Run],
    judgements: RetrievalDataset
    | Mapping[str, RelevanceLike]
    | str
    | os.PathLike[str]
    | None = None,
    *,
    n: int | None = None,
    metric: str | RankingMetric = "ndcg@10",
    strategy: Strategy = "decisive",
    baseline: str | None = None,
    level: float = 0.05,
    highest_grade: float | None = None,
    dataset: RetrievalDataset | None = None,
    samples: int = 500,
    seed: int = 0,
) -> Pool:
    """Choose what to judge next, so that few judgements decide which system is better.

    "decisive" asks first for what could change the differences most: an item that all systems rank
    alike changes none (Carterette, Allan and Sitaraman, "Minimal test collections for retrieval
    evaluation", SIGIR 2006). Comparisons that are decided need nothing more. "depth" asks for the
    highest ranks of any system.

    The verdict of a comparison is which mean is higher. It is certain when no way of judging the
    rest can change it, and likely when what is judged shows a difference and at most `level` of the
    simulated judgings of the rest change it. The simulation learns from what is judged how often an
    item is relevant, by rank and by question. Labels that list only relevant items don't show that,
    so they make no verdict likely. Judge, add the grades to `judgements` (0 where an item isn't
    relevant) and call again, until `is_enough`. Only items that the systems retrieved, within the
    metric's cutoff, count.

    Args:
        runs: name to what the system retrieved, at least two; or runs with names.
        judgements: what is judged: query id to relevance, a dataset, or a file of qrels. Only what
            has a grade from 0 on is judged. None: the labels of `dataset`, if that is given.
        n: how many items; None for all.
        metric: ndcg@k, precision@k, recall, recall@k, ap or ap@k.
        strategy: "decisive" or "depth".
        baseline: compare every other system with this one; None compares all with each other.
        level: a verdict with a larger chance of a change is open, in (0, 1).
        highest_grade: the best grade that there is; by default the best one given, at least 1.
        dataset: where questions and texts come from, beside the runs' own texts.
        samples: how many ways of judging the rest are tried, at least 100.
        seed: the same seed gives the same pool.

    Returns:
        What to judge, the most telling first, and the outlook of every comparison.

    Raises:
        InvalidInput: fewer than two runs, no such baseline, another metric, or a number out of
            range.

    Examples:
        >>> outlook = pool({"a": {"q": ["x", "y"]}, "b": {"q": ["x", "z"]}}, metric="precision@2")
        >>> sorted(item.id for item in outlook.items)
        ['y', 'z']
    """
    chosen = checked_metric(metric)
    if n is not None:
        check_integer("n", n, 1, "a number of passages, from 1 on, or None for all")
    if strategy not in ("decisive", "depth"):
        raise InvalidInput("strategy", strategy, "'decisive' or 'depth'")
    check_level(level)
    check_integer("samples", samples, 100)
    check_integer("seed", seed, 0)
    if highest_grade is not None:
        expected = "a grade above 0, or None for the best one given"
        check_amount("highest_grade", highest_grade, expected, lambda value: 0 < value < math.inf)
    systems = _systems(runs)
    names = list(systems)
    if baseline is not None and baseline not in systems:
        raise InvalidInput("baseline", baseline, f"one of {names}")
    source: Any = dataset if judgements is None else judgements
    judged = getattr(source, "relevance", None)
    if not isinstance(judged, Mapping):
        judged = {} if source is None else read_qrels(source)
    query_ids = list(dict.fromkeys(query_id for run in systems.values() for query_id in run))
    depth = chosen.model_dump().get("k")
    items = PoolItems.of(list(systems.values()), query_ids, judged, depth)
    belief = Belief(items, np.random.default_rng(seed))
    best_grade = max(float(items.known.max(initial=1.0)), highest_grade or 0.0)
    queries = queries_under(chosen, items, belief.rate, best_grade)
    compared = [
        (first, second)
        for first, second in combinations(range(len(names)), 2)
        if baseline is None or baseline in (names[first], names[second])
    ]
    # mean scores as they could turn out
    at_once = max(1, _GRADES_AT_ONCE // max(1, len(items.ids)))
    sizes = [min(at_once, samples - start) for start in range(0, samples, at_once)]
    blocks = (np.array([belief.sample() for _ in range(size)]) for size in sizes)
    means = np.concatenate([scores_if(chosen, items, block).mean(axis=1) for block in blocks])
    pairs = _outlooks(chosen, items, names, compared, queries, means, level)
    weights = items.reciprocal_rank.max(axis=1, initial=0.0)
    if strategy == "decisive":
        weights = _by_effect(queries, belief.rate, names, pairs)
    # what is equal but for rounding stays in the order of the questions, on every machine
    order = np.argsort(-np.round(weights / (weights.max(initial=0.0) or 1.0), 9), kind="stable")
    order = order[items.unjudged[order] & (weights[order] > 0)][:n]
    kept = [
        PoolItem(query_ids[items.query[place]], items.ids[place], float(weights[place]))
        for place in order
    ]
    unjudged = int(items.unjudged.sum())
    extent = int(items.in_sight.sum()) - unjudged, unjudged
    asked = {} if dataset is None else dict(dataset.queries)
    texts = _texts(kept, systems.values(), dataset)
    return Pool(kept, pairs, chosen.metric_name, level, *extent, asked, texts)


def check_level(level: float) -> None:
    check_amount("level", level, "a chance between 0 and 1", lambda value: 0 < value < 1)


def _outlooks(
    metric: RankingMetric,
    items: PoolItems,
    names: Sequence[str],
    compared: Sequence[tuple[int, int]],
    queries: Sequence[Query],
    means: FloatArray,
    level: float,
) -> list[PairOutlook]:
    by_query = scores_if(metric, items, items.known[None])[0]
    now = by_query.mean(axis=0)
    highest = np.zeros((2, len(compared)))
    if queries and compared:
        both = np.array([*compared, *((b, a) for a, b in compared)]).T
        highest = np.mean([query.highest(*both) for query in queries], axis=0).reshape(2, -1)
    outlooks = []
    for pair, most, of_other in zip(compared, *highest.tolist(), strict=True):
        (first, second), (low, high) = pair, (-of_other, most)
        difference, drawn = float(now[first] - now[second]), means[:, first] - means[:, second]
        if difference < -_TIE or (abs(difference) <= _TIE and drawn.mean() < 0):
            first, second, difference, drawn = second, first, -difference, -drawn
            high, low = -low, -high
        # one more change than was seen: a chance of 0 is for what is certain
        chance = (float((drawn <= _TIE).sum()) + 1) / (len(drawn) + 1)
        state: State = "open"
        if low > _TIE or high - low <= _TIE or not items.unjudged.any():
            state, chance = "certain", 0.0
        elif difference > _TIE and chance <= level and items.tells_rates:
            state = "likely"
        numbers = difference, low, high, chance
        outlooks.append(PairOutlook(names[first], names[second], *numbers, state, len(by_query)))
    return outlooks


def _by_effect(
    queries: Sequence[Query], rate: FloatArray, names: Sequence[str], pairs: Sequence[PairOutlook]
) -> FloatArray:
    """(items,) how much each judgement could tell about the comparisons that are open."""
    still_open = [pair for pair in pairs if pair.state == "open"]
    if not still_open or not queries:
        return np.zeros(len(rate))
    places = [[names.index(pair.first), names.index(pair.second)] for pair in still_open]
    effects = np.concatenate([query.effects(*np.array(places).T) for query in queries], axis=1)
    chances = np.array([pair.chance for pair in still_open])
    weights: FloatArray = chances @ np.abs(effects, out=effects) * np.sqrt(rate * (1 - rate))
    return weights


def _systems(runs: Any) -> dict[str, Run]:
    if not isinstance(runs, Mapping):
        named = list(runs) if isinstance(runs, Iterable) else []
        if not all(isinstance(run, Run) and run.name for run in named):
            raise InvalidInput("runs", runs, "name to run, or runs with names")
        runs = {run.name: run for run in named}
    systems = {name: _run_of(name, run) for name, run in runs.items()}
    if len(systems) < 2:
        raise InvalidInput("runs", list(systems), "at least two systems with names of their own")
    return systems


def _texts(
    items: Sequence[PoolItem], runs: Iterable[Run], dataset: RetrievalDataset | None
) -> dict[tuple[str, str], str]:
    texts = {
        (item.query_id, item.id): dataset.indexed_text(item.id)
        for item in items
        if dataset is not None and item.id in dataset.corpus
    }
    query_ids = dict.fromkeys(item.query_id for item in items)
    for query_id, run in product(query_ids, runs):
        if query_id in run and (known := run[query_id].texts) is not None:
            pairs = zip(run[query_id].ids, known, strict=True)
            texts |= {(query_id, item): text for item, text in pairs if text}
    return texts


_STATES: Mapping[State, m.Cell] = {
    "certain": m.Cell("certain", tone="best"),
    "likely": m.Cell("likely", tone="best"),
    "open": m.Cell("undecided", tone="open"),
}
_HEAD = ("state", "difference", "at least … at most", "chance of a change")
_COMPARISONS = "Comparisons"
_LISTING = "To label next"
_MOST_SHOWN = 5


def _row(pair: PairOutlook) -> m.Row:
    digits = digits_of(pair.n)
    difference = m.Cell(pair.difference, "signed", limit=0.0, digits=digits)
    bounds = m.Cell(None, "range", low=pair.low, high=pair.high, digits=digits)
    cells = [_STATES[pair.state], difference, bounds, m.Cell(pair.chance, "p")]
    return m.Row(f"{pair.first} > {pair.second}", cells)


def _report(pool: Pool) -> m.Report:
    table = m.Table("", _HEAD, [[_row(pair) for pair in pool.pairs]], pool.metric)
    explained = (
        "Differences count unlabelled passages as not relevant. A result is certain when no label "
        "can change it, likely when the labels, of relevant and other passages, show a difference "
        f"and the chance that the rest changes it is at most {percent(pool.level)}."
    )
    remarks = [
        (item["query_id"], item["query"], [f"{item['doc_id']}  {item['text']}".rstrip()])
        for item in pool.records()
    ]
    enough = m.Cell("enough", "outcome", "best")
    columns = {"query_id": "query_id", "doc_id": "id", "weight": "weight"}
    return m.Report(
        title=f"Labels for {pool.metric}",
        lead=f"{pool.n_judged:,} labelled, {pool.n_unjudged:,} unlabelled passages retrieved",
        outcome=enough if pool.is_enough else m.Cell("not enough", "outcome", "open"),
        decision=[_decision(pool)],
        sections=[m.Section(_COMPARISONS, [table], explained)],
        listings=[m.Listing.of(_LISTING, remarks, _MOST_SHOWN)],
        metrics=[pool.metric],
        records=m.Records(
            {name: [getattr(item, of) for item in pool.items] for name, of in columns.items()}
        ),
    )


def _decision(pool: Pool) -> m.Statement:
    if pool.is_enough:
        pair = pool.pairs[0]
        decided = f"{pair.first} is ahead of {pair.second} on {pool.metric}"
        if len(pool.pairs) > 1:
            decided = f"all {len(pool.pairs):,} comparisons on {pool.metric} are decided"
        elif not pair.difference:
            decided = f"{pair.first} and {pair.second} score the same on {pool.metric}"
        elif pair.state == "certain":
            decided += ", whatever the other labels are"
        return m.Statement(f"Labelling can stop: {decided}.", "best", evidence=_COMPARISONS)
    n_open = sum(1 for pair in pool.pairs if pair.state == "open")
    pairs = counted(n_open, "comparison is", "comparisons are")
    n = len(pool)
    passages = "this passage" if n == 1 else f"these {n:,} passages"
    how, command = f"{passages} (to_jsonl() writes them), then rerun.", ""
    if pool.file:
        how = f"{passages}, then rerun with --qrels judgements.jsonl."
        command = f"rag-metrics labels review {quote(pool.file)} -o judgements.jsonl"
    text = f"{pairs} undecided. Label {how}"
    return m.Statement(text, "open", evidence=f"{_LISTING}: {n:,}", command=command)


def _run_of(name: str, source: RunLike) -> Run:
    """A run, of results or of query id to ranked ids."""
    run = source.run if isinstance(source, EvaluationResults) else source
    run = run if isinstance(run, Run) else Run(run, name=name)
    if run.repeats:
        expected = "one in which each question was asked once"
        remedy = "To pool them, give each of run.repeats as a run of its own."
        raise InvalidInput(f"run {name!r}", f"{len(run.repeats)} of each", expected, remedy)
    return run
