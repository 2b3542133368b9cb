"""Curves against the metrics and pytrec_eval; figures against the numbers that they show."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from llama_index_rag_metrics.report.plots import draw
from support.reported import EVIL, METRICS, baseline, comparison, other

from llama_index_rag_metrics import (
    BinaryMetric,
    EvaluationResults,
    Ranking,
    Relevance,
    Run,
    Scores,
    Span,
    compare,
    plot,
    score_rankings,
)
from llama_index_rag_metrics.evaluation.results import curves
from llama_index_rag_metrics.evaluation.results.curves import (
    RECALL_LEVELS,
    cutoffs_of,
    interpolated_precision,
    means_by_cutoff,
)
from llama_index_rag_metrics.evaluation.results.results_report import system_of
from llama_index_rag_metrics.rankings.judging.judged import Hits
from llama_index_rag_metrics.rankings.matching.matcher_names import Matched
from llama_index_rag_metrics.report.figure import Axis, Figure, Series
from llama_index_rag_metrics.runtime.arrays import FloatArray
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra, UnknownMetric

ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;"


def random_results(names: list[Any], queries: int = 300) -> EvaluationResults:
    """Up to 12 relevant of 40 items, from 1 to 20 retrieved."""
    rng = np.random.default_rng(7)
    relevance, run = {}, {}
    for n in range(queries):
        items = rng.choice(40, rng.integers(1, 13), replace=False).tolist()
        grades = rng.integers(-1, 4, len(items)).tolist()
        grades[0] = 1
        judged = zip(items, grades, strict=True)
        relevance[f"q{n}"] = Relevance({f"d{item}": grade for item, grade in judged})
        run[f"q{n}"] = [f"d{item}" for item in rng.choice(40, rng.integers(1, 21), replace=False)]
    scores = score_rankings(relevance, run, names)
    return EvaluationResults([], run=Run(run), relevance=relevance, scores=scores)


@pytest.mark.parametrize(
    "name",
    ["ndcg@10", "ndcg(mode=exponential)@10", "recall(min_grade=2)@10", "ap@10", "f(beta=2)@10",
     "rbp(p=0.5)@10", "err(max_grade=3)@10", "hit_rate@10", "judged@10", "group_recall@10"],
)  # fmt: skip
def test_the_curve_passes_through_the_metric_itself(name: str) -> None:
    results = random_results([name, name.replace("@10", "@3")])
    curve = means_by_cutoff(system_of(results), name, [3, 10])

    for k in (3, 10):
        assert curve[k] == results.scores.means[name.replace("@10", f"@{k}")]
    assert curve[3] != curve[10]


def measured_results(names: list[str]) -> EvaluationResults:
    """Rankings of which tokens and places are known; one query failed."""
    rng = np.random.default_rng(3)
    relevance, run = {}, {}
    for n in range(60):
        spans = [Span("book", int(start), int(start) + 40) for start in rng.integers(0, 300, 9)]
        relevance[f"q{n}"] = Relevance.of_spans(spans[:2])
        ids = [f"d{item}" for item in rng.choice(20, 7, replace=False)]
        tokens = rng.integers(20, 90, 7).tolist()
        run[f"q{n}"] = Ranking(ids, spans=spans[2:], tokens=tokens)
    run["q0"] = Ranking(error="TimeoutError")
    scores = score_rankings(relevance, run, names)
    return EvaluationResults([], run=Run(run), relevance=relevance, scores=scores)


@pytest.mark.parametrize("name", ["span_recall", "span_iou", "judged"])
def test_the_curve_over_tokens_passes_through_the_metric_itself(name: str) -> None:
    by_budget = [f"{name}@{n}tokens" for n in (90, 200)]
    results = measured_results([*by_budget, f"{name}@3", name])
    for variant in (*by_budget, f"{name}@3"):
        curve = means_by_cutoff(system_of(results), variant, [90, 200], in_tokens=True)
        assert curve == {n: results.scores.means[f"{name}@{n}tokens"] for n in (90, 200)}
        by_rank = means_by_cutoff(system_of(results), variant, [3])
        assert by_rank == {3: results.scores.means[f"{name}@3"]}
    (drawn,) = results.plot("by_tokens", by_budget[1]).data
    points = dict(zip(drawn.x, drawn.y, strict=True))
    assert points[200] == results.scores.means[by_budget[1]]
    assert points[max(points)] == results.scores.means[name]  # all that was retrieved
    assert max(points) == max(sum(ranking.tokens or ()) for ranking in results.run.values())
    assert list(points) == sorted(points)


def test_without_counts_there_is_no_curve_over_tokens() -> None:
    results = random_results(["recall@3"])
    with pytest.raises(InvalidInput, match="by_tokens"):
        results.plot("by_tokens")
    assert results.plot("by_cutoff").data


def test_the_curve_of_some_queries_is_theirs() -> None:
    results = random_results(["mrr@5"])
    chosen = list(results.run)[:50]
    expected = results.scores.select(chosen).means["mrr@5"]
    assert means_by_cutoff(system_of(results), "mrr@5", [5], chosen)[5] == expected


def test_metrics_without_a_cutoff_have_no_curve() -> None:
    results = random_results(["r_precision", "ndcg(ideal=all)"])
    assert means_by_cutoff(system_of(results), "r_precision", [1, 2]) == {}
    assert set(means_by_cutoff(system_of(results), "ndcg(ideal=all)", [1, 2])) == {1, 2}
    assert means_by_cutoff(system_of(results), "ndcg(ideal=all)", []) == {}


class Shallow(BinaryMetric):
    """Hits, counted only where nobody looks deeper than 5."""

    name = "shallow"

    def score(self, hits: Hits) -> FloatArray:
        if hits.cutoff is not None and hits.cutoff > 5:
            raise ValueError("too deep")
        return hits.sum_by_query(1.0 / hits.n_relevant[hits.query])


def test_a_cutoff_at_which_a_metric_fails_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = {"shallow@3": Shallow(k=3)}
    monkeypatch.setattr(curves, "resolve", metrics.__getitem__)
    results = random_results([metrics["shallow@3"]])
    means = means_by_cutoff(system_of(results), "shallow@3", [1, 3, 20])
    assert set(means) == {1, 3}
    assert means[3] == results.scores.means["shallow@3"]


def test_interpolated_precision_is_trec_evals() -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="pytrec_eval-terrier isn't installed")
    results = random_results(["ap"])
    qrels = {
        query_id: {item: int(grade) for item, grade in judged.grades.items()}
        for query_id, judged in results.relevance.items()
    }
    run = {
        query_id: {item: float(-position) for position, item in enumerate(ranking.ids)}
        for query_id, ranking in results.run.items()
    }
    levels = ",".join(f"{level:.2f}" for level in RECALL_LEVELS)
    by_query = pytrec_eval.RelevanceEvaluator(qrels, {f"iprec_at_recall.{levels}"}).evaluate(run)
    expected = [
        np.mean([values[f"iprec_at_recall_{level:.2f}"] for values in by_query.values()])
        for level in RECALL_LEVELS
    ]

    np.testing.assert_allclose(
        list(interpolated_precision(system_of(results), "ap").values()), expected, atol=1e-12
    )
    assert len(set(expected)) > 5


def test_curves_are_of_what_the_matcher_made_of_the_run() -> None:
    results = random_results(["recall@5"])
    matched = Matched(
        "text", Run({query_id: list(judged) for query_id, judged in results.relevance.items()}),
        results.relevance, {}, {}, {},
    )  # fmt: skip
    results.matched, results.matched_by = {"text": matched}, {"recall@5": "text"}
    assert means_by_cutoff(system_of(results), "recall@5", [20]) == {20: 1.0}
    curve = interpolated_precision(system_of(results), "recall@5")
    assert list(curve.values()) == [1.0] * 11


def test_cutoffs_are_dense_at_the_top_and_end_with_the_longest_ranking() -> None:
    assert cutoffs_of([system_of(baseline()), system_of(other())]) == [1, 2, 3]
    deep = EvaluationResults(
        [], run=Run({"q": list(map(str, range(33)))}), relevance={}, scores=Scores([], {})
    )
    assert cutoffs_of([system_of(deep)]) == [*range(1, 11), 15, 20, 30, 33]
    assert cutoffs_of([]) == []


def traces(figure: Any) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


def test_means_stand_with_their_intervals() -> None:
    compared = comparison()
    drawn = traces(plot(compared))

    assert set(drawn) == {"baseline", ESCAPED}
    for name, trace in zip(("baseline", EVIL), drawn.values(), strict=True):
        assert list(trace.y) == METRICS
        for metric, x, above, below in zip(
            METRICS, trace.x, trace.error_x.array, trace.error_x.arrayminus, strict=True
        ):
            mean = compared.means[name, metric]
            assert x == mean.mean
            if mean.low is None:
                assert above is None
                assert below is None
            else:
                assert x - below == pytest.approx(mean.low)
                assert x + above == pytest.approx(mean.high)


def test_differences_stand_with_their_significance() -> None:
    compared = comparison()
    (trace,) = plot(compared, "differences").data

    assert trace.name == ESCAPED
    assert list(trace.x) == [difference.difference for difference in compared]
    assert all(symbol.endswith("-open") for symbol in trace.marker.symbol)  # 4 queries show nothing


@pytest.mark.parametrize("kind", ["means", "latency", "by_cutoff"])
def test_each_of_many_systems_has_marks_and_lines_of_its_own(kind: str) -> None:
    results = random_results(["ndcg@10"], queries=5)
    for ranking in results.run.values():
        object.__setattr__(ranking, "latency", 0.1)
    traces = plot(compare({f"s{n}": results for n in range(28)}, "s0", resamples=100), kind).data
    looks = {
        (trace.marker.color, trace.line.color, trace.line.dash, str(trace.marker.symbol))
        if trace.mode != "lines"
        else (trace.line.color, trace.line.dash)
        for trace in traces
    }
    assert len(looks) == len(traces) == 28


def test_no_difference_and_not_zero_stands_at_the_edge() -> None:
    compared = comparison()
    low, high = plot(compared, "differences").layout.xaxis.range
    ends = [
        end
        for difference in compared
        for end in (difference.low, difference.difference, difference.high, 0)
        if end
    ]
    assert low < min(0, *ends)
    assert high > max(0, *ends)
    same = compare({"a": baseline(), "b": baseline()}, "a", resamples=100)
    ends = [end for difference in same for end in (difference.low, difference.high)]  # type: ignore[misc]
    low, high = plot(same, "differences").layout.xaxis.range
    assert low < min(ends) < 0 < max(ends) < high


def test_the_distribution_counts_every_query_but_the_same() -> None:
    compared = comparison()
    (trace,) = plot(compared, "distribution", "mrr").data
    # 1/2 to 1; 1 to 1/2; 1 to 0, failed; 1 to 0, empty
    assert sum(trace.y) == 4
    assert trace.name == f"{ESCAPED} (0 the same)"
    below = sum(count for middle, count in zip(trace.x, trace.y, strict=True) if middle < 0)
    assert below == 3


def test_the_distribution_of_many_systems_has_a_box_for_each() -> None:
    ids = [f"q{number}" for number in range(101)]
    zero = Scores(ids, {"mrr": [0.0] * 101})
    ramp = Scores(ids, {"mrr": [number / 100 for number in range(101)]})
    systems = {"a": zero, "b": ramp, "c": ramp, EVIL: ramp, "e": zero}
    boxes = plot(compare(systems, "a", resamples=100), "distribution", "mrr").data
    assert [box.name for box in boxes] == ["b", "c", ESCAPED, "e"]
    # of 0, 0.01, …, 1: 9 in 10 differences lie between the ends, half of them in the box
    for box in boxes[:3]:
        numbers = (box.lowerfence[0], box.q1[0], box.median[0], box.q3[0], box.upperfence[0])
        assert numbers == pytest.approx((0.05, 0.25, 0.5, 0.75, 0.95))
    assert boxes[3].upperfence == (0.0,)


def test_points_have_names_and_a_line_of_its_own_has_no_marks() -> None:
    points = Series("all", 0, [1, 2], [0.1, 0.2], remarks=["a: 1", "<b>: 2"], labels=["a", "<b>"])
    line = Series("front", 1, [1, 2], [0.1, 0.2], is_line=True)
    drawn = draw(Figure("marks", Axis("tokens"), Axis("mrr"), [points, line], "%{customdata}"))
    assert drawn.data[0].text == ("a", "&lt;b&gt;")
    assert (drawn.data[0].mode, drawn.data[1].mode) == ("markers+text", "lines")


def test_of_many_systems_names_stand_at_rows_and_the_best_comes_first() -> None:
    scores = [Scores(["q1", "q2"], {"mrr": [mean, mean], "ap": [1 - mean, 1.0]})
              for mean in (0.0, 0.25, 0.5, 0.75, 1.0)]  # fmt: skip
    compared = compare({f"run-{n}": each for n, each in enumerate(scores)}, "run-0", resamples=100)
    one = plot(compared, "means", "mrr")
    assert [trace.y[0] for trace in one.data] == [f"run-{n}" for n in (4, 3, 2, 1, 0)]
    both = plot(compared, "means").data[0]
    assert [list(names) for names in both.y] == [["mrr", "ap"], ["run-4", "run-4"]]
    assert not one.layout.showlegend


@pytest.mark.parametrize(
    ("seconds", "ticks"),
    [
        ((0.010, 0.020), ["10", "20"]),
        ((0.115, 0.128), ["100", "200"]),  # between two ticks
        ((0.1, 0.1), ["100", "200"]),
        ((math.nextafter(1.0, 0.0),) * 2, ["500", "1000"]),  # whose logarithm is that of 1000
        ((0.0123, 0.4), ["10", "20", "50", "100", "200", "500"]),
        ((0.0004, 12.0), ["0.1", "1", "10", "100", "1000", "10000", "100000"]),
    ],
)
def test_latency_has_whole_numbers_on_its_axis(seconds: Sequence[float], ticks: list[str]) -> None:
    run = Run({f"q{n}": Ranking(["a"], latency=latency) for n, latency in enumerate(seconds)})
    scores = score_rankings({query_id: ["a"] for query_id in run}, run, "mrr")
    results = EvaluationResults([], run=run, relevance={}, scores=scores)
    axis = plot(results, "latency").layout.xaxis
    assert list(axis.ticktext) == ticks
    low, high = axis.range
    # in milliseconds, by powers of ten, as plotly wants the ends of such an axis
    assert (10**low, 10**high) == pytest.approx((float(ticks[0]), float(ticks[-1])))


def test_latency_reaches_every_query_that_did_not_fail() -> None:
    drawn = traces(plot(comparison(), "latency"))
    assert (min(drawn["baseline"].x), max(drawn["baseline"].x)) == (10.0, 20.0)  # ms
    assert max(drawn[ESCAPED].x) == 4.0  # the failed query took a second
    assert drawn["baseline"].y[-1] == 1


@pytest.mark.parametrize("kind", ["by_cutoff", "precision_recall"])
def test_curves_are_drawn_for_every_system(kind: str) -> None:
    drawn = traces(plot([baseline(), other()], kind, "recall@2"))
    assert set(drawn) == {"baseline", ESCAPED}
    assert baseline().plot(kind).data[0].name == "baseline"


def test_no_label_of_a_figure_is_markup() -> None:
    compared = comparison()
    for kind in ("means", "differences", "distribution", "by_cutoff", "precision_recall"):
        assert "<script" not in str(compared.plot(kind).to_dict()).lower()


def test_what_cannot_be_drawn_is_refused() -> None:
    scores = Scores(["q"], {"mrr": [1.0]})
    of_rankings = ("by_cutoff", "by_tokens", "precision_recall")
    for kind in ("differences", "distribution", *of_rankings, "latency"):
        with pytest.raises(InvalidInput, match=kind):
            plot(scores, kind)
    with pytest.raises(InvalidInput, match="'means' or 'differences'"):
        plot(scores, "pie")
    with pytest.raises(UnknownMetric):
        plot(scores, "means", "ndcg")


def test_a_missing_plotly_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [module for module in sys.modules if module.split(".")[0] == "plotly"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(MissingExtra, match=r"pip install .*\[report\]'"):
        plot(comparison())
