"""Comparing systems of which people scored few questions and a judge many."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from support.intervals import ends, width

from llama_index_rag_metrics import Calibration, Scores, calibrate, compare
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.statistics.prediction_powered import (
    prediction_powered,
    prediction_powered_interval,
)

HUMAN, JUDGED = 60, 500
IDS = [f"q{number:03}" for number in range(JUDGED)]
METADATA = {
    query_id: {"language": "en" if number % 2 else "de"} for number, query_id in enumerate(IDS)
}


def scored(values: np.ndarray, n: int) -> Scores:
    metadata = {query_id: METADATA[query_id] for query_id in IDS[:n]}
    return Scores(IDS[:n], {"ndcg@10": values[:n], "mrr": np.round(values[:n])}, metadata=metadata)


@pytest.fixture(scope="module")
def systems() -> dict[str, Calibration]:
    rng = np.random.default_rng(31)
    base = rng.beta(2, 2, JUDGED)
    better = np.clip(
        base + np.where(rng.random(JUDGED) < 0.5, rng.normal(0.1, 0.15, JUDGED), 0), 0, 1
    )
    misread = rng.random(JUDGED) < 0.2
    permuted = rng.permutation(JUDGED)
    calibrations = {}
    for name, truth in (("bm25", base), ("hybrid", better)):
        judge = np.clip(np.where(misread, truth[permuted], truth) + 0.1, 0, 1)
        calibrations[name] = calibrate(scored(judge, JUDGED), scored(truth, HUMAN))
    return calibrations


def sides(systems: dict[str, Calibration], metric: str) -> tuple[np.ndarray, ...]:
    human, judge = (
        getattr(systems["hybrid"], side).column(metric)
        - getattr(systems["bm25"], side).column(metric)
        for side in ("human", "judge")
    )
    return human, judge[:HUMAN], judge[HUMAN:]


def test_differences_are_calibrated(systems: dict[str, Calibration]) -> None:
    calibrated = compare(systems, "bm25")["hybrid", "ndcg@10"]
    expected = prediction_powered(*sides(systems, "ndcg@10"))
    assert expected.helps
    assert calibrated.difference == pytest.approx(expected.mean)
    t = expected.mean / expected.standard_error
    assert calibrated.p_t == pytest.approx(2 * stats.t.sf(abs(t), HUMAN - 1))
    people = {name: system.human for name, system in systems.items()}
    alone = compare(people, "bm25")["hybrid", "ndcg@10"]
    assert width(calibrated) < width(alone)
    assert (calibrated.wins, calibrated.ties, calibrated.losses) == (
        alone.wins,
        alone.ties,
        alone.losses,
    )
    assert (calibrated.n, calibrated.p_wilcoxon) == (HUMAN, alone.p_wilcoxon)


def test_means_are_those_of_the_calibrations(systems: dict[str, Calibration]) -> None:
    comparison = compare(systems, "bm25")
    for name, calibration in systems.items():
        for metric in ("ndcg@10", "mrr"):
            mean = comparison.means[name, metric]
            calibrated = calibration[metric]
            assert (mean.mean, mean.low, mean.high) == pytest.approx(
                (calibrated.mean, calibrated.low, calibrated.high)
            )
    row = comparison["hybrid", "ndcg@10"]
    assert row.baseline_mean == comparison.means["bm25", "ndcg@10"].mean
    wide = compare(systems, "bm25", confidence=0.99).means["bm25", "mrr"]
    expected = prediction_powered_interval(
        prediction_powered(*(_split(systems["bm25"], "mrr"))), confidence=0.99
    )[1]
    assert (wide.low, wide.high) == pytest.approx((expected.low, expected.high))


def _split(calibration: Calibration, metric: str) -> tuple[np.ndarray, ...]:
    judge = calibration.judge.column(metric)
    return calibration.human.column(metric), judge[:HUMAN], judge[HUMAN:]


def test_verdict_and_interval_agree(systems: dict[str, Calibration]) -> None:
    for difference in compare(systems, "bm25", correction="none"):
        low, high = ends(difference)
        assert difference.significant == (not low <= 0 <= high)


def test_slices_are_calibrated_apart(systems: dict[str, Calibration]) -> None:
    comparison = compare(systems, "bm25", slices="language", correction="none")
    german = np.arange(JUDGED) % 2 == 0
    human, judge, unread = sides(systems, "ndcg@10")
    expected = prediction_powered(
        human[german[:HUMAN]], judge[german[:HUMAN]], unread[german[HUMAN:]]
    )
    of_german = comparison.slices["de"]["hybrid", "ndcg@10"]
    assert (of_german.n, of_german.difference) == (30, pytest.approx(expected.mean))  # type: ignore[comparison-overlap]
    whole = compare(systems, "bm25", correction="none")["hybrid", "ndcg@10"]
    assert comparison["hybrid", "ndcg@10"] == whole


def test_slices_need_metadata_on_one_side_only(systems: dict[str, Calibration]) -> None:
    bare = {
        name: calibrate(system.judge, system.human.replace(metadata={}))
        for name, system in systems.items()
    }
    bare_comparison, full_comparison = (
        compare(side, "bm25", slices="language") for side in (bare, systems)
    )
    assert bare_comparison.slices["de"].differences == full_comparison.slices["de"].differences


def test_a_judge_without_a_clue_changes_nothing(systems: dict[str, Calibration]) -> None:
    rng = np.random.default_rng(2)
    blind = {
        name: calibrate(scored(rng.permutation(system.judge["ndcg@10"]), JUDGED), system.human)
        for name, system in systems.items()
    }
    blinded = compare(blind, "bm25")["hybrid", "mrr"]
    people = {name: system.human for name, system in systems.items()}
    alone = compare(people, "bm25")["hybrid", "mrr"]
    assert blinded.note.startswith("60 human questions alone: the judge's scores hardly follow")
    assert replace(blinded, note="", baseline_mean=0, mean=0) == replace(
        alone, note="", baseline_mean=0, mean=0
    )


def test_the_report_tells_them_apart(systems: dict[str, Calibration]) -> None:
    comparison = compare(systems, "bm25")
    text = comparison.to_markdown()
    assert "hybrid: human and judged questions" in text
    assert "people alone" in text
    assert "60 human and 500 judged questions are worth" in text
    assert "means and differences are calibrated" in text
    data = json.loads(comparison.to_json())
    assert data["calibrations"]["hybrid"][0]["n_judged"] == JUDGED
    assert comparison.calibrations == systems


def test_wilcoxons_test_isnt_of_calibrated_scores(systems: dict[str, Calibration]) -> None:
    with pytest.raises(InvalidInput, match=r"test.*with calibrated scores"):
        compare(systems, "bm25", test="wilcoxon")


def test_clusters(systems: dict[str, Calibration]) -> None:
    documents = {query_id: number // 3 for number, query_id in enumerate(IDS)}
    comparison = compare(systems, "bm25", clusters=documents)
    human, judge, unread = sides(systems, "ndcg@10")
    expected = prediction_powered(human, judge, unread, clusters=np.arange(JUDGED) // 3)
    row = comparison["hybrid", "ndcg@10"]
    assert row.difference == pytest.approx(expected.mean)
    # 60 of the human questions, three to a document
    t = expected.mean / expected.standard_error
    assert row.p_t == pytest.approx(2 * stats.t.sf(abs(t), HUMAN // 3 - 1))
    of_bm25 = calibrate(systems["bm25"].judge, systems["bm25"].human, clusters=documents)
    mean = comparison.means["bm25", "ndcg@10"]
    assert (mean.low, mean.high) == pytest.approx((of_bm25["ndcg@10"].low, of_bm25["ndcg@10"].high))
    by_slice = compare(systems, "bm25", clusters=documents, slices="language")
    assert {*by_slice.slices} == {"de", "en"}


def test_clusters_are_of_judged_questions_too(systems: dict[str, Calibration]) -> None:
    of_people = {query_id: number // 3 for number, query_id in enumerate(IDS[:HUMAN])}
    with pytest.raises(InvalidInput, match="one for each of 500 questions"):
        compare(systems, "bm25", clusters=of_people)


def test_metrics_that_werent_calibrated_arent_compared(systems: dict[str, Calibration]) -> None:
    some = {
        name: calibrate(
            system.judge,
            system.human.replace(columns={**system.human.columns, "ap": system.human["mrr"]}),
        )
        for name, system in systems.items()
    }
    assert compare(some, "bm25").metric_names == ("ndcg@10", "mrr")
    first = {
        name: calibrate(system.judge, system.human, metrics="mrr")
        for name, system in systems.items()
    }
    comparison = compare(first, "bm25")
    assert comparison.metric_names == ("mrr",)
    assert "people alone" in comparison.to_markdown()


def test_all_or_none(systems: dict[str, Calibration]) -> None:
    mixed = {"bm25": systems["bm25"].human, "hybrid": systems["hybrid"]}
    with pytest.raises(InvalidInput, match="systems are calibrated, but not 'bm25'"):
        compare(mixed, "bm25")  # type: ignore[arg-type]
