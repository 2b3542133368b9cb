"""No comparison contradicts itself: intervals, verdicts, tones and the decision say the same."""

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from support.examples import examples

from llama_index_rag_metrics import Comparison, Scores, compare
from llama_index_rag_metrics.decisions.comparison.difference import Difference
from llama_index_rag_metrics.metrics.metric_names import lower_is_better

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
    check(comparison)


def check(comparison: Comparison) -> None:
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
            tones = {"better": "best", "worse": "alarm"}
            assert statement.tone == tones.get(difference.outcome, "normal")
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
