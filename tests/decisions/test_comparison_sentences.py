"""What a comparison says: a verdict for each difference, and the decision in one line."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from support.compared import three_systems
from support.intervals import ends

from llama_index_rag_metrics import Comparison, Scores, compare


@pytest.fixture(scope="module")
def systems() -> dict[str, Scores]:
    return three_systems()


@pytest.fixture(scope="module")
def comparison(systems: dict[str, Scores]) -> Comparison:
    return compare(systems, "bm25", resamples=2000)


class TestVerdict:
    def test_better(self, comparison: Comparison) -> None:
        hybrid = comparison["hybrid", "ndcg@10"]
        assert hybrid.verdict == (
            f"hybrid is better than bm25 by ndcg@10: {hybrid.difference:+.4f} (95 % interval "
            f"{hybrid.low:+.4f} to {hybrid.high:+.4f}; corrected p < 0.0001); 120 of 120 queries "
            f"changed ({hybrid.wins} better, {hybrid.losses} worse)."
        )

    def test_worse(self, systems: dict[str, Scores]) -> None:
        bm25 = compare(systems, "hybrid", resamples=500, metrics=["ndcg@10"])["bm25", "ndcg@10"]
        assert bm25.verdict.startswith("bm25 is worse than hybrid by ndcg@10: −0.")

    def test_neither(self, comparison: Comparison) -> None:
        dense = comparison["dense", "ndcg@10"]
        assert dense.verdict.startswith("No measurable difference between dense and bm25 by")
        # as many as make what can be shown as small as what was found, rounded up to two digits
        assert dense.detectable is not None
        needed = 120 * (dense.detectable / dense.difference) ** 2
        assert 450 < needed <= 460
        assert dense.verdict.endswith(
            f"; 120 queries would show a true difference of {dense.detectable:.4f} in 4 of 5 "
            "cases; about 460 would show one as large as this."
        )

    def test_the_same(self, systems: dict[str, Scores]) -> None:
        copy = compare({"a": systems["bm25"], "b": systems["bm25"]}, "a")["b", "ndcg@10"]
        assert copy.verdict == (
            "b and a score the same by ndcg@10 on all 120 queries: "
            "95 % interval −0.0230 to +0.0230."
        )
        # pseudo-queries at ±1: √(2 / 122 / 121) × t(121)
        assert copy.high == pytest.approx(math.sqrt(2 / 122 / 121) * stats.t.ppf(0.975, 121))
        assert (copy.p_randomisation, copy.p_t, copy.p_wilcoxon) == (1.0, 1.0, 1.0)
        assert (copy.effect_size, copy.detectable) == (0.0, None)
        assert (copy.wins, copy.ties, copy.losses) == (0, 120, 0)

    def test_lost_to_the_correction(self) -> None:
        # 27 gains and 13 losses of 0.1: t = 0.035 / (0.09487 / √40) = 2.333, p = 0.0249
        base = np.zeros(40)
        changed = np.where(np.arange(40) % 3 == 0, -0.1, 0.1)
        changed[0] = 0.1
        ids = [str(number) for number in range(40)]
        systems = {str(number): Scores(ids, {"m": base}) for number in range(20)}
        systems["b"] = Scores(ids, {"m": changed})
        difference = compare(systems, "0", correction="holm")["b", "m"]
        assert difference.p_t == pytest.approx(0.0249, abs=0.0001)
        assert difference.p_corrected == pytest.approx(20 * difference.p_t)
        assert "; alone it would count as a difference, but it is one of 20 comparisons" in (
            difference.verdict
        )
        # the 19 others are copies of each other
        assert compare(systems, "0")["b", "m"].p_corrected <= 2 * difference.p_t

    def test_few_changes(self) -> None:
        base = [0.5] * 100
        ids = [str(number) for number in range(100)]
        a, few, more = (Scores(ids, {"mrr": [1.0] * gains + base[gains:]}) for gains in (0, 2, 12))
        of_more = compare({"a": a, "b": more}, "a")["b", "mrr"]
        assert of_more.significant
        assert ends(of_more)[0] > 0
        of_few = compare({"a": a, "b": few}, "a")["b", "mrr"]
        assert of_few.detectable is None
        assert of_few.verdict.endswith(
            "2 of 100 queries changed (2 better, 0 worse); too few changed to say how large a "
            "difference 100 queries would show."
        )

    def test_wilcoxon_speaks_of_symmetry(self, systems: dict[str, Scores]) -> None:
        comparison = compare(systems, "bm25", test="wilcoxon")
        assert "Wilcoxon's test is of symmetry about 0, not of the mean" in comparison.notes
        hybrid = comparison["hybrid", "ndcg@10"]
        assert hybrid.verdict.startswith("hybrid differs from bm25 by ndcg@10: ")
        assert hybrid.verdict.endswith("symmetry about 0, not of the mean.")

    def test_wilcoxon_contradicts_the_interval_of_the_mean_with_a_reason(self) -> None:
        # five equal changes: the two-sided p of the signed ranks is 2 / 2**5, above 0.05
        ids = [f"q{number}" for number in range(5)]
        pair = {"a": Scores(ids, {"mrr": [0.2] * 5}), "b": Scores(ids, {"mrr": [0.5] * 5})}
        row = compare(pair, "a", test="wilcoxon")["b", "mrr"]
        assert (row.significant, row.low and row.low > 0) == (False, True)
        assert "symmetry about 0, not of the mean" in row.verdict


def test_a_sentence_never_calls_a_difference_nothing() -> None:
    # 50 similarities that rose by 0.00003, give or take 0.00001
    base, rise = np.linspace(0.7, 0.8, 50), np.linspace(0.00002, 0.00004, 50)
    pair = {
        name: Scores([f"q{number:02d}" for number in range(50)], {"embedding_similarity": column})
        for name, column in (("a", base), ("b", base + rise))
    }
    verdict = compare(pair, "a", resamples=100)["b", "embedding_similarity"].verdict
    assert verdict.startswith(
        "b is better than a by embedding_similarity: +0.000030 (95 % interval +0.000028 to "
    )


@pytest.mark.parametrize(
    ("values", "decision"),
    [
        (
            [math.nan, math.nan],
            "Nothing can be said: no query has a value of mrr for a and another.",
        ),
        ([0.5, math.nan], "A single query can't tell the systems apart by mrr."),
    ],
)
def test_several_systems_without_queries_to_compare(values: list[float], decision: str) -> None:
    systems = {name: Scores(["q1", "q2"], {"mrr": values}) for name in "abc"}
    assert compare(systems, "a").decision == decision


def test_a_single_query_says_that_it_is_one() -> None:
    a, b = (Scores(["q"], {"mrr": [score]}) for score in (0.5, 1.0))
    difference = compare({"a": a, "b": b}, "a")["b", "mrr"]
    assert difference.note == "only 1 query: too few for an interval"
    assert difference.verdict == "A single query can't tell b and a apart by mrr: +0.5000."


class TestDecision:
    IDS = tuple(str(number) for number in range(60))
    NOISE = np.random.default_rng(9).normal(0, 0.05, (60, 4))
    NOISE -= NOISE.mean(axis=0)

    def compared(self, *shifts: float, **options: Any) -> Comparison:
        """Systems a, b, … whose means differ by about these shifts; a is the baseline."""
        names = "abcdefgh"
        return compare(
            {
                names[number]: Scores(
                    self.IDS, {"mrr": 0.5 + shift + bool(shift) * self.NOISE[:, number]}
                )
                for number, shift in enumerate(shifts)
            },
            "a",
            resamples=500,
            **options,
        )

    @pytest.mark.parametrize(
        ("shifts", "line"),
        [
            ((0.0, 0.1), "b is better than a by mrr."),
            ((0.0, -0.1), "b is worse than a by mrr."),
            ((0.0, 1e-9), "No measurable difference between b and a by mrr."),
            ((0.0, 0.0), "b and a score the same by mrr on all 60 queries."),
            ((0.0, -0.1, -0.2), "a is the best of three by mrr."),
            ((0.0, 0.1, 0.2, -0.1), "c is the best of four by mrr."),
            (
                (0.0, 0.1, 0.1001, -0.1),
                "b and c are better than a by mrr; d is worse than a by mrr.",
            ),
            (
                (0.0, 0.1, 0.1, 1e-9),
                "b and c are better than a by mrr; no measurable difference for d.",
            ),
            ((0.0, 1e-9, 1e-9), "No system differs measurably from a by mrr."),
        ],
    )
    def test_one_plain_line(self, shifts: tuple[float, ...], line: str) -> None:
        assert self.compared(*shifts).decision == line

    def test_wilcoxons_test_names_no_winner(self) -> None:
        comparison = self.compared(0.0, 0.1, 0.2, test="wilcoxon")
        assert comparison.decision == "b and c are different from a by mrr."

    def test_it_comes_first_and_goes_into_the_json(self) -> None:
        comparison = self.compared(0.0, -0.1, -0.2)
        assert comparison.report().decision[0].text == comparison.decision
        assert json.loads(comparison.to_json())["decision"] == comparison.decision

    @pytest.mark.parametrize("test", ["t", "randomisation"])
    @pytest.mark.parametrize("seed", range(40))
    def test_a_verdict_and_its_interval_never_contradict_each_other(
        self, seed: int, test: Any
    ) -> None:
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 60))
        changed = (rng.random(n) < rng.choice([0.05, 0.2, 1])) * rng.choice([1, 0.5, -0.2], n)
        base = np.full(n, 0.4)
        ids = [str(number) for number in range(n)]
        systems = {"a": Scores(ids, {"m": base}), "b": Scores(ids, {"m": base + changed})}
        (difference,) = compare(systems, "a", test=test, resamples=200)
        low, high = ends(difference)
        assert low < high
        assert difference.significant == (low > 0 or high < 0)
        assert difference.significant == (difference.p_of(test) <= 0.05)
