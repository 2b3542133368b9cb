"""Which unjudged items to judge next, and when it is enough."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from llama_index_rag_metrics.evaluation import EvaluationResults
from llama_index_rag_metrics.files.runs.read_runs import read_qrels
from llama_index_rag_metrics.labels.decisive import Belief, Query, checked_metric, queries_of
from llama_index_rag_metrics.labels.label_pool import PairOutlook, Pool, PoolItem, PoolItems, State
from llama_index_rag_metrics.metrics import RankingMetric
from llama_index_rag_metrics.rankings.judging import JudgedRankings
from llama_index_rag_metrics.rankings.judging.judged import best_first
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.runtime.amounts import check_amount, check_integer
from llama_index_rag_metrics.runtime.arrays import FloatArray
from llama_index_rag_metrics.runtime.errors import InvalidInput

if TYPE_CHECKING:
    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset


def scores_if(metric: RankingMetric, items: PoolItems, grades: FloatArray) -> FloatArray:
    """(samples, queries, systems) the scores if items were judged as given.

    Args:
        grades: (samples, items) from 0 on; items of grade 0 don't change the sums that these
            metrics are.
    """
    n_samples, n_queries = len(grades), len(items.query_ids)
    sample, place = divmod(np.flatnonzero(grades), len(items.ids) or 1)
    of_query = sample * n_queries + items.query[place]
    counts = np.bincount(of_query, minlength=n_samples * n_queries)
    judged_grade = best_first(grades[sample, place], counts)
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


Strategy: TypeAlias = Literal["decisive", "depth"]
RunLike: TypeAlias = "Run | EvaluationResults | Mapping[str, Sequence[str]]"

SAMPLES = 500
"""Ways of judging the rest that are tried."""

_GRADES_AT_ONCE = 1_000_000
"""Grades that are drawn and scored at once: so much memory, however many samples."""

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
    samples: int = SAMPLES,
    seed: int = 0,
) -> Pool:
    """Choose what to judge next, so that few judgements decide which system is better.

    "decisive" asks first for what could change the differences most: an item that all systems rank
    alike changes none (Carterette, Allan and Sitaraman, "Minimal test collections for retrieval
    evaluation", SIGIR 2006). Comparisons that are decided ask for nothing more. "depth" asks for
    what stands highest in any system.

    The verdict of a comparison is which mean is higher. It is certain when no way of judging the
    rest can turn it, and likely when what is judged shows a difference and at most `level` of the
    simulated judgings of the rest turn it. The simulation learns from what is judged how often an
    item is relevant, by rank and by question. Labels that list only relevant items don't show that,
    so no verdict is likely by them. Judge, add the grades to `judgements` (0 where an item isn't
    relevant) and call again, until `is_enough`. Only items that the systems retrieved, and that the
    metric sees, are looked at.

    Args:
        runs: name to what the system retrieved, at least two; or runs with names.
        judgements: what is judged: query id to relevance, a dataset, or a file of qrels. Only what
            has a grade from 0 on is judged. None: the labels of `dataset`, if that is given.
        n: how many items; None for all.
        metric: ndcg@k, precision@k, recall, recall@k, ap or ap@k.
        strategy: "decisive" or "depth".
        baseline: compare every other system with this one; None compares all with each other.
        level: the chance of a turn from which a verdict is open, in (0, 1).
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
    chosen = check_request(
        metric,
        n=n,
        strategy=strategy,
        level=level,
        highest_grade=highest_grade,
        samples=samples,
        seed=seed,
    )
    systems = _systems(runs)
    names = list(systems)
    if baseline is not None and baseline not in systems:
        raise InvalidInput("baseline", baseline, f"one of {names}")
    source = dataset if judgements is None and dataset is not None else judgements
    judged = _judgements(source)
    query_ids = list(dict.fromkeys(query_id for run in systems.values() for query_id in run))
    depth = chosen.model_dump().get("k")
    items = PoolItems.of(list(systems.values()), query_ids, judged, depth)
    study = _Study(chosen, items, names, baseline, level, highest_grade, samples, seed)
    weights = study.weights() if strategy == "decisive" else _by_depth(items)
    # what is equal but for rounding stays in the order of the questions, on every machine
    order = np.argsort(-np.round(weights / (weights.max(initial=0.0) or 1.0), 9), kind="stable")
    order = order[items.unjudged[order] & (weights[order] > 0)][:n]
    kept = [
        PoolItem(query_ids[items.query[place]], items.ids[place], float(weights[place]))
        for place in order
    ]
    unjudged = int(items.unjudged.sum())
    in_sight = int((items.rank > 0).any(axis=1).sum())
    return Pool(
        kept,
        study.pairs,
        chosen.metric_name,
        level,
        in_sight - unjudged,
        unjudged,
        dict(dataset.queries) if dataset is not None else {},
        _texts(kept, systems.values(), dataset),
    )


class _Study:
    def __init__(
        self,
        metric: RankingMetric,
        items: PoolItems,
        names: Sequence[str],
        baseline: str | None,
        level: float,
        highest_grade: float | None,
        samples: int,
        seed: int,
    ) -> None:
        belief = Belief(items, np.random.default_rng(seed))
        best = float(items.known.max(initial=1.0))
        self._items = items
        self._names = names
        self._rate = belief.rate
        self._queries = queries_of(metric, items, belief.rate, max(best, highest_grade or 0.0))
        now = scores_if(metric, items, items.known[None])[0]
        at_once = max(1, _GRADES_AT_ONCE // max(1, len(items.ids)))
        sizes = [min(at_once, samples - start) for start in range(0, samples, at_once)]
        blocks = (np.array([belief.sample() for _ in range(size)]) for size in sizes)
        means = np.concatenate([scores_if(metric, items, block).mean(axis=1) for block in blocks])
        compared = [
            (first, second)
            for first, second in combinations(range(len(names)), 2)
            if baseline is None or baseline in (names[first], names[second])
        ]
        highest = _highest(self._queries, [*compared, *((b, a) for a, b in compared)])
        self.pairs = [
            self._outlook(systems, bounds, now.mean(axis=0), means, level)
            for systems, *bounds in zip(
                compared, highest[: len(compared)], highest[len(compared) :], strict=True
            )
        ]

    def weights(self) -> FloatArray:
        """(items,) how much each judgement could tell about the comparisons that are open."""
        spread = np.sqrt(self._rate * (1 - self._rate))
        still_open = [pair for pair in self.pairs if pair.state == "open"]
        if not still_open or not self._queries:
            return np.zeros(len(self._rate))
        place = {name: position for position, name in enumerate(self._names)}
        first, second = np.array([(place[pair.first], place[pair.second]) for pair in still_open]).T
        effects = np.empty((len(still_open), len(spread)))
        begin = 0
        for query in self._queries:
            end = begin + len(query.grade)
            effects[:, begin:end] = query.effects(first, second)
            begin = end
        chances = np.array([pair.chance for pair in still_open])
        weights: FloatArray = chances @ np.abs(effects, out=effects) * spread
        return weights

    def _outlook(
        self,
        systems: tuple[int, int],
        highest: Sequence[float],
        now: FloatArray,
        means: FloatArray,
        level: float,
    ) -> PairOutlook:
        (first, second), (high, low) = systems, (float(highest[0]), -float(highest[1]))
        difference = float(now[first] - now[second])
        drawn = means[:, first] - means[:, second]
        if difference < -_TIE or (abs(difference) <= _TIE and drawn.mean() < 0):
            first, second, difference, drawn = second, first, -difference, -drawn
            high, low = -low, -high
        # one more turn than was seen: a chance of 0 is for what is certain
        chance = (float((drawn <= _TIE).sum()) + 1) / (len(drawn) + 1)
        is_settled = high - low <= _TIE or not self._items.unjudged.any()
        state: State = "open"
        if low > _TIE or is_settled:
            state, chance = "certain", 0.0
        elif difference > _TIE and chance <= level and self._items.tells_rates:
            state = "likely"
        leading, other = self._names[first], self._names[second]
        return PairOutlook(leading, other, difference, low, high, chance, state)


def _highest(queries: Sequence[Query], compared: Sequence[tuple[int, int]]) -> FloatArray:
    """(differences,) what each mean difference of two systems is at most."""
    if not queries or not compared:
        return np.zeros(len(compared))
    first, second = np.array(compared).T
    highest: FloatArray = np.mean([query.highest(first, second) for query in queries], axis=0)
    return highest


def _by_depth(items: PoolItems) -> FloatArray:
    """(items,) one over the best rank."""
    ranks = np.where(items.rank > 0, items.rank, np.iinfo(np.int64).max)
    best: FloatArray = 1 / ranks.min(axis=1, initial=np.iinfo(np.int64).max)
    return best


def _systems(runs: Any) -> dict[str, Run]:
    if not isinstance(runs, Mapping):
        named = list(runs) if isinstance(runs, Iterable) else []
        if not all(isinstance(run, Run) and run.name for run in named):
            raise InvalidInput("runs", runs, "name to run, or runs with names")
        runs = {run.name: run for run in named}
    systems = {name: _run(name, run) for name, run in runs.items()}
    if len(systems) < 2:
        raise InvalidInput("runs", list(systems), "at least two systems with names of their own")
    return systems


def _run(name: str, source: Any) -> Run:
    if isinstance(source, EvaluationResults):
        return source.run
    return source if isinstance(source, Run) else Run(source, name=name)


def _judgements(source: Any) -> Mapping[str, Relevance]:
    if source is None:
        return {}
    relevance = getattr(source, "relevance", None)
    return relevance if isinstance(relevance, Mapping) else read_qrels(source)


def _texts(
    items: Sequence[PoolItem], runs: Iterable[Run], dataset: RetrievalDataset | None
) -> dict[tuple[str, str], str]:
    """The texts of items: as retrieved, or else the dataset's."""
    texts: dict[tuple[str, str], str] = {}
    if dataset is not None:
        texts = {
            (item.query_id, item.id): dataset.indexed_text(item.id)
            for item in items
            if item.id in dataset.corpus
        }
    for query_id in dict.fromkeys(item.query_id for item in items):
        for run in runs:
            if query_id in run and run[query_id].texts is not None:
                ranking = run[query_id]
                texts |= {
                    (query_id, item): text
                    for item, text in zip(ranking.ids, ranking.texts or (), strict=True)
                    if text
                }
    return texts


def check_request(
    metric: str | RankingMetric,
    *,
    n: Any,
    strategy: Any,
    level: Any,
    highest_grade: Any = None,
    samples: Any = SAMPLES,
    seed: Any = 0,
) -> RankingMetric:
    """The metric, once the arguments of `pool` but the rankings were checked."""
    chosen = checked_metric(metric)
    if n is not None:
        check_integer("n", n, 1, "a number of items, from 1 on, or None for all")
    if strategy not in ("decisive", "depth"):
        raise InvalidInput("strategy", strategy, "'decisive' or 'depth'")
    check_amount("level", level, "a chance between 0 and 1", lambda value: 0 < value < 1)
    check_integer("samples", samples, 100)
    check_integer("seed", seed, 0)
    if highest_grade is not None:
        expected = "a grade above 0, or None for the best one given"
        check_amount("highest_grade", highest_grade, expected, lambda value: 0 < value < math.inf)
    return chosen
