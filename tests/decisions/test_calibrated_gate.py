"""The gate on scores of which people gave few and a judge many."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from llama_index_rag_metrics import Baseline, Calibration, Scores, calibrate, check_rules
from llama_index_rag_metrics.decisions.gate.checking_rules import update_baseline
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput
from llama_index_rag_metrics.statistics.differences import pseudo_queries, student
from llama_index_rag_metrics.statistics.prediction_powered import (
    prediction_powered,
    prediction_powered_interval,
)
from llama_index_rag_metrics.statistics.resampling import Units

HUMAN, JUDGED, METRIC = 80, 600, "ndcg@10"
RNG = np.random.default_rng(47)
TRUTH = RNG.beta(2, 2, JUDGED)
MISREAD = np.where(RNG.random(JUDGED) < 0.15, RNG.permutation(JUDGED), np.arange(JUDGED))


def calibrated(truth: np.ndarray) -> Calibration:
    judge = np.clip(truth[MISREAD] + 0.1, 0, 1)
    ids = [f"q{number:03}" for number in range(JUDGED)]
    return calibrate(Scores(ids, {METRIC: judge}), Scores(ids[:HUMAN], {METRIC: truth[:HUMAN]}))


BEFORE = calibrated(TRUTH)
NOISY = calibrated(np.clip(TRUTH + RNG.normal(0, 0.05, JUDGED), 0, 1))
WORSE = calibrated(np.clip(TRUTH - 0.1 + RNG.normal(0, 0.05, JUDGED), 0, 1))


def parts(now: Calibration) -> tuple[np.ndarray, ...]:
    human = now.human.column(METRIC) - BEFORE.human.column(METRIC)
    judge = now.judge.column(METRIC) - BEFORE.judge.column(METRIC)
    return human, judge[:HUMAN], judge[HUMAN:]


class TestAlone:
    def test_the_bound_is_of_the_calibrated_interval(self) -> None:
        (verdict,) = check_rules(BEFORE, f"{METRIC} >= 0.4 at 95%")
        column = BEFORE.judge.column(METRIC)
        combined = prediction_powered(TRUTH[:HUMAN], column[:HUMAN], column[HUMAN:])
        _, interval = prediction_powered_interval(combined, confidence=0.9)
        assert (verdict.lower, verdict.upper) == pytest.approx((interval.low, interval.high))
        assert verdict.value == pytest.approx(BEFORE[METRIC].mean)
        assert verdict.outcome == "pass"

    def test_a_plain_limit_is_of_the_calibrated_mean(self) -> None:
        mean, alone = BEFORE[METRIC].mean, BEFORE.human.means[METRIC]
        between = (mean + alone) / 2
        sign = ">=" if mean > alone else "<="
        assert check_rules(BEFORE, f"{METRIC} {sign} {between:.6f}").outcome == "pass"
        assert check_rules(BEFORE.human, f"{METRIC} {sign} {between:.6f}").outcome == "fail"


class TestAgainstABaseline:
    @pytest.mark.parametrize(("now", "outcome"), [(NOISY, "pass"), (WORSE, "fail")])
    def test_bounds_are_of_the_calibrated_difference(self, now: Calibration, outcome: str) -> None:
        report = check_rules(now, f"{METRIC} >= baseline - 0.03", baseline=BEFORE)
        (verdict,) = report
        human, *judge = parts(now)
        combined = prediction_powered(human, *judge)
        units = Units.of(combined.values[:, None], changes=human[:, None])
        sides = [side.column(METRIC) for each in (now, BEFORE) for side in (each.human, each.judge)]
        reach = max(map(np.max, sides))  # from 0, the worst score
        ((bound,), _) = pseudo_queries(units, reach, counted=2).bounds(0.95)
        assert verdict.difference == pytest.approx(combined.mean)
        assert verdict.lower == pytest.approx(bound)
        assert verdict.upper == pytest.approx(float(student(units).bounds(0.95)[1][0]))
        assert (verdict.outcome, verdict.n) == (outcome, HUMAN)
        assert any("80 human and 600 judged questions are worth" in note for note in report.notes)

    def test_the_file_keeps_both(self, tmp_path: Path) -> None:
        path = tmp_path / "baseline.json"
        update_baseline(path, BEFORE, rules=f"{METRIC} >= baseline - 0.03")
        stored = Baseline.load(path)
        assert stored.judged is not None
        np.testing.assert_allclose(stored.judged[METRIC], BEFORE.judge[METRIC], atol=1e-12)
        rule = f"{METRIC} >= baseline - 0.03"
        for now in (NOISY, WORSE):
            from_file, direct = (
                check_rules(now, rule, baseline=baseline) for baseline in (path, BEFORE)
            )
            for ours, theirs in zip(from_file, direct, strict=True):
                assert (ours.lower, ours.upper) == pytest.approx((theirs.lower, theirs.upper))
        update_baseline(path, NOISY)
        again = Baseline.load(path)
        assert again.anchor is not None
        assert again.anchor.judged is not None
        assert Baseline.load(path).to_json() == again.to_json()

    def test_people_alone_can_be_held_against_it(self, tmp_path: Path) -> None:
        rule = f"{METRIC} >= baseline - 0.03"
        alone = check_rules(NOISY.human, rule, baseline=BEFORE.human)
        assert check_rules(NOISY.human, rule, baseline=BEFORE).outcome == alone.outcome

    def test_a_baseline_of_people_alone_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="stored from calibrated scores"):
            check_rules(NOISY, f"{METRIC} >= baseline - 0.03", baseline=BEFORE.human)

    def test_a_damaged_file(self, tmp_path: Path) -> None:
        path = tmp_path / "baseline.json"
        update_baseline(path, BEFORE)
        text = path.read_text(encoding="utf-8")
        start = text.index('"q599": [')
        path.write_text(text[:start] + '"q599": [1, 2' + text[text.index("]", start) :])
        with pytest.raises(FileFormatError):
            Baseline.load(path)


class TestClusters:
    DOCUMENTS: ClassVar = {f"q{number:03}": number // 4 for number in range(JUDGED)}

    def test_alone(self) -> None:
        rule = f"{METRIC} >= 0.4 at 95%"
        (verdict,) = check_rules(BEFORE, rule, clusters=self.DOCUMENTS)
        of_documents = calibrate(
            BEFORE.judge, BEFORE.human, clusters=self.DOCUMENTS, confidence=0.9
        )[METRIC]
        assert (verdict.lower, verdict.upper) == pytest.approx(
            (of_documents.low, of_documents.high)
        )

    def test_against_a_baseline(self) -> None:
        rule = f"{METRIC} >= baseline - 0.03"
        (verdict,) = check_rules(NOISY, rule, baseline=BEFORE, clusters=self.DOCUMENTS)
        numbers = np.arange(JUDGED) // 4
        human, *judge = parts(NOISY)
        combined = prediction_powered(human, *judge, clusters=numbers)
        units = Units.of(combined.values[:, None], numbers[:HUMAN])
        assert verdict.difference == pytest.approx(combined.mean)
        assert verdict.upper == pytest.approx(float(student(units).bounds(0.95)[1][0]))
