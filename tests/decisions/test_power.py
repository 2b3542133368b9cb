"""How many questions a decision needs: of past scores, of numbers given, and of other metrics."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from support.intervals import pseudo_bounds

from llama_index_rag_metrics import Scores, check_rules, compare, power
from llama_index_rag_metrics.decisions.power import about, easier_metric, equivalents
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.statistics.sample_size import Changes, to_be_better

N = 60
IDS = [f"q{number:02d}" for number in range(N)]
RNG = np.random.default_rng(11)
DENSE = RNG.uniform(0.3, 0.7, N)
MOVED = DENSE + RNG.choice([-0.1, 0.1], N)
HIT = (np.arange(N) < 45).astype(float)
OTHER_HIT = np.where(np.arange(N) % 15 == 0, 1 - HIT, HIT)
BEFORE = Scores(IDS, {"hit_rate@5": HIT, "ndcg@10": DENSE, "tokens": 100 + 20 * HIT})
AFTER = Scores(IDS, {"hit_rate@5": OTHER_HIT, "ndcg@10": MOVED, "tokens": 100 + 20 * OTHER_HIT})
SYSTEMS = {"before": BEFORE, "after": AFTER}


def test_what_compare_notes_of_the_pair_is_noted_here() -> None:
    """Both rest on the same pairs of questions."""
    fewer = AFTER.select(IDS[:-10]).replace(max_retrieved=5)
    systems = {"before": Scores(IDS, {"hit_rate@5": HIT, "ndcg@10": DENSE}), "after": fewer}
    found = power(systems, on_missing="intersect")
    said = compare(systems, "before", on_missing="intersect").notes
    assert len(found.notes) == 3
    assert set(found.notes) <= set(said)
    assert "not the same passages count" in str(found)
    assert power(SYSTEMS).notes == power(deviation=0.1, changed=0.1).notes == ()


class TestNumbersGiven:
    def test_the_number_is_that_of_the_interval(self) -> None:
        # where all questions gain alike, compare says better as soon as the interval leaves out 0:
        # a gain of 0.2 everywhere, R = 1
        found = power(effect=0.2, deviation=0.0, changed=1.0).metrics[0]
        assert found.better is not None
        assert pseudo_bounds([0.2] * found.better, 0.975)[0] > 0
        assert pseudo_bounds([0.2] * (found.better - 1), 0.975)[0] <= 0

    def test_sentences(self) -> None:
        found = power(effect=0.05, deviation=0.25, changed=0.5, n=100)
        first = found.metrics[0]
        # ((1.96 + 0.84) × 0.25 / 0.05)² = 196, and what two pseudo-queries cost
        assert first.better == 202
        assert found.decision == (
            "To show a gain of 0.05 on ndcg@10 you need about 210 questions (80 % of the time)."
        )
        statements = [statement.text for statement in found.report().decision]
        # 156 for (1.645 + 0.84)², 264 for (1.96 + 1.28)²
        assert statements[1] == (
            "A rule of the gate that allows a loss of 0.05 passes an unchanged system with about "
            "160 questions; about 270 show that it differs by at most 0.05."
        )
        assert statements[2].startswith("100 questions show a gain of 0.073, rule out a loss of ")
        assert repr(found) == f"<Power: {found.decision}>"

    def test_of_costs_less_is_better(self) -> None:
        found = power(metrics=["leak@5"], deviation=0.1, changed=0.1)
        assert found.decision.startswith("To show a fall of 0.02 on leak@5")
        assert "a rule of the gate that allows a rise of 0.02" in str(found).lower()

    def test_without_a_number_of_questions_nothing_is_said_of_what_they_show(self) -> None:
        found = power(effect=0.05, deviation=0.25, changed=0.5)
        assert found.questions is None
        assert found.metrics[0].least_better is None
        assert len(found.report().sections[0].tables) == 1
        (row,) = json.loads(found.to_json())
        assert (row["better"], row["least_better"]) == (202, None)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({}, "give the scores of two systems, or both deviation and changed"),
            ({"deviation": 0.2}, "give the scores of two systems, or both"),
            ({"deviation": 0.2, "changed": 20}, "changed: expected a share above 0, up to 1"),
            # a tenth of the questions change, each by 1 at most
            ({"deviation": 0.2, "changed": 0.1, "effect": 0.2}, "effect: expected at most 0.1"),
            # √(0.1 - 0.02²)
            ({"deviation": 0.4, "changed": 0.1}, "from 0.06 to 0.316, if 10 % change"),
            # a tenth by 0.2 each: 0.02 √(1 / 0.1 - 1)
            ({"deviation": 0.05, "changed": 0.1}, "from 0.06 to 0.316, if 10 % change"),
            ({"deviation": 0.2, "changed": 0.5, "effect": 0.0}, "effect: expected a difference"),
            ({"deviation": 0.2, "changed": 0.5, "n": 1}, "n: expected"),
            ({"deviation": 2.0, "changed": 0.5, "metrics": ["tokens"]}, "a metric with limits"),
            ({"systems": {"one": BEFORE}}, "two systems by name"),
            ({"systems": SYSTEMS, "changed": 0.5}, "changed: expected None beside scores"),
            ({"systems": SYSTEMS, "deviation": 0.0}, "beside scores, which tell it, got 0.0"),
        ],
    )
    def test_errors(self, arguments: dict[str, object], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            power(**arguments)  # type: ignore[arg-type]


class TestPastScores:
    def test_by_how_questions_changed(self) -> None:
        found = power(SYSTEMS, metrics=["ndcg@10", "hit_rate@5"], effect=0.03)
        ndcg, hits = found.metrics
        assert found.questions == N
        assert found.source == "before and after, 60 questions"
        # all change by 0.1: k = 60, M² = (0.6 + R²) / 61, a quarter of which is added
        reach = max(DENSE.max(), MOVED.max())
        unseen = (0.6 + reach**2) / 61 / 4
        squares = np.square(MOVED - DENSE - (MOVED - DENSE).mean()).sum()
        assert ndcg.deviation == pytest.approx(math.sqrt((squares + unseen) / (N + 0.25 - 1)))
        assert ndcg.changed == pytest.approx(1.0)
        # 4 of 60 change, R = 1: M² = 1
        assert hits.changed == pytest.approx((4 + 0.25) / (60 + 0.25))
        # as large among its own changes: √share × deviation of each
        scale = math.sqrt(hits.changed) * hits.deviation / ndcg.deviation
        assert ndcg.effect == 0.03
        assert hits.effect == pytest.approx(0.03 * scale)

    def test_all_metrics_that_both_have(self) -> None:
        names = [each.metric for each in power(SYSTEMS).metrics]
        assert names == ["hit_rate@5", "ndcg@10", "tokens"]

    def test_a_metric_that_nobody_scored_is_refused(self) -> None:
        nothing = Scores(IDS, {"ndcg@10": [math.nan] * N, "mrr": DENSE})
        with pytest.raises(InvalidInput, match="metrics: expected a metric on which both"):
            power({"a": nothing, "b": nothing})

    @pytest.mark.parametrize("clusters", [None, {query: row // 2 for row, query in enumerate(IDS)}])
    def test_a_comparison_names_the_same_difference(self, clusters: dict[str, int] | None) -> None:
        compared = compare(SYSTEMS, "before", metrics=["ndcg@10"], clusters=clusters)
        found = power(SYSTEMS, metrics=["ndcg@10"], clusters=clusters).metrics[0]
        assert compared["after", "ndcg@10"].detectable == pytest.approx(found.least_better)

    def test_questions_are_those_that_both_score_on_the_first_metric(self) -> None:
        # 20 questions have a hit rate in both, 60 have ndcg@10
        some = np.where(np.arange(N) < 20, OTHER_HIT, np.nan)
        after = Scores(IDS, {"hit_rate@5": some, "ndcg@10": MOVED})
        systems = {"before": BEFORE, "after": after}
        assert power(systems).source == "before and after, 20 questions"
        assert power(systems).questions == 20
        assert power(systems, metrics=["ndcg@10"]).questions == 60
        assert power(systems).metrics[0].least_kept == power(systems, n=20).metrics[0].least_kept

    def test_an_effect_that_scores_cant_be_apart_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="effect: expected at most 1, the range of these"):
            power(SYSTEMS, effect=1.5)
        # tokens from 100 to 120
        with pytest.raises(InvalidInput, match="effect: expected at most 20, the range of these"):
            power(SYSTEMS, metrics=["tokens"], effect=21)
        # beside the changes of a hit rate that hardly moves, 0.98 is as much as 1.4 on ndcg@10
        reach = float(max(DENSE.max(), MOVED.max()))
        found = power(SYSTEMS, metrics=["hit_rate@5", "ndcg@10"], effect=0.98).metrics
        assert found[1].effect == pytest.approx(reach)

    def test_too_few_questions_to_show_a_difference(self) -> None:
        few, some = (power(SYSTEMS, metrics=["hit_rate@5"], n=n) for n in (2, 8))
        assert few.metrics[0].least_better is few.metrics[0].least_alike is None
        statement = few.report().decision[-1].text
        assert statement == "2 questions are too few to show any difference on hit_rate@5."
        assert few.report().sections[0].tables[1].rows[0].cells[0].value == "–"
        assert json.loads(few.to_json())[0]["least_better"] is None
        # of two scores that are at most 1 apart, eight questions may rule out a loss of less
        assert some.metrics[0].least_kept is not None
        assert some.metrics[0].least_kept < 1
        assert some.report().decision[-1].text.startswith("8 questions ")

    def test_too_few_clusters_to_show_a_difference(self) -> None:
        clusters = {query_id: number // 5 for number, query_id in enumerate(IDS)}
        found = power(SYSTEMS, metrics=["ndcg@10"], clusters=clusters, n=3)
        assert found.report().decision[-1].text.startswith("3 questions are too few to show any")
        with pytest.raises(InvalidInput, match="two questions or more of different clusters"):
            power(SYSTEMS, clusters=dict.fromkeys(IDS, "one"))

    def test_a_larger_difference_needs_fewer(self) -> None:
        small, large = (power(SYSTEMS, effect=effect).metrics[0] for effect in (0.02, 0.1))
        assert large.better is not None
        assert small.better is not None
        assert large.better < small.better / 10
        assert small.least_better == pytest.approx(large.least_better)

    def test_systems_that_are_the_same_need_what_two_pseudo_queries_cost(self) -> None:
        same = power({"a": BEFORE, "b": BEFORE}, metrics=["ndcg@10"]).metrics[0]
        assert same.kept is not None
        assert same.kept > 60


class TestOtherMetrics:
    def test_the_one_that_needs_fewest_is_named(self) -> None:
        changes = {"hit_rate@5": Changes(0.4, 0.16), "ndcg@10": Changes(0.2, 0.5)}
        # the mean size of changes: 0.4 × 0.4 and √0.5 × 0.2
        sizes = equivalents(changes, 0.02)
        assert sizes["ndcg@10"] == pytest.approx(0.02 * math.sqrt(0.5) * 0.2 / 0.16)
        needed = {name: changes[name].questions(to_be_better(), sizes[name]) for name in changes}
        # ((z + z') √(1 / share) ρ)², of ρ = 0.125, is 3.1 times as much for the hit rate
        assert needed["hit_rate@5"] / needed["ndcg@10"] == pytest.approx(0.5 / 0.16, rel=0.02)  # type: ignore[operator]
        said = easier_metric(changes, "hit_rate@5", to_be_better(), 0.02, 50)
        assert said == (
            f"ndcg@10 would need {about(needed['ndcg@10'])} questions for the same decision, "
            f"hit_rate@5 {about(needed['hit_rate@5'])}"
        )

    @pytest.mark.parametrize(
        ("primary", "effect", "other"),
        [
            ("ndcg@10", 0.02, "hit_rate@5"),  # needs more
            ("hit_rate@5", 0.0, "ndcg@10"),  # no difference matters
            ("hit_rate@5", 0.02, "tokens"),  # no quality
            ("hit_rate@5", 0.02, "leak@5"),
            ("hit_rate@5", 0.02, "judged@10"),
            ("hit_rate@5", 0.02, "judged(match=text)@10"),
            ("hit_rate@5", 0.02, "unjudged@10"),
        ],
    )
    def test_none_is_named(self, primary: str, effect: float, other: str) -> None:
        changes = {"hit_rate@5": Changes(0.4, 0.16), "ndcg@10": Changes(0.2, 0.5)}
        changes = {primary: changes[primary], other: changes.get(other, Changes(0.2, 1.0))}
        assert easier_metric(changes, primary, to_be_better(), effect, 50) == ""

    @pytest.mark.parametrize("primary", ["leak@5", "judged@10", "unjudged@10", "tokens", "latency"])
    def test_none_is_named_for_what_isnt_quality(self, primary: str) -> None:
        changes = {primary: Changes(0.4, 0.16), "ndcg@10": Changes(0.2, 0.5)}
        assert easier_metric(changes, primary, to_be_better(), 0.02, 50) == ""

    @pytest.mark.parametrize("metric", ["leaked@5", "tokens", "judged@10"])
    def test_neither_a_comparison_nor_a_rule_on_a_cost_names_quality(self, metric: str) -> None:
        # few change on the metric, all on ndcg@10, where a decision would take far fewer
        before, after = (
            Scores(IDS, {metric: column, "ndcg@10": dense})
            for column, dense in ((HIT, DENSE), (OTHER_HIT, MOVED))
        )
        found = compare({"before": before, "after": after}, "before", primary=metric, alike=0.02)
        assert found["after", metric].outcome == "can't tell"
        sign = ">= baseline -" if metric == "judged@10" else "<= baseline +"
        report = check_rules(after, f"{metric} {sign} 0.02", baseline=before)
        assert report.outcome == "inconclusive"
        assert report.verdicts[0].needed
        assert not any("same decision" in note for note in (*found.notes, *report.notes))

    def test_none_is_named_where_there_are_enough_questions(self) -> None:
        changes = {"hit_rate@5": Changes(0.4, 0.16), "ndcg@10": Changes(0.2, 0.5)}
        enough = changes["hit_rate@5"].questions(to_be_better(), 0.02)
        assert enough is not None
        told = [
            easier_metric(changes, "hit_rate@5", to_be_better(), 0.02, enough - n) for n in (0, 1)
        ]
        assert [bool(note) for note in told] == [False, True]

    def test_a_comparison_that_cant_tell_says_so(self) -> None:
        comparison = compare(SYSTEMS, "before")
        assert comparison["after", "hit_rate@5"].outcome == "can't tell"
        (note,) = [note for note in comparison.notes if "same decision" in note]
        assert note.startswith("ndcg@10 would need about ")
        assert note.endswith("(to show a difference of 0.02 on hit_rate@5)")
        assert not compare(SYSTEMS, "before", primary="ndcg@10").notes
        assert not compare(SYSTEMS, "before", metrics=["hit_rate@5"]).notes

    def test_a_rule_that_cant_tell_says_so(self) -> None:
        report = check_rules(AFTER, "hit_rate@5 >= baseline - 0.02", baseline=BEFORE)
        assert report.outcome == "inconclusive"
        (note,) = [note for note in report.notes if "same decision" in note]
        assert note.startswith("ndcg@10 would need about ")
        assert note.endswith("(to rule out a loss of 0.02 on hit_rate@5)")
        ndcg = check_rules(AFTER, "ndcg@10 >= baseline - 0.02", baseline=BEFORE)
        assert not any("same decision" in note for note in ndcg.notes)


def test_numbers_that_nobody_would_label() -> None:
    assert about(58) == "about 58"
    assert about(1041) == "about 1,100"
    assert about(100_001) == about(None) == "more than 100,000"


def test_one_metric_may_be_named_alone() -> None:
    alone = power(metrics="mrr@10", effect=0.05, deviation=0.3, changed=0.4)
    assert alone == power(metrics=["mrr@10"], effect=0.05, deviation=0.3, changed=0.4)
