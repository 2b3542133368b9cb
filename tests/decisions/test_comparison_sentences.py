"""What a comparison says: a verdict for each difference, and the decision in one line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats
from support.compared import three_systems
from support.intervals import ends, pseudo_bounds

from llama_index_rag_metrics import Comparison, Scores, compare
from llama_index_rag_metrics.runtime.arrays import FloatArray
from llama_index_rag_metrics.statistics.intervals import mean_interval


@pytest.fixture(scope="module")
def systems() -> dict[str, Scores]:
    return three_systems()


@pytest.fixture(scope="module")
def comparison(systems: dict[str, Scores]) -> Comparison:
    return compare(systems, "bm25")


def pair_of(
    a: Sequence[float] | FloatArray, b: Sequence[float] | FloatArray, metric: str = "mrr"
) -> dict[str, Scores]:
    ids = [f"q{number:03}" for number in range(len(a))]
    return {"a": Scores(ids, {metric: a}), "b": Scores(ids, {metric: b})}


class TestVerdict:
    def test_better(self, comparison: Comparison) -> None:
        hybrid = comparison["hybrid", "ndcg@10"]
        low, high = ends(hybrid)
        assert hybrid.outcome == "better"
        assert (
            hybrid.verdict
            == str(hybrid)
            == (
                f"hybrid is better than bm25 on ndcg@10: {hybrid.difference:+.2f} "
                f"({low:.2f} to {high:.2f} with 95 % confidence, 120 questions)."
            )
        )

    def test_worse(self, systems: dict[str, Scores]) -> None:
        bm25 = compare(systems, "hybrid", metrics=["ndcg@10"])["bm25", "ndcg@10"]
        assert bm25.outcome == "worse"
        assert bm25.verdict.startswith("bm25 is worse than hybrid on ndcg@10: −0.08 (−0.10 to −0.0")

    def test_less_is_better_for_some(self) -> None:
        lists = np.tile([0.4, 0.6], 30)
        tight = compare(pair_of(lists, lists - 0.3, "returned"), "a")["b", "returned"]
        assert (tight.outcome, tight.difference < 0) == ("better", True)
        assert tight.verdict.startswith("b is better than a on returned: −0.3")
        # 20 of 60 rise by 0.3 and 30 fall by 0.2, as little as nothing on average
        changed = lists + np.tile([0.3, -0.2, 0.3, -0.2, -0.2, 0.0], 10)
        unclear = compare(pair_of(lists, changed, "returned"), "a")["b", "returned"]
        low, high = ends(unclear)
        assert low < 0 < high
        assert f"b may be {high:.2f} worse or {-low:.2f} better than a on" in unclear.verdict

    def test_cant_tell(self, comparison: Comparison) -> None:
        dense = comparison["dense", "ndcg@10"]
        low, high = ends(dense)
        assert dense.outcome == "can't tell"
        assert dense.verdict == (
            f"dense may be {-low:.3f} worse or {high:.3f} better than bm25 on ndcg@10: "
            "120 questions can't tell."
        )

    def test_alike(self) -> None:
        # 400 questions, every other one 0.05 up or down: s = 0.05, t × s / √400 = 0.0049
        base = np.full(400, 0.5)
        changes = np.tile([0.05, -0.05], 200)
        systems = pair_of(base, base + changes)
        alike = compare(systems, "a")["b", "mrr"]
        low, high = ends(alike)
        assert high == pytest.approx(-low)
        assert 0.0049 < high < 0.005
        # other questions may score anything from 0 to the best seen
        assert high == pytest.approx(pseudo_bounds(changes, 0.975, widest=0.55)[1])
        assert (alike.outcome, alike.verdict) == (
            "alike",
            "b and a differ by less than 0.005 on mrr (with 95 % confidence, 400 questions).",
        )
        for margin, outcome in ((0, "can't tell"), (0.004, "can't tell"), (0.006, "alike")):
            assert compare(systems, "a", margin=margin)["b", "mrr"].outcome == outcome

    def test_few_perfect_scores_dont_show_that_systems_are_alike(self) -> None:
        # nearly all scores seen are 1; of 20 other questions one in ten may fail
        perfect = [1.0] * 20
        difference = compare(pair_of(perfect, [0.99, *perfect[1:]], "ndcg@10"), "a")["b", "ndcg@10"]
        # k = 0.01 / 0.1, so M² = (0.01² + 1) / 1.1, and √(2 M² / 22 / 21) × t(21) is 0.131
        low, _ = ends(difference)
        assert low == pytest.approx(-0.131, abs=0.001)
        assert difference.outcome == "can't tell"
        assert difference.verdict.startswith("b may be 0.13 worse or ")

    def test_alike_is_what_the_interval_says(self) -> None:
        # 4 of 40 questions change by a tenth of R or more, which is the highest score seen
        base = 0.5 + 0.05 * np.linspace(0, 1, 40)
        changes = np.zeros(40)
        changes[:4] = (0.06, -0.06, 0.07, -0.055)
        pair = pair_of(base, base + changes, "ndcg@10")
        difference = compare(pair, "a")["b", "ndcg@10"]
        expected = pseudo_bounds(changes, 0.975, widest=float(max([*base, *(base + changes)])))
        assert ends(difference) == pytest.approx(expected)
        assert max(-expected[0], expected[1]) == pytest.approx(difference.at_most)
        assert difference.at_most < 0.02
        assert (difference.outcome, difference.verdict[:26]) == (
            "alike",
            "b and a differ by less tha",
        )
        narrower = compare(pair, "a", margin=0.99 * difference.at_most)["b", "ndcg@10"]
        assert narrower.outcome == "can't tell"

    @pytest.mark.parametrize("metric", ["tokens", "dcg@10", "a metric of one's own"])
    def test_what_isnt_from_0_to_1_has_no_margin_of_its_own(self, metric: str) -> None:
        base = np.full(400, 0.5)
        systems = pair_of(base, base + np.tile([0.05, -0.05], 200), metric)
        assert compare(systems, "a")["b", metric].outcome == "can't tell"
        assert compare(systems, "a", margin=0.02)["b", metric].outcome == "alike"

    def test_the_same(self, systems: dict[str, Scores]) -> None:
        comparison = compare({"a": systems["bm25"], "b": systems["bm25"]}, "a")
        copy = comparison["b", "ndcg@10"]
        assert copy.verdict == "b and a score the same on ndcg@10, on all 120 questions."
        assert comparison.report().decision[0].label == "the same"
        # pseudo-queries at ±R: √(2 / 122 / 121) × t(121) × R. That is no proof within ± 0.02
        reach = math.sqrt(2 / 122 / 121) * stats.t.ppf(0.975, 121)
        assert copy.high == pytest.approx(reach * float(systems["bm25"]["ndcg@10"].max()))
        assert copy.outcome == "can't tell"
        assert copy.detectable is None
        assert (copy.wins, copy.ties, copy.losses) == (0, 120, 0)
        assert re.search(r" b .* 0\.000 +– +0 / 120 / 0", str(comparison))  # no interval

    def test_where_no_score_differs_it_is_the_range_of_the_metric_that_counts(self) -> None:
        perfect = [1.0] * 50
        difference = compare(pair_of(perfect, perfect), "a")["b", "mrr"]
        # pseudo-queries at ±1: √(2 / 52 / 51) × t(51)
        reach = math.sqrt(2 / 52 / 51) * stats.t.ppf(0.975, 51)
        assert ends(difference) == pytest.approx((-reach, reach))

    def test_few_changes(self) -> None:
        few, more = (
            compare(pair_of([0.5] * 100, [1.0] * gains + [0.5] * (100 - gains)), "a")["b", "mrr"]
            for gains in (2, 12)
        )
        assert (more.outcome, ends(more)[0] > 0) == ("better", True)
        assert few.detectable is None
        low, high = ends(few)
        assert few.verdict == (
            f"b may be {-low:.3f} worse or {high:.3f} better than a on mrr. "
            "Only 2 of 100 questions changed: too few to tell."
        )

    def test_one_cluster_says_nothing(self) -> None:
        systems = pair_of([0.2, 0.4, 0.6], [0.5, 0.4, 0.9])
        metadata = {key: {"document": 1} for key in ("q000", "q001", "q002")}
        systems = {name: each.replace(metadata=metadata) for name, each in systems.items()}
        row = compare(systems, "a", clusters="document")["b", "mrr"]
        assert (row.outcome, row.low) == ("can't tell", None)
        assert row.verdict == (
            "Nothing can be said about b and a on mrr: all questions belong to one conversation or "
            "cluster, which counts as 1 question."
        )


def test_ends_that_cant_be_are_cut_off() -> None:
    # a has nothing to lose, and b gains once only: less than a may have, b can't have lost
    nothing, once = np.zeros(5), np.array([1.0, 0, 0, 0, 0])
    difference = compare(pair_of(nothing, once, "span_iou"), "a")["b", "span_iou"]
    has_at_most = mean_interval(nothing).high
    lower, upper = pseudo_bounds(once, 0.975, widest=1.0)
    assert has_at_most is not None
    assert lower < -has_at_most
    assert ends(difference) == pytest.approx((-has_at_most, upper))
    turned = compare(pair_of(1 - nothing, 1 - once, "span_iou"), "a")["b", "span_iou"]
    assert ends(turned) == pytest.approx((-upper, has_at_most))
    # there is no such end where a metric has no limits
    free = compare(pair_of(nothing, once, "dcg"), "a")["b", "dcg"]
    assert ends(free) == pytest.approx((lower, upper))


def test_a_sentence_never_calls_a_difference_nothing() -> None:
    # 2,000 similarities that rose by 0.0003, give or take 0.0001
    base, rise = np.linspace(0.7, 0.8, 2000), np.tile([0.0002, 0.0004], 1000)
    pair = pair_of(base.tolist(), (base + rise).tolist(), "embedding_similarity")
    verdict = compare(pair, "a")["b", "embedding_similarity"].verdict
    assert verdict.startswith(
        "b is better than a on embedding_similarity: +0.000300 (0.000281 to 0.000318 with"
    )


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        (
            [math.nan, math.nan],
            "Nothing can be said about b and a on mrr: no question has a value.",
        ),
        ([0.5, math.nan], "Nothing can be said about b and a on mrr: only 1 question."),
    ],
)
def test_several_systems_without_queries_to_compare(values: list[float], verdict: str) -> None:
    systems = {name: Scores(["q1", "q2"], {"mrr": values}) for name in "abc"}
    assert compare(systems, "a")["b", "mrr"].verdict == verdict


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
            **options,
        )

    @pytest.mark.parametrize(
        ("shifts", "lines"),
        [
            ((0.0, 0.1), ["b is better than a on mrr: +"]),
            ((0.0, -0.1), ["b is worse than a on mrr: −"]),
            ((0.0, 1e-9), ["b and a differ by less than 0.015 on mrr ("]),
            ((0.0, 0.0), ["b and a score the same on mrr, on all 60 questions."]),
            (
                (0.0, -0.1, -0.2),
                ["a is the best of 3 on mrr.", "b is worse than a", "c is worse than a"],
            ),
            (
                (0.0, 0.1, 0.2, -0.1),
                [
                    "c is the best of 4 on mrr.",
                    "b is better than a",
                    "c is better than a",
                    "d is worse than a",
                ],
            ),
            (
                (0.0, 0.1, 0.1001, -0.1),
                [
                    "b is better than a",
                    "c is better than a",
                    "d is worse than a",
                    "Not enough questions to choose: with about 130 like these, a difference of "
                    "0.02 would be detected 80 % of the time; until then use c.",
                ],
            ),
            ((0.0, 1e-9, 1e-9), ["b and a differ by less", "c and a differ by less"]),
            ((0.0, 0.0, 0.0), ["b and a score the same", "c and a score the same"]),
        ],
    )
    def test_a_line_a_system_and_what_would_decide(
        self, shifts: tuple[float, ...], lines: list[str]
    ) -> None:
        sentences = [each.text for each in self.compared(*shifts).sentences]
        assert len(sentences) == len(lines), sentences
        for sentence, start in zip(sentences, lines, strict=True):
            assert sentence.startswith(start)

    @pytest.mark.parametrize(
        ("shifts", "margin", "line"),
        [
            ((0.0, 0.01), 0.004, "with about 1,500 like these, a difference of 0.004 would be"),
            ((0.0, 0.01), 0, "60 questions detect a difference of 0.03 80 % of the time; until"),
            ((0.0, 0.01, 0.01), 0, "60 questions detect a difference of 0.03 80 % of the time; "),
        ],
    )
    def test_what_would_decide(self, shifts: tuple[float, ...], margin: float, line: str) -> None:
        *verdicts, last = self.compared(*shifts, margin=margin).sentences
        assert {each.label for each in verdicts} == {"can't tell"}
        assert last.text.startswith(f"Not enough questions to choose: {line}")
        assert last.text.endswith("keep a.")

    def test_few_changes_say_no_number(self) -> None:
        systems = pair_of([0.5] * 100, [1.0] * 2 + [0.5] * 98)
        assert [each.text for each in compare(systems, "a").sentences][1:] == [
            "Not enough questions to choose: until there are more, keep a."
        ]

    def test_of_many_systems_counts_take_the_place_of_lines(self) -> None:
        systems = dict(self.compared(0.0, 0.1, 0.1001, -0.1).systems)
        systems |= {f"d{number}": systems["d"] for number in range(7)}
        first, last = compare(systems, "a").sentences
        assert first.text == "Of 10 others on mrr, 2 are better than a and 8 worse."
        assert last.text.endswith("until then use c.")

    def test_it_comes_first_and_goes_into_the_json(self) -> None:
        comparison = self.compared(0.0, -0.1, -0.2)
        assert comparison.report().decision[0].text == comparison.decision
        assert json.loads(comparison.to_json())["decision"] == comparison.decision
