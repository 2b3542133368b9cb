"""Several systems shown together decide as their comparison does, and claim no more."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from llama_index_rag_metrics import (
    EvaluationResults,
    Scores,
    check_rules,
    compare,
    evaluate,
    print_results,
    score_rankings,
    write_html,
)
from llama_index_rag_metrics.rankings.run import Call, Ranking, Run
from llama_index_rag_metrics.report.html.page import html_page
from llama_index_rag_metrics.stories.rows import mark_best

IDS = [f"q{number:02}" for number in range(40)]


def scores(values: list[float], metric: str = "recall@5", name: str = "", **options: Any) -> Scores:
    return Scores(IDS[: len(values)], {metric: values}, name=name, **options)


def printed(reported: Any, **options: Any) -> str:
    page = io.StringIO()
    console = Console(file=page, width=300, color_system=None, highlight=False)
    print_results(reported, console=console, worst=0, **options)
    return page.getvalue()


def first_lines(reported: Any, n: int = 1) -> list[str]:
    return [line.strip() for line in printed(reported).splitlines()[1 : n + 1]]


def test_a_page_from_python_decides(tmp_path: Path) -> None:
    systems = {"old": scores([0.0] * 40), "new": scores([1.0] * 40)}
    page = write_html(systems, tmp_path / "both.html").read_text("utf-8")
    assert "new is better than old on recall@5" in page
    assert "compare()" not in page
    assert first_lines(systems)[0].startswith("new is better than old on recall@5: +1.00")


class TestFailures:
    """A system that answered nothing is left out, and said so; a failure is no low cost."""

    FAILED = dict.fromkeys(IDS, "RuntimeError: refused")

    def crashed(self, n: int, metric: str = "calls") -> Scores:
        """Of 40 questions n failed; no call, no token, and 0 would be the best score."""
        failed = dict.fromkeys(IDS[:n], "RuntimeError: refused")
        return scores([0.0] * n + [3.0] * (40 - n), metric, failed=failed)

    def test_no_failed_question_has_a_score_of_which_less_is_better(self) -> None:
        calls = Run({"q1": Ranking(["a"], calls=[Call(["a"])]), "q2": Ranking(error="refused")})
        scored = score_rankings({"q1": ["a"], "q2": ["a"]}, calls, ["recall@5", "calls"])
        assert scored.by_query("calls") == {"q1": 1.0}
        assert scored.by_query("recall@5") == {"q1": 1.0, "q2": 0.0}
        assert self.crashed(39).by_query("calls") == {"q39": 3.0}

    def test_crashing_isnt_better(self) -> None:
        good = scores([3.0] * 40, "calls")
        row = compare({"good": good, "bad": self.crashed(39)}, "good")["bad", "calls"]
        assert (row.n, row.outcome) == (1, "can't tell")
        assert row.verdict == "A single question can't tell bad and good apart on calls."

    @pytest.mark.parametrize("metric", ["calls", "recall@5"])
    def test_what_answered_nothing_is_left_out(self, metric: str) -> None:
        good, fair = scores([3.0] * 40, metric), scores([2.0] * 20 + [3.0] * 20, metric)
        crashed = scores([0.0] * 40, metric, failed=self.FAILED)
        alone = compare({"good": good, "crashed": crashed}, "good").report().decision
        assert [each.text for each in alone] == [
            "Nothing was measured of crashed: all 40 questions failed (RuntimeError: refused)."
        ]
        nothing, *verdicts = (
            compare({"good": good, "fair": fair, "crashed": crashed}, "good").report().decision
        )
        assert nothing.tone == "alarm"
        assert verdicts
        assert not any("crashed" in each.text for each in verdicts)
        html = html_page(compare({"good": good, "fair": fair, "crashed": crashed}, "good").report())
        assert "Nothing was measured of crashed" in html
        lines = first_lines({"good": good, "crashed": crashed}, 2)
        assert lines[0].startswith("Nothing was measured of crashed")
        assert lines[1].startswith(f"good: {metric} is 3.00")

    def test_those_that_failed_alike_are_said_once(self) -> None:
        crashed = scores([0.0] * 40, failed=self.FAILED)
        lines = first_lines({"a": crashed, "b": crashed}, 2)
        assert lines[0] == (
            "Nothing was measured of a, b: all 40 questions failed (RuntimeError: refused)."
        )
        assert not lines[1].startswith("Nothing")

    @pytest.mark.parametrize("rule", ["calls <= 4", "calls <= 4 at 95%", "calls <= baseline + 1"])
    @pytest.mark.parametrize(("failed", "n"), [(40, 0), (39, 1)])
    def test_no_rule_passes_where_questions_failed(self, rule: str, failed: int, n: int) -> None:
        baseline = scores([3.0] * 40, "calls")
        gate = check_rules(self.crashed(failed), rule, baseline=baseline)
        (verdict,) = gate
        assert (verdict.outcome, verdict.n) == ("fail", n)
        assert f"failed: {failed} × RuntimeError: refused" in " ".join(gate.notes)


class TestOtherQuestions:
    """Means over other questions aren't ranked."""

    def test_what_few_have_is_compared_on_these(self) -> None:
        partial = scores([0.9, math.nan, math.nan, math.nan])
        lines = first_lines({"a": partial, "b": scores([0.5, 0.6, 0.7, 0.8])})
        assert lines == ["A single question can't tell b and a apart on recall@5."]

    def test_one_shared_question(self) -> None:
        one, other = scores([1.0]), scores([0.0])
        assert first_lines([one, other]) == [
            "A single question can't tell system 2 and system 1 apart on recall@5."
        ]

    def test_no_shared_question_or_metric(self) -> None:
        other = Scores(["x1", "x2"], {"recall@5": [1.0, 0.5]})
        apart = {"a": scores([0.9, 0.8]), "b": other}
        assert first_lines(apart) == ["They have no question in common."]
        by_other = {"a": scores([0.9, 0.8]), "b": scores([0.9, 0.8], "mrr")}
        assert first_lines(by_other) == ["They have no metric in common."]
        assert "*" not in printed(apart)

    def test_no_mean_over_other_questions_is_marked(self) -> None:
        def tones(*asked: str) -> list[str]:
            return [cell.tone for cell in mark_best("mrr", [0.5, 0.9], [*map(list, asked)])]

        assert tones("abc", "abc") == ["normal", "leading"]
        assert tones("abc", "ab") == ["normal", "normal"]
        assert tones("abc", "abd") == ["normal", "normal"]


def test_repeated_names_are_numbered() -> None:
    low, high = scores([0.5] * 40, name="x"), scores([0.7] * 40, name="x")
    assert first_lines([low, high])[0].startswith("x 2 is better than x on recall@5: +0.20")


def test_it_takes_results_as_it_takes_scores() -> None:
    dataset = {
        "queries": {"q1": "x?", "q2": "y?"},
        "corpus": {},
        "relevant_docs": {"q1": ["d1"], "q2": ["d2"]},
    }
    systems: dict[str, EvaluationResults] = {
        name: evaluate(lambda query, ids=ids: ids, dataset, ["recall@5"])
        for name, ids in (("one", ["d1"]), ("both", ["d1", "d2"]))
    }
    assert first_lines(systems)[0].startswith("These 2 questions can't tell: both may be ")
