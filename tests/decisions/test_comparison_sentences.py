"""What a comparison says: a verdict for each difference, what to do, and no contradiction."""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from support.examples import examples
from support.golden import check_golden
from support.intervals import ends, pseudo_bounds

from llama_index_rag_metrics import Comparison, Scores, compare
from llama_index_rag_metrics.decisions.comparison.difference import Difference
from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.runtime.containers import FloatArray
from llama_index_rag_metrics.statistics.intervals import mean_interval

Column = Sequence[float] | FloatArray

NAN = math.nan


def pair_of(a: Column, b: Column, metric: str = "mrr") -> dict[str, Scores]:
    ids = [f"q{number:03}" for number in range(len(a))]
    rows = {query_id: {"document": 1} for query_id in ids}
    return {name: Scores(ids, {metric: c}, metadata=rows) for name, c in (("a", a), ("b", b))}


def difference_of(a: Column, b: Column, metric: str = "mrr", **options: Any) -> Difference:
    return compare(pair_of(a, b, metric), "a", **options)["b", metric]


BASE = np.tile([0.4, 0.6], 30)

# 20 of 60 rise by 0.3 and 30 fall by 0.22
MIXED = BASE + np.tile([0.3, -0.22, 0.3, -0.22, -0.22, 0.0], 10)

RISING = np.linspace(0.7, 0.8, 2000)

HALVES = np.full(400, 0.5)

ALTERNATING = HALVES + np.tile([0.05, -0.05], 200)

VERDICTS: list[tuple[Column, Column, str]] = [
    (BASE, BASE + 0.3, "mrr"),
    (BASE, BASE - 0.3, "mrr"),
    (BASE, BASE - 0.3, "returned"),
    (BASE, MIXED, "mrr"),
    (BASE, MIXED, "returned"),
    (HALVES, ALTERNATING, "mrr"),
    # a rise of 0.0003, give or take 0.0001, isn't called nothing
    (RISING, RISING + np.tile([0.0002, 0.0004], 1000), "embedding_similarity"),
    (BASE, BASE, "mrr"),
    ([0.5] * 100, [1.0] * 2 + [0.5] * 98, "mrr"),
    ([0.5, NAN], [NAN, 0.5], "mrr"),
    ([0.5], [1.0], "mrr"),
]


def test_verdicts() -> None:
    rows = [difference_of(*case) for case in VERDICTS]
    rows.append(difference_of([0.2, 0.4, 0.6], [0.5, 0.4, 0.9], clusters="document"))
    texts = [f"{row.outcome}: {row.verdict}" for row in rows]
    check_golden("decisions/verdicts.txt", texts)


class TestIntervals:
    def test_alike_is_what_the_interval_says(self) -> None:
        # s = 0.05, t × s / √400 = 0.0049; other questions may score anything from 0 to the best
        low, high = ends(difference_of(HALVES, ALTERNATING))
        expected = pseudo_bounds(ALTERNATING - HALVES, 0.975, widest=0.55)
        assert (low, high) == pytest.approx(expected)
        assert 0.0049 < high < 0.005
        for margin, outcome in ((0, "can't tell"), (0.004, "can't tell"), (0.006, "alike")):
            assert difference_of(HALVES, ALTERNATING, margin=margin).outcome == outcome

    def test_perfect_scores_of_few_dont_show_that_systems_are_alike(self) -> None:
        # nearly all scores seen are 1; of 20 other questions one in ten may fail:
        # k = 0.01 / 0.1, so M² = (0.01² + 1) / 1.1, and √(2 M² / 22 / 21) × t(21) is 0.131
        difference = difference_of([1.0] * 20, [0.99, *[1.0] * 19], "ndcg@10")
        assert ends(difference)[0] == pytest.approx(-0.131, abs=0.001)
        assert difference.outcome == "can't tell"

    def test_changes_of_few_have_the_interval_of_pseudo_queries(self) -> None:
        # 4 of 40 questions change by a tenth of R or more, which is the highest score seen
        base, changes = 0.5 + 0.05 * np.linspace(0, 1, 40), np.zeros(40)
        changes[:4] = (0.06, -0.06, 0.07, -0.055)
        difference = difference_of(base, base + changes, "ndcg@10")
        highest = float(max([*base, *(base + changes)]))
        assert ends(difference) == pytest.approx(pseudo_bounds(changes, 0.975, widest=highest))
        assert difference.outcome == "alike"
        margin = 0.99 * max(map(abs, ends(difference)))
        assert difference_of(base, base + changes, "ndcg@10", margin=margin).outcome != "alike"

    @pytest.mark.parametrize("metric", ["tokens", "dcg@10", "a metric of one's own"])
    def test_metric_that_isnt_from_0_to_1_has_no_margin_of_its_own(self, metric: str) -> None:
        assert difference_of(HALVES, ALTERNATING, metric).outcome == "can't tell"
        assert difference_of(HALVES, ALTERNATING, metric, margin=0.02).outcome == "alike"

    @pytest.mark.parametrize(("score", "widest"), [(1.0, 1.0), (0.5, 1.0)])
    def test_range_of_the_metric_counts_without_a_change(self, score: float, widest: float) -> None:
        # pseudo-queries at ±1: √(2 / 52 / 51) × t(51)
        reach = math.sqrt(2 / 52 / 51) * stats.t.ppf(0.975, 51) * widest
        same = difference_of([score] * 50, [score] * 50)
        assert ends(same) == pytest.approx((-reach, reach))
        assert (same.wins, same.ties, same.losses, same.detectable) == (0, 50, 0, None)

    def test_ends_that_cant_be_are_cut_off(self) -> None:
        # a has nothing to lose, and b gains once: less than a may have, b can't have lost
        nothing, once = np.zeros(5), np.array([1.0, 0, 0, 0, 0])
        has_at_most = mean_interval(nothing).high
        lower, upper = pseudo_bounds(once, 0.975, widest=1.0)
        assert has_at_most is not None
        assert lower < -has_at_most
        both_ends = ends(difference_of(nothing, once, "span_iou"))
        assert both_ends == pytest.approx((-has_at_most, upper))
        turned = difference_of(1 - nothing, 1 - once, "span_iou")
        assert ends(turned) == pytest.approx((-upper, has_at_most))
        # there is no such end where a metric has no limits
        assert ends(difference_of(nothing, once, "dcg")) == pytest.approx((lower, upper))


IDS = [str(number) for number in range(60)]

NOISE = np.random.default_rng(9).normal(0, 0.05, (60, 4))

NOISE -= NOISE.mean(axis=0)


def compared(*shifts: float, **options: Any) -> Comparison:
    """Systems a, b, … whose means differ by about these shifts; a is the baseline."""
    systems = {}
    for number, shift in enumerate(shifts):
        column = 0.5 + shift + bool(shift) * NOISE[:, number % 4]
        systems["abcdefgh"[number]] = Scores(IDS, {"mrr": column})
    return compare(systems, "a", **options)


def test_line_a_system_and_what_to_do() -> None:
    texts = []
    for shifts, margin in (
        ((0.0, 0.1), None),
        ((0.0, -0.1), None),
        ((0.0, 1e-9), None),
        ((0.0, 0.0), None),
        ((0.0, 0.01), 0.004),
        ((0.0, 0.01), 0.0),
        ((0.0, -0.1, -0.2), None),
        ((0.0, 0.1, 0.2, -0.1), None),
        ((0.0, 0.1, 0.1001, -0.1), None),
        ((0.0, 0.01, 0.01), 0.0),
        ((0.0, 1e-9, 1e-9), None),
        ((0.0, 0.0, -0.1), None),
    ):
        comparison = compared(*shifts, margin=margin)
        lines = [each.text for each in comparison.sentences]
        position = -1 if comparison.winner is None else 0
        assert comparison.decision == lines[position if len(shifts) > 2 else 0]
        texts += [f"{shifts}, margin {margin}", *lines, ""]
    check_golden("decisions/decisions.txt", texts)


def test_many_systems_have_a_line_an_outcome() -> None:
    comparison = compared(0.0, -0.1, 0.1, 0.0, -0.2, 0.2)
    lines = [(each.text, each.label, each.tone) for each in comparison.sentences]
    assert lines == [
        ("f is the best of 6 on mrr.", "", "best"),
        ("better: f and c.", "better", "best"),
        ("same: d.", "same", "normal"),
        ("worse: b and e.", "worse", "alarm"),
    ]


def test_changes_too_few_say_no_number() -> None:
    systems = pair_of([0.5] * 100, [1.0] * 2 + [0.5] * 98)
    assert [each.text for each in compare(systems, "a").sentences][1:] == [
        "Not enough questions to choose: until there are more, keep a."
    ]


def test_system_that_cant_be_compared_leaves_nothing_to_do() -> None:
    columns = {"a": [0.5] * 60, "b": [0.8] * 60, "c": [float("nan")] * 60}
    systems = {name: Scores(IDS, {"mrr": column}) for name, column in columns.items()}
    starts = [each.text.split(" on ")[0] for each in compare(systems, "a").sentences]
    assert starts == ["b is better than a", "Nothing can be said about c and a"]


def test_rival_that_no_number_of_questions_decides_has_none_said() -> None:
    columns = {"a": 0 * NOISE[:, 0], "b": 0.003 + NOISE[:, 1], "c": 0.004 + 9 * NOISE[:, 2]}
    systems = {name: Scores(IDS, {"mrr": 0.5 + column}) for name, column in columns.items()}
    decision = compare(systems, "a", margin=0.0002).decision
    assert decision == "Not enough questions to choose: until there are more, keep a."


def test_less_that_is_better_wins_as_more_does() -> None:
    # 8 of 60 gain 0.2: with the worst score at the wrong end it wouldn't be shown
    lost = {"a": [0.5] * 60, "b": [0.3] * 8 + [0.5] * 52}
    systems = {name: Scores(IDS, {"missed": column}) for name, column in lost.items()}
    assert compare(systems, "a").winner == "b"


def test_winner_over_the_baseline_isnt_yet_better_than_its_rivals() -> None:
    # c is no better than a, nor shown to be worse than b: 8 of 60 gain 0.5, c's are 4 of these
    gains = {"a": 0, "b": 8, "c": 4}
    systems = {
        name: Scores(IDS, {"mrr": [1.0] * n + [0.5] * (60 - n)}) for name, n in gains.items()
    }
    comparison = compare(systems, "a", margin=0.2)
    assert [comparison[name, "mrr"].outcome for name in "bc"] == ["better", "alike"]
    assert comparison.winner is None
    assert comparison.decision == "Not enough questions to choose: until there are more, use b."


METRICS = ("ndcg@10", "calls", "tokens", "hit_rate@5")


@st.composite
def columns(draw: st.DrawFn) -> npt.NDArray[np.float64]:
    """(queries, systems) scores: 2 to 10 systems, with ties, copies, few changes and gaps."""
    n, systems = draw(st.integers(2, 40)), draw(st.integers(2, 10))
    levels = st.sampled_from([0.0, 0.25, 0.5, 1.0])
    base = draw(arrays(np.float64, (n, 1), elements=levels, fill=levels))
    share = draw(st.sampled_from([0.0, 0.05, 0.3, 1.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shift = draw(st.sampled_from([0.0, 0.1, 0.5]))
    other = np.clip(rng.choice([0.0, 0.25, 0.5, 1.0], (n, systems)) + shift, 0, 1)
    other[:, ::3] = base  # some are copies of each other but for few questions
    changed = rng.random((n, systems)) < share * rng.random(systems)
    scores = np.where(changed, np.where(other == base, 1 - base, other), base)
    if draw(st.booleans()):
        scores[rng.random(scores.shape) < 0.1] = np.nan
    return scores


@st.composite
def options(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "clusters": draw(st.sampled_from([None, "document"])),
        "margin": draw(st.sampled_from([None, 0, 0.05, 0.5])),
        "confidence": draw(st.sampled_from([0.3, 0.8, 0.95, 0.99])),
    }


def scores_of(column: npt.NDArray[np.float64], metric: str) -> Scores:
    ids = [f"q{number:03}" for number in range(len(column))]
    rows = {query_id: {"document": number // 2} for number, query_id in enumerate(ids)}
    return Scores(ids, {metric: column, "mrr": np.nan_to_num(column[::-1])}, metadata=rows)


@pytest.mark.slow
@examples(40)
@given(columns(), st.sampled_from(METRICS), options())
def test_verdict_interval_tone_and_decision_agree(
    scores: npt.NDArray[np.float64], metric: str, chosen: dict[str, Any]
) -> None:
    systems = {f"s{n}": scores_of(column, metric) for n, column in enumerate(scores.T)}
    comparison = compare(systems, "s0", **chosen)
    check_statements(comparison)
    for difference in comparison:
        check_difference(difference)
    check_decision(comparison)


def check_difference(difference: Difference) -> None:
    low, high, verdict = difference.low, difference.high, difference.verdict
    assert (low is None) == (high is None)
    if low is not None and high is not None:
        assert low <= high
        assert (low > 0 or high < 0) == (difference.outcome in {"better", "worse"})
        gains_at_least = -high if lower_is_better(difference.metric) else low
        assert (gains_at_least > 0) == (difference.outcome == "better")
        # by construction: the estimate is in its interval, whatever the confidence
        assert low <= difference.difference <= high
        is_within = low <= 0 <= high and max(-low, high) <= difference.margin
        assert (difference.outcome == "alike") == is_within
    else:
        assert difference.outcome == "can't tell"
    words = {"better": " is better than ", "worse": " is worse than ", "alike": " differ by less"}
    unchanged = difference.low is not None and not difference.changed
    says = {outcome for outcome, word in words.items() if word in verdict}
    assert says == (set() if unchanged else {difference.outcome} - {"can't tell"})
    assert ("score the same" in verdict) == unchanged
    printed = re.search(r"\((\S+|above 0|below 0) to (\S+|above 0|below 0) with", verdict)
    assert bool(printed) == (difference.outcome in {"better", "worse"} and not unchanged)
    # no printed end looks as if it were 0
    for end in printed.groups() if printed else ():
        assert re.search(r"[1-9]|above|below", end)


def check_statements(comparison: Comparison) -> None:
    report = comparison.report()
    statements = {each.text: each for each in report.decision}
    for difference in comparison:
        if statement := statements.get(difference.verdict):
            tones = {"better": "best", "worse": "alarm", "can't tell": "open"}
            assert statement.tone == tones.get(statement.label, "normal")
            is_same = difference.n and not difference.changed
            assert statement.label == ("same" if is_same else difference.outcome)


def check_decision(comparison: Comparison) -> None:
    """The best one beats the baseline, or is it; where none is the best, it says what to do."""
    primary = [each for each in comparison if each.metric == comparison.primary and each.n]
    outcomes = {each.system: each.outcome for each in primary}
    sentences = [each.text for each in comparison.sentences]
    best = comparison.winner
    if best is not None:
        assert not any(text.startswith(("Not enough", "No system")) for text in sentences)
        # its leads have the whole level each, the differences from the baseline less
        assert outcomes.pop(best, "better") in {"better", "can't tell", "alike"}
        assert "better" not in outcomes.values() or best != comparison.baseline
        return
    better = [each for each in primary if each.outcome == "better"]
    leader = max(better, key=lambda each: each.gain).system if better else comparison.baseline
    rivals = [each for each in primary if each.changed and each.outcome != "worse"]
    is_open = any(each.outcome == "can't tell" for each in rivals)
    if is_open or [each for each in rivals if better and each.system != leader]:
        assert sentences[-1].startswith("Not enough questions to choose: ")
        assert sentences[-1].endswith(f"{'use' if better else 'keep'} {leader}.")
    elif not better:
        assert sentences[-1].startswith("No system is better than s0 on ")


@examples(60)
@given(
    n=st.integers(10, 60),
    tiny=st.lists(st.floats(-0.00099, 0.00099), min_size=1, max_size=60),
    large=st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), max_size=10),
)
def test_changes_below_a_thousandth_of_r_turn_no_outcome(
    n: int, tiny: list[float], large: list[float]
) -> None:
    """30 of 50 scores moved by a millionth turned "can't tell" into "alike"."""
    base = np.tile([1.0, 0.5, 0.0, 0.5, 0.5], 12)[:n]
    changed = base.copy()
    for position, change in enumerate(large):
        changed[position] = np.clip(base[position] + change, 0, 1)
    moved = changed.copy()
    for position, change in zip(range(len(large), n), tiny, strict=False):
        moved[position] = np.clip(changed[position] + change, 0, 1)
    ids = [f"q{number:02}" for number in range(n)]
    outcomes = []
    for column in (changed, moved):
        systems = {"a": Scores(ids, {"mrr": base}), "b": Scores(ids, {"mrr": column})}
        outcomes.append(compare(systems, "a")["b", "mrr"].outcome)
    assert outcomes[0] == outcomes[1]
