"""Curves against the metrics and pytrec_eval; figures against the numbers that they show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.reported import EVIL, METRICS, baseline, comparison, other

from llama_index_rag_metrics import (
    BinaryMetric,
    Comparison,
    EvaluationResults,
    Relevance,
    RetrievalDataset,
    Run,
    Scores,
    compare,
    evaluate,
    score_rankings,
)
from llama_index_rag_metrics.evaluation.results import evaluation_results
from llama_index_rag_metrics.evaluation.results.evaluation_results import (
    cutoffs_of,
    means_by_cutoff,
    results_report,
    system_of,
)
from llama_index_rag_metrics.rankings.judging.judged import Hits
from llama_index_rag_metrics.rankings.matching.matched import Matched
from llama_index_rag_metrics.report.figure import Figure
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.arrays import FloatArray


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
    monkeypatch.setattr(evaluation_results, "resolve", metrics.__getitem__)
    results = random_results([metrics["shallow@3"]])
    means = means_by_cutoff(system_of(results), "shallow@3", [1, 3, 20])
    assert set(means) == {1, 3}
    assert means[3] == results.scores.means["shallow@3"]


def test_curves_are_of_what_the_matcher_made_of_the_run() -> None:
    results = random_results(["recall@5"])
    matched = Matched(
        "text", Run({query_id: list(judged) for query_id, judged in results.relevance.items()}),
        results.relevance, {}, {}, {},
    )  # fmt: skip
    results.matched, results.matched_by = {"text": matched}, {"recall@5": "text"}
    assert means_by_cutoff(system_of(results), "recall@5", [20]) == {20: 1.0}


def test_cutoffs_are_dense_at_the_top_and_end_with_the_longest_ranking() -> None:
    assert cutoffs_of([system_of(baseline()), system_of(other())]) == [1, 2, 3]
    deep = EvaluationResults(
        [], run=Run({"q": list(map(str, range(33)))}), relevance={}, scores=Scores([], {})
    )
    assert cutoffs_of([system_of(deep)]) == [*range(1, 11), 15, 20, 30, 33]
    assert cutoffs_of([]) == []


def figure_of(reported: Any, kind: str = "means", metric: str | None = None) -> Figure:
    report = reported.report() if isinstance(reported, Reportable) else results_report(reported)
    figure = report.figures[kind](metric)
    assert figure is not None
    return figure


def named(figure: Figure) -> dict[str, Any]:
    return {series.name: series for series in figure.series}


def test_means_stand_with_their_intervals() -> None:
    compared = comparison()
    drawn = named(figure_of(compared))

    assert set(drawn) == {"baseline", EVIL}
    for name, series in drawn.items():
        assert list(series.y) == METRICS
        for metric, x, low, high, remark in zip(
            METRICS, series.x, series.low, series.high, series.remarks, strict=True
        ):
            mean = compared.means[name, metric]
            assert (x, low, high) == (mean.mean, mean.low, mean.high)
            ends = "" if low is None else f" ({low:.4f} to {high:.4f})"
            assert remark == f"{metric}: {x:.4f}{ends}"


def test_differences_stand_with_their_intervals() -> None:
    compared = comparison()
    (series,) = figure_of(compared, "differences").series

    assert series.name == EVIL
    assert list(series.x) == [difference.difference for difference in compared]
    assert all(series.hollow)  # 4 queries show nothing
    for difference, remark in zip(compared, series.remarks, strict=True):
        assert difference.low is not None
        shown = f"{difference.metric}: −{-difference.difference:.4f} (−{-difference.low:.4f} to +"
        assert remark.startswith(shown)


def ends_of(compared: Comparison) -> tuple[float, float]:
    ends = figure_of(compared, "differences").x.ends
    assert ends is not None
    return ends


def test_no_difference_and_not_zero_stands_at_the_edge() -> None:
    compared = comparison()
    low, high = ends_of(compared)
    ends = [
        end
        for difference in compared
        for end in (difference.low, difference.difference, difference.high, 0)
        if end
    ]
    assert low < min(0, *ends)
    assert high > max(0, *ends)
    same = compare({"a": baseline(), "b": baseline()}, "a")
    ends = [end for difference in same for end in (difference.low, difference.high)]  # type: ignore[misc]
    low, high = ends_of(same)
    assert low < min(ends) < 0 < max(ends) < high


@pytest.mark.parametrize("kind", ["by_cutoff"])
def test_curves_are_drawn_for_every_system(kind: str) -> None:
    drawn = figure_of([baseline(), other()], kind, "recall@2")
    assert {*named(drawn)} == {"baseline", EVIL}
    assert {len(series.remarks) - len(series.x) for series in drawn.series} == {0}
    assert figure_of(baseline(), kind).series[0].name == "baseline"


def test_a_curve_is_of_every_time_that_questions_were_asked() -> None:
    answers = {"q1": iter([["a"], ["x", "a"]]), "q2": iter([["x", "y", "b"], []])}
    dataset = RetrievalDataset({"q1": "q1", "q2": "q2"}, {"q1": ["a"], "q2": ["b"]})
    metrics = ["hit_rate@2", "hit_rate@1", "hit_rate@3"]
    results = evaluate(lambda query: next(answers[query]), dataset, metrics, repeats=2, workers=1)
    system = system_of(results)
    curve = means_by_cutoff(system, "hit_rate@2", cutoffs_of([system]))
    assert curve == {1: 1 / 4, 2: 2 / 4, 3: 3 / 4}
    assert curve == {k: results.scores.means[f"hit_rate@{k}"] for k in (1, 2, 3)}
