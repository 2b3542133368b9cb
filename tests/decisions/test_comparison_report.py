"""A comparison in the terminal, a notebook, Markdown and on a page: one set of numbers."""

import io
import re
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from support.golden import check_golden
from support.reported import comparison

from llama_index_rag_metrics import (
    Comparison,
    EvaluationResults,
    RetrievalDataset,
    Run,
    Scores,
    compare,
    evaluate,
    score_rankings,
)
from llama_index_rag_metrics.report.terminal import print_report, to_text
from llama_index_rag_metrics.scores.retrieval import Retrieval


def large(**options: Any) -> Comparison:
    """120 questions: b is better than a by both metrics, c is as good."""
    rng = np.random.default_rng(11)
    ids = [f"q{number}" for number in range(120)]
    first = rng.beta(2, 2, (2, 120))

    def scores(shift: float) -> Scores:
        columns = np.clip(first + shift + rng.normal(0, 0.05, (2, 120)), 0, 1)
        return Scores(ids, {"mrr": columns[0], "ndcg@10": columns[1]}, notes=["a note"])

    systems = {"a": scores(0), "b_1 & 100 %": scores(0.1), "c": scores(0)}
    return compare(systems, "a", metrics=["ndcg@10", "mrr"], **options)


def test_terminal_shows_verdicts_tables_and_notes() -> None:
    check_golden("decisions/comparison_report.txt", [to_text(large().report(), width=100)])


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


def test_better_is_green_and_worse_is_red() -> None:
    page = io.StringIO()
    out = Console(file=page, width=120, force_terminal=True, color_system="standard")
    print_report(large().report(), console=out)
    assert re.search(r"\x1b\[1;32m *\+0\.\d{3}(?!\d)", page.getvalue())
    assert "\x1b[1;31m" not in page.getvalue()


def test_terminal_gets_no_control_characters() -> None:
    a = Scores(["q"], {"mrr": [1.0]}, notes=["\x1b[31mred"])
    text = str(compare({"a": a, "b\x1b[2J\nb": a}, "a"))
    assert "\x1b" not in text
    assert "[2J b against a" in text


def test_counts_are_shown_where_they_are_not_the_same_for_all() -> None:
    # of five questions one has nothing relevant; the other system fails on one, and finds nothing
    # for another
    text = comparison().to_markdown()
    (head,) = [line for line in text.splitlines() if "| failed |" in line]
    names = [name.strip() for name in head.strip("|").split("|")]
    assert {"nothing relevant", "nothing retrieved", "failed"} <= {*names}
    assert "failed" not in large().to_markdown()


def test_markdown_is_a_table_that_no_name_can_break() -> None:
    a = Scores(["q"], {"mrr": [1.0]})
    hostile = "x|y `z` [l](http://e) @me <b> #1\nnext"
    text = compare({"a": a, hostile: a}, "a").to_markdown()
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert rows[0] == (
        "| system | mean | 95 % interval | difference | 95 % interval | better / same / worse |"
    )
    assert rows[1] == "| :-- |" + " --: |" * 5
    assert rows[2] == "| a | 1.00 | – | baseline | – | – |"
    assert rows[3] == (
        "| x&#124;y &#96;z&#96; &#91;l&#93;(http&#58;//e) &#64;me &#60;b&#62; &#35;1 next "
        "| 1.00 | – | 0.00 | – | 0 / 1 / 0 |"
    )
    assert "<b>" not in text
    assert "Intervals of differences hold for all systems at once" in large().to_markdown()
    difference = large()["b_1 & 100 %", "mrr"]
    assert f"**+{difference.difference:.3f}**" in large().to_markdown()


def test_systems_without_a_query_in_common_have_no_difference() -> None:
    ids, nan = ["q1", "q2", "q3", "q4"], np.nan
    systems = {
        "a": Scores(ids, {"mrr": [1.0, 0.5, 0.0, 1.0]}),
        "b": Scores(ids, {"mrr": [1.0, 0.5, nan, nan]}),
        "c": Scores(ids, {"mrr": [nan, nan, 1.0, 0.5]}),
    }
    compared = compare(systems, "a")
    assert compared.winner is None
    assert "nan" not in f"{compared.to_markdown()}{to_text(compared.report(full=True))}"


def test_means_are_of_the_questions_that_the_difference_is_of() -> None:
    # all of a: 3 of 4; of the three questions that b has, too: 2 of 3
    a = Scores(["q1", "q2", "q3", "q4"], {"mrr": [1.0, 1.0, 0.0, 1.0], "ap": [0.5] * 4})
    b = Scores(["q1", "q2", "q3", "q4"], {"mrr": [1.0, 1.0, 1.0, np.nan], "ap": [0.4] * 4})
    compared = compare({"a": a, "b": b}, "a")
    assert [row.cells[0].value for row in compared.report().tables[0].rows] == [2 / 3, 1.0]
    assert "Means are of questions that all have scores for" in str(compared)
    # a system that failed on all leaves the others their means
    broken = Scores(a.query_ids, {"mrr": [np.nan] * 4}, failed=dict.fromkeys(a.query_ids, "401"))
    compared = compare({"a": a, "b": b, "broken": broken}, "a")
    assert [row.cells[0].value for row in compared.report().tables[0].rows][:2] == [2 / 3, 1.0]
    assert "3 of 4 questions compared" in str(compared)


def test_ties_of_one_question_draw_a_page(tmp_path: Path) -> None:
    scores = Scores(["q"], {"mrr": [1.0]})
    page = compare({"a": scores, "b": scores}, "a").to_html(tmp_path / "page.html")
    assert "Nothing can be said about b and a on mrr: only 1 question." in page.read_text("utf-8")


@pytest.mark.slow
def test_hundred_systems_take_little_time_and_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ids = [f"q{number:03}" for number in range(200)]
    base = rng.random((2, 200))
    systems = {
        f"s{number}": Scores(ids, dict(zip(("mrr", "recall@3"), columns, strict=True)))
        for number, columns in enumerate(np.clip(base + rng.normal(0, 0.1, (100, 2, 200)), 0, 1))
    }
    tracemalloc.start()
    start = time.process_time()
    compared = compare(systems, "s0")
    assert len(str(compared).splitlines()) > 200
    compared.to_html(tmp_path / "page.html")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # 3 s without tracing, which takes about as long again
    assert time.process_time() - start < 12
    assert peak < 300e6


def test_report_of_two_questions_is_at_most_30_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    labels = {"queries": {"q1": "?", "q2": "who?"}, "corpus": {}}
    dataset = {**labels, "relevant_docs": {"q1": ["7"], "q2": ["3", "9"]}}
    old = evaluate(lambda query: ["3"], dataset)
    text = str(compare({"old": old, "new": evaluate(lambda query: ["7", "3"], dataset)}, "old"))
    assert len(text.splitlines()) <= 30
    assert "metric                        old                   new   difference" in text


OLD = {"q1": "a", "q2": "xb", "q3": "xyc", "q4": "d", "q5": "e", "q6": "x"}


def questions_of(new: dict[str, str], *others: dict[str, str]) -> str:
    """The questions below the tables; the letters of a ranking are its passages."""
    systems, labels = {}, dict(zip(OLD, map(list, "abcdef"), strict=True))
    for name, rankings in zip(("old", "new", "other"), (OLD, new, *others), strict=False):
        run = Run({query_id: [*letters] for query_id, letters in rankings.items()})
        systems[name] = score_rankings(labels, run, ["mrr"])
    text = to_text(compare(systems, "old").report(), width=100)
    listing = re.search(r"^(?:Where|Lowest) .+?(?:\n\n|\Z)", text, re.M | re.S)
    assert listing
    return listing[0]


def test_questions_that_lost_most_or_both_fail_are_told() -> None:
    worse = {"q1": "", "q2": "xyb", "q3": "c", "q4": "xd", "q5": "xe", "q6": ""}
    lost, failed = questions_of(worse), questions_of({**OLD, "q2": "b"})
    check_golden("decisions/comparison_questions.txt", [lost, failed])
    # of several systems those of the best one
    assert questions_of(worse, dict.fromkeys(OLD, "")) == lost


def test_questions_without_labels_show_what_came() -> None:
    systems, ids = {}, ["q1", "q2", "q3"]
    for name, tokens in {"a": [5.0, 5.0, 5.0], "b": [7.0, 9.0, 1.0]}.items():  # fewer are better
        retrieval = Retrieval(Run({query_id: ["d"] for query_id in ids}))
        systems[name] = Scores(ids, {"tokens": tokens}).replace(retrieval=retrieval)
    (listing,) = compare(systems, "a").report().listings
    assert listing.title == "Where b is worse than a on tokens: 2 of 3 questions"
    assert [story.query_id for story in listing.queries] == ["q2", "q1"]
    assert (listing.n_items, listing.n_unlisted, listing.lead) == (1, 0, "")


def test_page_does_not_tell_its_questions_twice(tmp_path: Path) -> None:
    compared = comparison()
    assert "Where " in compared._repr_html_()
    assert "Where " not in compared.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
