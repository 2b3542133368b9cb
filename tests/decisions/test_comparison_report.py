"""A comparison in the terminal, a notebook, Markdown, LaTeX and CSV: one set of numbers."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from support.reported import EVIL, comparison

from llama_index_rag_metrics import (
    Comparison,
    EvaluationResults,
    RetrievalDataset,
    Scores,
    compare,
    evaluate,
)
from llama_index_rag_metrics.decisions.comparison.comparison_report import settings_of, title_of
from llama_index_rag_metrics.report.numbers import between as interval_text
from llama_index_rag_metrics.report.numbers import ends, signed
from llama_index_rag_metrics.report.terminal import print_report, to_text


def comparison_text(comparison: Comparison, width: int = 100) -> str:
    return to_text(comparison.report(), width=width)


def large(**options: Any) -> Comparison:
    """120 questions: b is better than a by both metrics, c is as good."""
    rng = np.random.default_rng(11)
    ids = [f"q{number}" for number in range(120)]
    first = rng.beta(2, 2, (2, 120))
    metadata = {
        query_id: {"kind": "odd" if number % 2 else "even"} for number, query_id in enumerate(ids)
    }

    def scores(shift: float) -> Scores:
        columns = np.clip(first + shift + rng.normal(0, 0.05, (2, 120)), 0, 1)
        return Scores(
            ids, {"mrr": columns[0], "ndcg@10": columns[1]}, metadata=metadata, notes=["a note"]
        )

    systems = {"a": scores(0), "b_1 & 100 %": scores(0.1), "c": scores(0)}
    return compare(systems, "a", metrics=["ndcg@10", "mrr"], **options)


def test_facts_go_with_the_names_of_the_systems_that_they_hold_for() -> None:
    dataset = RetrievalDataset({"q": "?"}, {"q": ["a"]}, name="moons")
    systems: dict[str, EvaluationResults | Scores] = {
        name: evaluate(lambda _: ["a"], dataset, ["mrr"], name=name, workers=workers)
        for name, workers in (("a", 1), ("b", 1), ("c", 2))
    }
    about = dict(compare(systems, "a").report().about)
    assert about["dataset"] == "moons: 1 question"
    assert about["workers"] == "a and b: 1; c: 2"
    # nothing is known of how bare scores came about
    about = dict(compare({**systems, "bare": Scores(["q"], {"mrr": [0.5]})}, "a").report().about)
    assert about["dataset"] == "a, b and c: moons: 1 question"


def test_the_terminal_shows_verdict_numbers_settings_and_notes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    compared = large()
    text = comparison_text(compared, width=120)
    difference = compared["b_1 & 100 %", "ndcg@10"]
    row = next(line for line in text.splitlines() if line.strip().startswith("ndcg@10"))

    assert (
        text.splitlines()[0] == " b_1 & 100 % and c against a  120 questions compared on 2 metrics"
    )
    assert " ".join(text.split()).count(difference.verdict) == 1
    assert row.split() == [
        "ndcg@10",
        f"{difference.baseline_mean:.3f}",
        f"{difference.mean:.3f}",
        f"+{difference.difference:.3f}",
        f"+{difference.low:.3f}", "to", f"+{difference.high:.3f}",
        str(difference.wins), "/", str(difference.ties), "/", str(difference.losses),
    ]  # fmt: skip
    assert "! a note" in text
    assert " ".join(settings_of(compared).split()) in " ".join(text.split())
    assert str(compared) == comparison_text(compared)


@pytest.mark.parametrize(
    ("systems", "metrics", "said"),
    [
        ("ab", ["mrr"], ""),
        ("ab", ["mrr", "ap"], ""),  # two differences, each a family of its own
        (
            "ab",
            ["mrr", "ap", "err"],
            " On metrics other than mrr they hold for all of them at once.",
        ),
        ("abc", ["mrr"], " They hold for all 3 systems at once."),
        (
            "abc",
            ["mrr", "ap"],
            " They hold for all 3 systems at once: on mrr by itself, on the other metrics "
            "together.",
        ),
    ],
)
def test_the_settings_say_what_holds_at_once(systems: str, metrics: list[str], said: str) -> None:
    ids = [f"q{number}" for number in range(8)]
    luck = np.random.default_rng(0)
    scored = {
        name: Scores(ids, {metric: luck.random(len(ids)) for metric in metrics}) for name in systems
    }
    words = settings_of(compare(scored, "a"))
    assert words == f"95 % confidence intervals decide.{said}"


@pytest.mark.parametrize("width", [*range(60, 80), 80, 100, 140])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    lines = comparison_text(large(), width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert all(line == line.rstrip() for line in lines)
    assert any("interval" in line for line in lines)
    assert any(line.startswith(" ndcg@10 ") for line in lines)


def test_columns_that_dont_fit_are_named() -> None:
    assert "too narrow for" not in comparison_text(large(), width=140)
    narrow = " ".join(comparison_text(large(), width=60).split())
    assert "too narrow for" in narrow


def test_better_is_green_and_worse_is_red() -> None:
    page = io.StringIO()
    out = Console(file=page, width=120, force_terminal=True, color_system="standard")
    print_report(large().report(), console=out)
    assert re.search(r"\x1b\[1;32m *\+0\.\d{3}(?!\d)", page.getvalue())
    assert "\x1b[1;31m" not in page.getvalue()


def test_a_terminal_gets_no_control_characters() -> None:
    a = Scores(["q"], {"mrr": [1.0]}, notes=["\x1b[31mred"])
    text = str(compare({"a": a, "b\x1b[2J\nb": a}, "a"))
    assert "\x1b" not in text
    assert "[2J b against a" in text


class Page(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.words = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.words += data + "\n"


def test_a_notebook_shows_the_same_and_escapes() -> None:
    compared = comparison()
    page = Page(compared._repr_html_())

    assert "script" not in page.tags
    assert compared[EVIL, "ndcg@3"].verdict in page.words
    assert f"{compared[EVIL, 'mrr'].mean:.2f}" in page.words


def test_counts_stand_beside_the_means() -> None:
    # of five queries one has nothing relevant; the other system fails on one, and finds nothing
    # for another
    compared = comparison()
    lines = [line.split() for line in comparison_text(compared).splitlines()]
    table = lines[lines.index(["Means,", "questions,", "latency"]) :]
    assert [line[-2:] for line in table if line[:1] in (["questions"], ["scored"])] == [
        ["5", "5"],
        ["4", "4"],
    ]
    assert ["failed", "0", "1"] in table
    assert ["nothing", "retrieved", "0", "1"] in table
    assert "| failed | 0 | **1** |" in compared.to_markdown()
    assert "no relevant label" in Page(compared._repr_html_()).words


def test_a_mean_without_an_interval_says_why() -> None:
    # b's column is constant; a's has 40 different scores
    ids = [f"q{number}" for number in range(40)]
    a = Scores(ids, {"mrr": [number / 40 for number in range(40)]})
    b = Scores(ids, {"mrr": [0.5] * 40})
    _, means, *_ = compare({"a": a, "b": b}, "a").report(full=True).sections
    assert means.notes == ["mrr of b: interval approximate: all questions have the same score"]


def test_markdown_is_a_table_that_no_name_can_break() -> None:
    a = Scores(["q"], {"mrr": [1.0]})
    hostile = "x|y `z` [l](http://e) @me <b> #1\nnext"
    text = compare({"a": a, hostile: a}, "a").to_markdown()
    rows = [line for line in text.splitlines() if line.startswith("|")]

    assert rows[0] == (
        "| metric | a "
        "| x&#124;y &#96;z&#96; &#91;l&#93;(http&#58;//e) &#64;me &#60;b&#62; &#35;1 next "
        "| difference | 95 % interval | better / same / worse |"
    )
    assert rows[1] == "| :-- |" + " --: |" * 5
    assert rows[2] == "| mrr | 1.00 | 1.00 | 0.00 | – | 0 / 1 / 0 |"
    assert "<b>" not in text


def test_markdown_makes_what_is_better_bold() -> None:
    compared = large()
    difference = compared["b_1 & 100 %", "mrr"]
    assert difference.outcome == "better"
    assert f"**+{difference.difference:.3f}**" in compared.to_markdown()


def test_records_have_every_number_in_full() -> None:
    compared = large()
    frame = compared.to_pandas()
    rows = frame.to_dict("records")
    for row, difference in zip(rows, compared, strict=False):
        assert float(row["difference"]) == difference.difference
        assert row["verdict"] == difference.verdict


@pytest.mark.parametrize(
    ("difference", "shown"),
    [(0.0, "0.0000"), (-0.00004, "0.0000"), (0.00006, "+0.0001"), (-0.25, "−0.2500")],
)
def test_a_difference_has_a_sign_unless_it_looks_like_none(difference: float, shown: str) -> None:
    assert signed(difference) == shown


def test_small_numbers_are_not_rounded_to_nothing() -> None:
    assert interval_text(None, None) == "–"
    assert interval_text(-0.1, 0.2) == "−0.1000 to +0.2000"


def test_an_end_next_to_0_does_not_look_as_if_it_were_0() -> None:
    assert interval_text(0.00003, 0.2) == "+0.000030 to +0.2000"
    assert interval_text(1e-11, 0.2) == "above 0 to +0.2000"
    assert interval_text(-0.2, -1e-11) == "−0.2000 to below 0"
    assert interval_text(-1e-17, 1e-17) == "0.0000 to 0.0000"
    assert (ends(1e-11, 0.2), ends(-0.2, -0.0003)) == ("above 0 to 0.20", "−0.20 to −0.0003")


def test_many_systems_do_not_fill_the_title() -> None:
    perfect = Scores(["q"], {"mrr": [1.0]})
    names = ["base", *"abcde"]
    compared = compare(dict.fromkeys(names, perfect), "base")
    assert title_of(compared) == "a, b and 3 more against base"


def test_two_systems_without_a_query_in_common_have_no_difference() -> None:
    ids, nan = ["q1", "q2", "q3", "q4"], np.nan
    systems = {
        "a": Scores(ids, {"mrr": [1.0, 0.5, 0.0, 1.0]}),
        "b": Scores(ids, {"mrr": [1.0, 0.5, nan, nan]}),
        "c": Scores(ids, {"mrr": [nan, nan, 1.0, 0.5]}),
    }
    compared = compare(systems, "a")
    assert compared.winner is None
    markdown = compared.to_markdown()
    assert "nan" not in f"{markdown}{to_text(compared.report(full=True))}"
