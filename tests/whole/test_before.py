"""What the first edition (commit 4a4c7334) made of generated inputs is made again, bit for bit."""

import gzip
import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import scipy
from llama_index.core.schema import NodeWithScore, TextNode
from packaging.version import Version
from support.intervals import difference_bounds, mean_ends
from support.paths import SHARED

from llama_index_rag_metrics import (
    Comparison,
    Ranking,
    Relevance,
    RetrievalDataset,
    Run,
    Scores,
    Span,
    check_rules,
    compare,
    evaluate,
    score_rankings,
    sweep,
)
from llama_index_rag_metrics.decisions.gate.verdict import Verdict
from llama_index_rag_metrics.metrics.metric_names import limits_of
from llama_index_rag_metrics.statistics.intervals import mean_interval
from llama_index_rag_metrics.statistics.resampling import joint_levels

FOLDER = SHARED / "data" / "before"
pytestmark = [
    pytest.mark.skipif(not FOLDER.is_dir(), reason="needs ../shared/data/before"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
]


def stored(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(
        gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes())
    )
    assert rows
    return rows


def plain(value: Any) -> Any:
    """The value as JSON gives it back: NaN and None are the same."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and math.isnan(value) else value


def without_nan(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: plain(value) for name, value in values.items()}


def check_scores(scores: Scores, row: dict[str, Any]) -> None:
    for name, values in row["values"].items():
        assert without_nan(scores.by_query(name)) == without_nan(values), name
    assert without_nan(scores.means) == without_nan(row["means"])


def score_ids(row: dict[str, Any]) -> Scores:
    return score_rankings(row["labels"], row["rankings"], list(row["values"]))


def score_groups(row: dict[str, Any]) -> Scores:
    labels = {query: Relevance(groups=groups) for query, groups in row["labels"].items()}
    return score_rankings(labels, row["rankings"], list(row["values"]))


def score_spans(row: dict[str, Any]) -> Scores:
    labels = {
        query: Relevance(spans=[Span(*span) for span in spans])
        for query, spans in row["labels"].items()
    }
    rankings = {}
    for query, spans in row["retrieved"].items():
        ids = [f"c{position}" for position in range(len(spans))]
        rankings[query] = Ranking(ids, spans=[Span(*span) for span in spans])
    return score_rankings(labels, Run(rankings), list(row["values"]))


@pytest.mark.parametrize(
    ("kind", "score"), [("ids", score_ids), ("groups", score_groups), ("spans", score_spans)]
)
def test_scores_are_those_of_before(kind: str, score: Callable[[dict[str, Any]], Scores]) -> None:
    rows = [row for row in stored("scores") if row["kind"] == kind]
    assert len(rows) >= 60
    for row in rows:
        check_scores(score(row), row)


def test_matching_by_text_is_that_of_before() -> None:
    metrics = ["recall@5", "ndcg@5", "mrr", "precision@5"]
    ids = ["e0", "e1", "e2"]
    for row in stored("matching"):
        dataset = RetrievalDataset(
            {"q": "?"}, {"q": ids}, dict(zip(ids, row["expected"], strict=True))
        )
        nodes = [
            NodeWithScore(node=TextNode(id_=f"r{rank}", text=text), score=1 - rank / 10)
            for rank, text in enumerate(row["retrieved"])
        ]
        results = evaluate(lambda query, nodes=nodes: nodes, dataset, metrics, matcher="text")
        assert dict(results.scores.means) == row["means"]


def tables(row: dict[str, Any]) -> dict[str, Scores]:
    return {
        name: Scores(row["ids"], columns, metadata=row["metadata"])
        for name, columns in row["systems"].items()
    }


UNCHANGED = ("n", "mean", "baseline_mean", "difference", "wins", "ties", "losses", "outcome")

# SciPy 1.15, the last one for Python 3.10, finds quantiles less exactly than later ones
TOLERANCE = 1e-12 if Version(scipy.__version__) >= Version("1.16") else 1e-9


def close_to(value: Any) -> Any:
    return pytest.approx(value, rel=1e-12, abs=TOLERANCE)


def groups_of(row: dict[str, Any], scores: Sequence[float | None]) -> list[list[float]]:
    """The scores of each conversation, or of each question."""
    groups: dict[str, list[float]] = {}
    for query_id, score in zip(row["ids"], scores, strict=True):
        if score is not None and not math.isnan(score):
            name = row["metadata"].get(query_id, {}).get("conversation", f"alone {query_id}")
            groups.setdefault(name, []).append(score)
    return [*groups.values()]


def ends_of_mean(
    groups: list[list[float]], metric: str, confidence: float, half: float
) -> tuple[float | None, float | None]:
    """The ends by their formula; those of zeros and ones alone are the package's, as before."""
    if len(groups) < 2:
        return None, None
    scores = [score for group in groups for score in group]
    if {*scores} <= {0.0, 1.0}:
        numbers = [number for number, group in enumerate(groups) for _ in group]
        clusters = None if len(groups) == len(scores) else numbers
        interval = mean_interval(scores, confidence=confidence, clusters=clusters)
        return interval.low, interval.high
    return mean_ends(groups, confidence, limits_of(metric), half)


def cuts(
    row: dict[str, Any], scores: Sequence[float | None], metric: str, level: float, half: float
) -> tuple[float, float]:
    """The lowest and the highest true difference from a baseline with these scores."""
    lowest, highest = limits_of(metric)
    low, high = ends_of_mean(groups_of(row, scores), metric, 1 - level, half)
    if low is None or high is None or not math.isfinite(highest - lowest):
        return -math.inf, math.inf
    return lowest - high, highest - low


def same(row: Any, before: dict[str, Any], names: Sequence[str]) -> bool:
    return {name: plain(getattr(row, name)) for name in names} == {
        name: before[name] for name in names
    }


def nearly(value: float | None, before: float | None) -> bool:
    """Whether both are missing, or equal but for what SciPy's releases differ in."""
    if value is None or before is None:
        return value is before
    return bool(value == close_to(before))


def test_comparisons_are_those_of_before() -> None:
    """Ends are those of before by the formulas of before, and today's by today's."""
    for row in stored("compare"):
        comparison = compare(tables(row), row["baseline"], confidence=row["confidence"])
        for before in row["means"]:
            system, metric = before["system"], before["metric"]
            interval = comparison.means[system, metric]
            assert same(interval, before, ["mean"])
            groups = groups_of(row, row["systems"][system][metric])
            earlier = before["low"], before["high"]
            for ends, half in ((earlier, 0.0), ((interval.low, interval.high), 0.5)):
                by_formula = ends_of_mean(groups, metric, row["confidence"], half)
                assert ends == close_to(by_formula)
        assert len(list(comparison)) == len(row["differences"])
        for before in row["differences"]:
            difference = comparison[before["system"], before["metric"]]
            assert same(difference, before, UNCHANGED)
            assert nearly(difference.detectable, before["detectable"])
        check_differences(row, comparison)


def check_differences(row: dict[str, Any], comparison: Comparison) -> None:
    paired, baseline = comparison.paired, row["baseline"]
    for is_primary in (True, False):
        family = [
            before
            for before in row["differences"]
            if (before["metric"] == comparison.primary) == is_primary
        ]
        if not family:
            continue
        keys = [(before["system"], before["metric"], baseline) for before in family]
        units, columns = paired.units(keys), np.arange(len(keys))
        (level,) = joint_levels(units, [columns], alpha=round(1 - row["confidence"], 12))
        for before, key in zip(family, keys, strict=True):
            difference = comparison[key[0], key[1]]
            groups = groups_of(row, paired.values(*key).tolist())
            if len(groups) < 2:
                assert difference.low is before["low"] is None
                continue
            scored = np.where(
                np.isnan(paired.values(*key)), np.nan, paired.values(baseline, key[1])
            )
            for ends, half in (
                ((before["low"], before["high"]), 0.0),
                ((difference.low, difference.high), 0.5),
            ):
                low, high = difference_bounds(
                    groups, paired.widest([key]).item(), 1 - level / 2, is_noise_counted=not half
                )
                lowest, highest = cuts(row, scored.tolist(), key[1], level, half)
                low, high = min(low, before["difference"]), max(high, before["difference"])
                expected = np.clip([low, high], lowest, highest)
                assert ends == close_to(expected.tolist())


VERDICT_FIELDS = ("metric", "value", "baseline", "difference", "n")


def test_verdicts_of_the_gate_are_those_of_before() -> None:
    """But for one: 15 questions no longer show that ndcg@10 is at least 0.4, 0.359 now."""
    changed = []
    for row in stored("gate"):
        scores = tables(row)
        rules = [verdict["rule"] for verdict in row["verdicts"]]
        report = check_rules(scores["b"], rules, baseline=scores["a"])
        for verdict, before in zip(report.verdicts, row["verdicts"], strict=True):
            assert same(verdict, before, VERDICT_FIELDS)
            if verdict.outcome != before["outcome"]:
                changed.append((before["rule"], before["n"], before["outcome"], verdict.outcome))
            if before["lower"] is None:
                assert verdict.lower is None
            elif before["baseline"] is None:
                check_bounds_of_a_mean(row, verdict, before)
            else:
                check_bounds_of_a_difference(row, verdict, before)
    assert changed == [("ndcg@10 >= 0.4 at 95%", 15, "pass", "inconclusive")]


def check_bounds_of_a_mean(row: dict[str, Any], verdict: Verdict, before: dict[str, Any]) -> None:
    groups = groups_of(row, row["systems"]["b"][verdict.metric])
    for bounds, half in (
        ((before["lower"], before["upper"]), 0.0),
        ((verdict.lower, verdict.upper), 0.5),
    ):
        low, _ = ends_of_mean(groups, verdict.metric, 0.9, half)
        _, high = ends_of_mean(groups, verdict.metric, 1 - 0.1 / verdict.together, half)
        assert bounds == close_to((low, high))


def check_bounds_of_a_difference(
    row: dict[str, Any], verdict: Verdict, before: dict[str, Any]
) -> None:
    """The lower bound is that of pseudo-queries with R counted twice, the upper one Student's."""
    if verdict.identical:
        assert (verdict.lower, verdict.upper) == (before["lower"], before["upper"])
        return
    systems, metric = row["systems"], verdict.metric
    scores = np.array([systems[name][metric] for name in "ab"], np.float64)
    changes = np.round(scores[1] - scores[0], 15)
    widest = float(np.nanmax(np.append(scores, 0.0)))
    baseline = np.where(np.isnan(changes), np.nan, scores[0])
    confidence = verdict.rule.confidence
    assert confidence is not None
    for bounds, half in (
        ((before["lower"], before["upper"]), 0.0),
        ((verdict.lower, verdict.upper), 0.5),
    ):
        low, _ = difference_bounds(
            groups_of(row, changes.tolist()),
            widest if np.ptp(scores[~np.isnan(scores)]) > 0 else 1.0,
            confidence,
            counted=2,
            is_noise_counted=not half,
        )
        lowest, highest = cuts(row, baseline.tolist(), metric, 1 - confidence, half)
        assert bounds[0] == close_to(np.clip(low, lowest, highest))
        if bounds[1] != close_to(before["upper"]):  # cut off
            assert bounds[1] == close_to(highest)
    groups = groups_of(row, changes.tolist())
    alike, sized = (
        difference_bounds(groups, widest, confidence, is_noise_counted=is_noise_counted)
        for is_noise_counted in (True, False)
    )
    if alike == sized:
        assert verdict.needed == before["needed"]
        assert nearly(verdict.decidable, before["decidable"])


def sweep_of(row: dict[str, Any]) -> Any:
    places = row["places"]
    n_queries = len(next(iter(places.values())))
    queries = {f"q{number:03}": f"{number}" for number in range(n_queries)}
    dataset = RetrievalDataset(queries, {query: [f"d{text}"] for query, text in queries.items()})

    def build(c: str) -> Callable[[str], list[str]]:
        def retrieve(text: str) -> list[str]:
            above = places[c][int(text)] - 1
            return [
                *(f"x{n}" for n in range(above)),
                f"d{text}",
                *(f"y{n}" for n in range(12 - above - 1)),
            ]

        return retrieve

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sweep(build, {"c": list(places)}, dataset, row["metrics"])


def test_sweeps_are_those_of_before() -> None:
    for row in stored("sweep"):
        result = sweep_of(row)
        assert getattr(result.winner, "name", None) == row["winner"]
        # correlations are a matrix product, whose last bit depends on the machine's BLAS
        at_most_worse = {c.name: result.at_most_worse(c) for c in result}
        assert at_most_worse == pytest.approx(row["at_most_worse"], rel=1e-12)
        assert [c.name for c in result.within] == row["within"]
