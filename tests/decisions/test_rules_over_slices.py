"""Rules over slices: in every language, each slice is decided by its own questions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from llama_index_rag_metrics import Baseline, Rule, Scores, check_rules
from llama_index_rag_metrics.report.terminal import to_text
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores import Reason

KEEPS = "hit_rate@5 >= baseline - 0.05 in every language"


def scores_of(columns: Mapping[str, list[float]], metric: str = "hit_rate@5") -> Scores:
    """Of each language the scores of its questions."""
    ids = [f"{language}{at}" for language, column in columns.items() for at in range(len(column))]
    values = [score for column in columns.values() for score in column]
    return Scores(ids, {metric: values}, metadata={q: {"language": q[:2]} for q in ids})


def drawn_at_random(seed: int, **sizes: int) -> tuple[Scores, Scores]:
    generator = np.random.default_rng(seed)
    before = {key: (generator.random(n) < 0.7).astype(float) for key, n in sizes.items()}
    flips = {key: generator.random(n) < 0.1 for key, n in sizes.items()}
    after = {key: np.where(flips[key], 1 - before[key], before[key]) for key in sizes}
    sides = [{key: column.tolist() for key, column in side.items()} for side in (before, after)]
    return scores_of(sides[0]), scores_of(sides[1])


@pytest.mark.parametrize(
    ("text", "plain", "key"),
    [
        (
            "ndcg@10 >= baseline - 0.05 in every language",
            "ndcg@10 >= baseline - 0.05 at 95%",
            "language",
        ),
        (
            "ndcg@10 >= baseline - 0.05 in the worst language",
            "ndcg@10 >= baseline - 0.05 at 95%",
            "language",
        ),
        ("recall@5 >= 0.8 at 99% in  every user group", "recall@5 >= 0.8 at 99%", "user group"),
        (
            "mrr >= anchor - 0.1 as observed in every tenant",
            "mrr >= anchor - 0.1 as observed",
            "tenant",
        ),
        ("failed <= 0 in every tenant", "failed <= 0", "tenant"),
    ],
)
def test_a_rule_names_the_key_of_its_slices(text: str, plain: str, key: str) -> None:
    rule = Rule.parse(text)
    assert rule.every == key
    assert str(rule) == f"{plain} in every {rule.every}"
    assert Rule.parse(str(rule)) == rule


def test_each_slice_is_decided_as_by_itself() -> None:
    """With m slices and one rule, a slice fails at 1 - 0.05 / m, and passes at 0.95."""
    before, after = drawn_at_random(3, en=150, de=90, fr=70)
    report = check_rules(after, KEEPS, baseline=before)
    [verdict] = report
    assert [part.part for part in verdict.parts] == ["language en", "language de", "language fr"]
    for part in verdict.parts:
        ids = [q for q in before.query_ids if part.part.endswith(f" {q[:2]}")]
        sides = after.select(ids), before.select(ids)
        plain, corrected = (
            next(iter(check_rules(sides[0], f"{KEEPS[:-18]} at {at}%", baseline=sides[1])))
            for at in (95, 100 * (1 - 0.05 / 3))
        )
        assert part.n == len(ids)
        assert part.lower == pytest.approx(plain.lower, abs=1e-12)
        assert part.upper == pytest.approx(corrected.upper, abs=1e-12)
        assert part.difference == plain.difference


def test_the_slice_that_is_worst_off_is_the_verdict() -> None:
    before = scores_of({"en": [1.0] * 300, "de": [1.0] * 60, "fr": [1.0] * 60})
    after = scores_of({"en": [1.0] * 300, "de": [1.0] * 30 + [0.0] * 30, "fr": [1.0] * 60})
    [verdict] = report = check_rules(after, KEEPS, baseline=before)
    assert (report.outcome, verdict.part, verdict.n) == ("fail", "language de", 60)
    assert verdict.difference == -0.5
    assert {query.query_id[:2] for query in verdict.worst} == {"de"}
    assert verdict.sentence.startswith("hit_rate@5 in language de is 0.50 against 1.00")
    assert "Of 3 slices, 1 fails (de), 2 pass." in verdict.sentence
    # over all questions the same loss is 30 of 420, which a wider tolerance hides
    assert check_rules(after, "hit_rate@5 >= baseline - 0.15", baseline=before).outcome == "pass"
    assert verdict.record()["parts"][1]["outcome"] == "fail"
    text = to_text(report.report(), width=100)
    assert "Worst questions on hit_rate@5 in language de" in text


def least_by_definition(tolerance: float, size: int = 1) -> int:
    """Where nothing changed, of questions in clusters of one size, the last of which may be less.

    N = n + 2 of n clusters, n' of one size, R = n / n' = M, v = 2 M² / N, and the bound is
    t(n' + 1) sqrt(v / (N - 1)).
    """
    asked, bound = 2 * size - 1, math.inf
    while bound > tolerance:
        asked += 1
        full, rest = divmod(asked, size)
        n, even = full + (rest > 0), asked**2 / (full * size**2 + rest**2)
        bound = stats.t.ppf(0.95, even + 1) * n / even * math.sqrt(2 / ((n + 2) * (n + 1)))
    return asked


def test_a_slice_too_small_to_pass_decides_nothing_and_is_named() -> None:
    least = least_by_definition(0.05)
    columns = {"en": [1.0, 0.0] * 100, "de": [1.0, 0.0] * 10, "fr": [1.0] * (least - 1)}
    same = scores_of(columns)
    [verdict] = check_rules(same, KEEPS, baseline=same)
    assert [part.least for part in verdict.parts] == [None, least, least]
    assert [part.outcome for part in verdict.parts] == ["pass", "inconclusive", "inconclusive"]
    assert (verdict.outcome, verdict.part) == ("pass", "language en")
    assert f"with fewer than {least} questions: de (20) and fr ({least - 1})." in verdict.sentence
    enough = scores_of({**columns, "fr": [1.0] * least})
    assert check_rules(enough, KEEPS, baseline=enough).verdicts[0].parts[2].outcome == "pass"


def test_how_many_questions_a_slice_takes_counts_its_clusters() -> None:
    """100 questions in 4 clusters: the least number of questions in clusters of 25."""
    same = scores_of({"en": [1.0, 0.0] * 500, "de": [1.0, 0.0] * 50})
    clusters = {q: q if q.startswith("en") else f"de{int(q[2:]) % 4}" for q in same.query_ids}
    [verdict] = check_rules(same, KEEPS, baseline=same, clusters=clusters)
    least = least_by_definition(0.05, 25)
    assert [part.least for part in verdict.parts] == [None, least]
    assert f"with fewer than {least:,} questions: de (100)." in verdict.sentence


@pytest.mark.filterwarnings("error")
def test_no_slice_is_too_small_for_a_metric_without_a_best_score() -> None:
    scores = scores_of({"en": [4.0, 5.0] * 50, "de": [3.0, 6.0, 8.0]}, "dcg@10")
    [verdict] = check_rules(scores, "dcg@10 >= 3.5 at 95% in every language")
    assert [part.outcome for part in verdict.parts] == ["pass", "inconclusive"]
    assert verdict.parts[1].least is None
    assert (verdict.outcome, verdict.part) == ("inconclusive", "language de")


@pytest.mark.parametrize("reason", ["no_relevant", "unjudged"])
@pytest.mark.parametrize(
    "rule", ["hit_rate@5 >= 0.5", "hit_rate@5 >= baseline - 0.5 as observed", "hit_rate@5 <= 1"]
)
def test_a_key_that_no_scored_question_has_is_refused(rule: str, reason: Reason) -> None:
    bare = Scores(
        ["a", "b"],
        {"hit_rate@5": [1.0, 1.0]},
        excluded={"c": reason},
        metadata={"c": {"language": "de"}},
    )
    expected = r"language': expected .* with a score on hit_rate@5, got 'language'. All questions"
    with pytest.raises(InvalidInput, match=expected):
        check_rules(bare, f"{rule} in every language", baseline=bare)
    # of those that failed, each should have had a value
    failed = bare.replace(excluded={"c": "failed"})
    [verdict] = check_rules(failed, f"{rule} in every language", baseline=failed)
    assert (verdict.outcome, verdict.part, verdict.n) == ("fail", "language de", 0)


def test_only_small_slices_leave_a_rule_open() -> None:
    same = scores_of({"en": [1.0, 0.0], "de": [1.0, 0.0, 1.0]})
    [verdict] = check_rules(same, KEEPS, baseline=same)
    assert verdict.outcome == "inconclusive"
    assert "Of " not in verdict.sentence


def test_a_small_slice_can_fail() -> None:
    """Ten questions of ten lost: t's bound is decided by them alone."""
    before = scores_of({"en": [1.0] * 100, "de": [1.0] * 10})
    after = scores_of({"en": [1.0] * 100, "de": [0.0] * 9 + [0.5]})
    [verdict] = check_rules(after, KEEPS, baseline=before)
    assert (verdict.outcome, verdict.part, verdict.least) == ("fail", "language de", None)


def test_a_slice_without_an_expected_value_is_left_out() -> None:
    scores = scores_of({"en": [1.0, 0.0, 1.0]})
    unanswerable = {"xx0": {"language": "xx"}, "xx1": {"language": "xx"}}
    with_both = scores.replace(
        excluded=dict.fromkeys(unanswerable, "no_relevant"),
        metadata={**scores.metadata, **unanswerable},
    )
    [verdict] = check_rules(with_both, "hit_rate@5 >= 0.5 in every language")
    assert [part.part for part in verdict.parts] == ["language en"]
    failed = scores.replace(
        excluded=dict.fromkeys(unanswerable, "failed"), metadata={**scores.metadata, **unanswerable}
    )
    [verdict] = check_rules(failed, "hit_rate@5 >= 0.5 in every language")
    assert (verdict.outcome, verdict.part, verdict.n) == ("fail", "language xx", 0)


def test_questions_without_the_key_are_a_slice() -> None:
    scores = scores_of({"en": [1.0, 1.0], "de": [0.0, 1.0]})
    scores = scores.replace(metadata={q: row for q, row in scores.metadata.items() if q[0] == "e"})
    [verdict] = check_rules(scores, "hit_rate@5 >= 0.8 in every language")
    assert (verdict.outcome, verdict.part) == ("fail", "questions without language")


def test_what_a_table_lacks_is_no_slice_of_its_own() -> None:
    """NaN isn't equal to itself: each would be a slice."""
    values = [math.nan, math.nan, None, ([1],), ["de", "en"], ["de", "en"], " "]
    ids = [f"q{at}" for at in range(len(values))]
    metadata = {q: {"language": value} for q, value in zip(ids, values, strict=True)}
    scores = Scores(ids, {"hit_rate@5": [1.0] * len(ids)}, metadata=metadata)
    [verdict] = check_rules(scores, "hit_rate@5 >= 0.5 in every language")
    assert {part.part: part.n for part in verdict.parts} == {
        "questions without language": 3,
        "language ([1],)": 1,
        "language ['de', 'en']": 2,
        "language ' '": 1,
    }


def test_a_slice_that_the_baseline_lacks_is_named() -> None:
    before, after = scores_of({"en": [1.0] * 60}), scores_of({"en": [1.0] * 60, "de": [0.0] * 40})
    report = check_rules(after, KEEPS, baseline=before, on_missing="intersect")
    assert report.outcome == "pass"
    said = "not checked, since the baseline has no such questions: language de"
    assert said in report.notes
    # where the common ones have no value of the key at all
    bare = after.replace(metadata={q: {"language": "de"} for q in after.query_ids if q[0] == "d"})
    report = check_rules(bare, KEEPS, baseline=before, on_missing="intersect")
    assert [part.part for part in report.verdicts[0].parts] == ["questions without language"]
    assert said in report.notes


def test_a_loss_in_a_small_slice_is_said() -> None:
    """3 of 8 lost: not proven to be more than 0.05, nor ever to be passed with 8 questions."""
    before = scores_of({"en": [1.0] * 100, "fr": [1.0] * 5, "it": [1.0] * 5, "de": [1.0] * 8})
    after = before.replace(columns={"hit_rate@5": [1.0] * 110 + [0.0] * 3 + [1.0] * 5})
    [verdict] = check_rules(after, KEEPS, baseline=before)
    assert verdict.outcome == "pass"
    small = f"fewer than {least_by_definition(0.05)} questions: de (8, with a loss of 0.38), fr (5)"
    assert small in verdict.sentence


def test_one_slice_is_one_rule_beside_others() -> None:
    """Two rules, of three slices the one: a slice fails at 1 - 0.05 / 6, the other rule at / 2."""
    before, after = drawn_at_random(5, en=80, de=80, fr=80)
    sliced, plain = check_rules(
        after, [KEEPS, "hit_rate@5 >= baseline - 0.06"], baseline=before
    ).verdicts
    assert {part.together for part in sliced.parts} == {6}
    assert plain.together == 2


def test_counts_and_what_was_observed_hold_in_slices() -> None:
    before, after = drawn_at_random(1, en=40, de=40)
    rules = [
        "failed <= 0 in every language",
        "hit_rate@5 >= baseline - 1 as observed in every language",
    ]
    report = check_rules(after, rules, baseline=before)
    assert [len(verdict.parts) for verdict in report] == [2, 2]
    assert report.outcome == "pass"


def test_a_stored_baseline_keeps_such_rules(tmp_path: Path) -> None:
    same = scores_of({"en": [1.0, 0.0] * 100})
    Baseline.of(same, rules=[Rule.parse(KEEPS)]).save(tmp_path / "baseline.json")
    stored = Baseline.load(tmp_path / "baseline.json")
    assert stored.rules == (Rule.parse(KEEPS),)
    assert check_rules(same, stored.rules, baseline=stored).outcome == "pass"


def test_an_unknown_key_is_refused() -> None:
    same = scores_of({"en": [1.0, 0.0]})
    for rule in ("hit_rate@5 >= 0.5 in every langage", "hit_rate@5 >= baseline in every langage"):
        with pytest.raises(
            InvalidInput, match=r"langage.*expected a key of the questions' metadata"
        ):
            check_rules(same, rule, baseline=same)


@pytest.mark.slow
@pytest.mark.parametrize(("n_slices", "most"), [(2, 37), (12, 17)])
def test_unchanged_systems_seldom_fail_in_any_slice(n_slices: int, most: int) -> None:
    """Signs by lot: at most 5 % fail. Binomial(400, 0.05) is at most 37, binomial(150, 0.05) at
    most 17 in 99.9 % of cases; without a correction, 150 times twelve slices are about 68."""
    generator = np.random.default_rng(n_slices)
    failed = 0
    keys = [f"{at:02}" for at in range(n_slices)]
    for _ in range(400 if n_slices == 2 else 150):
        columns = {key: generator.normal(0, 0.3, 30) for key in keys}
        before = scores_of({key: [0.0] * 30 for key in keys}, "mine")
        after = scores_of({key: column.tolist() for key, column in columns.items()}, "mine")
        rule = "mine >= baseline in every language"
        failed += check_rules(after, rule, baseline=before, worst=0).outcome == "fail"
    assert failed <= most


def test_scores_without_metadata_say_where_it_comes_from() -> None:
    bare = Scores(["q"], {"hit_rate@5": [1.0]})
    with pytest.raises(InvalidInput, match=r"metadata, got 'language'. They have none: score with"):
        check_rules(bare, "hit_rate@5 >= 0.5 in every language")
