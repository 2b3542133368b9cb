"""What a notebook shows."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from llama_index_rag_metrics import (
    Ranking,
    Relevance,
    Run,
    Scores,
    check_rules,
    evaluate,
    score_rankings,
)
from llama_index_rag_metrics.evaluation.results.evaluation_results import (
    EvaluationResults,
    results_report,
)
from llama_index_rag_metrics.report.model import Cell, Report, Row, Section, Statement, Table
from llama_index_rag_metrics.report.notebook import to_notebook


def scores_html(reported: Any) -> str:
    return to_notebook(results_report(reported))


EVIL = "<script>alert(1)</script>"


class Page(HTMLParser):
    """The tags, the words and the table of a page; refuses tags that aren't closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.words: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if self.open[-1] in ("td", "th"):
            self.rows[-1].append(data)


def results(name: str) -> EvaluationResults:
    relevance = {"q1": Relevance({"a": 2}), "q2": Relevance([EVIL])}
    run = Run(
        {
            "q1": Ranking(["b", "a"], texts=[EVIL, "a"], latency=0.5),
            "q2": Ranking(error=f"ValueError: {EVIL}"),
        },
        name=name,
    )
    scores = score_rankings(
        relevance, run, ["mrr"], queries={"q1": EVIL, "q2": f"second {EVIL}"}, name=name
    )
    scores = scores.replace(notes=[f"a note {EVIL}"])
    return EvaluationResults([], run=run, relevance=relevance, scores=scores)


def test_the_table_has_means_counts_and_latency() -> None:
    page = Page(scores_html([results("one"), Scores(["q1"], {"mrr": [0.75]}, name="two")]))
    rows = {row[0]: row[1:] for row in page.rows[1:]}

    assert page.rows[0] == ["one", "two"]
    assert rows["mrr"] == ["0.25", "0.75"]  # one: 1/2, and 0 where it failed
    assert rows["questions"] == ["2", "1"]
    assert rows["failed"] == ["1", "0"]
    assert rows["latency p50"] == ["500 ms", "–"]


def test_means_have_their_intervals() -> None:
    scores = Scores(["q1", "q2", "q3"], {"mrr": [1.0, 0.5, 0.0]}, name="one")
    interval = scores.intervals()["mrr"]

    assert interval.low is not None
    assert interval.high is not None
    assert f"> ({interval.low:.2f} to {interval.high:.2f})</small>" in scores._repr_html_()
    assert "[" not in str(scores)  # a terminal has it in the first sentence alone


def test_a_question_unfolds_to_what_was_wanted_and_what_came() -> None:
    relevance = {"q1": Relevance({"io": 2, "rhea": 1})}
    dataset = {
        "queries": {"q1": "Which moon has volcanoes?"},
        "corpus": {"io": f"Io has volcanoes {EVIL}.", "rhea": "Rhea has craters.", "x": "Saturn."},
        "relevant_docs": relevance,
    }
    results = evaluate(lambda _: ["x", "io"], dataset, ["recall@1"], name="one")
    html = results._repr_html_()
    unfolded = next(part for part in html.split("<details>") if "Which moon" in part)

    page = Page(f"<details>{unfolded.partition('</details>')[0]}</details>")
    text = " ".join(" ".join(page.words).split())
    assert text.startswith("q1 Which moon has volcanoes? 0.00")
    assert f"io [2] rank 2, below the cutoff 1 Io has volcanoes {EVIL}." in text
    assert "rhea [1] never retrieved Rhea has craters." in text
    assert f"x Saturn. io [2] Io has volcanoes {EVIL}." in text  # what came, best first
    assert "script" not in page.tags
    assert "Which moon" in results.worst("recall@1", 1)[0]._repr_html_()


def test_a_lost_passage_shows_more_than_its_title() -> None:
    text = "The craters of Rhea\n" + "Rhea has many craters. " * 40
    dataset = {
        "queries": {"q1": "Which moon has craters?"},
        "corpus": {"rhea": text, "io": "The volcanoes of Io\nIo has many."},
        "relevant_docs": {"q1": ["rhea", "io"]},
    }
    html = evaluate(lambda _: ["io"], dataset, ["recall@1"])._repr_html_()

    lost = html.partition("<code>rhea [1]</code> ")[2].partition("</li>")[0]
    where, _, shown = lost.partition("</span> ")
    assert where.endswith("never retrieved")
    title, _, rest = shown.partition("</b> ")
    assert title == "<b>The craters of Rhea"
    # 400 characters in all, ended between words
    assert rest.endswith((" Rhea…", " has…", " many…", " craters.…"))
    assert 380 < len(title) - len("<b>") + 1 + len(rest) <= 400


def test_a_table_folds_its_further_parts() -> None:
    html = scores_html(results("one"))
    shown, _, inside = html.partition("<summary>Counts and latency</summary>")

    assert ">mrr<" in shown
    assert ">questions<" not in shown
    assert inside.index(">questions<") < inside.index("</details>")


def test_a_next_step_can_be_copied() -> None:
    statement = Statement(f"Label these {EVIL}.", command=f"rag-metrics labels pool {EVIL}")
    page = Page(to_notebook(Report("Report", decision=[statement])))

    assert f"rag-metrics labels pool {EVIL}" in page.words
    assert "script" not in page.tags


def test_whatever_comes_from_data_is_escaped() -> None:
    html = scores_html([results(EVIL), results("two")])
    page = Page(html)

    assert "script" not in page.tags
    assert "<script" not in html
    # query text, first result, relevant id, error, note, system
    assert sum(EVIL in word for word in page.words) >= 6
    assert f"second {EVIL}" in "".join(page.words)


def test_colours_come_from_the_page() -> None:
    html = scores_html(results("one"))

    assert "color:inherit" in html
    assert "background:transparent" in html
    assert "#fff" not in html
    assert "#000" not in html


def test_the_best_mean_is_bold() -> None:
    html = scores_html([Scores(["q"], {"mrr": [1.0]}), Scores(["q"], {"mrr": [0.5]})])

    assert html.count('font-weight:bold">1.00') == 1
    assert 'font-weight:bold">0.5000' not in html


def test_results_and_scores_show_themselves() -> None:
    reported = results("one")

    assert reported._repr_html_() == scores_html(reported)
    assert "0.25" in reported.scores._repr_html_()


def test_a_verdict_stands_out() -> None:
    html = check_rules(results("one"), "mrr >= 0.9")._repr_html_()

    # 0.25: 1/2, and 0 where it failed
    assert (
        '<p><span style="font-weight:bold;color:#d6403b">The rule failed: mrr is 0.25, must be at '
        "least 0.9 (2 questions).</span></p>"
    ) in html


def test_an_explanation_is_folded_with_the_table_that_it_explains() -> None:
    cells = [Cell(-0.5, "range", low=-0.5, high=0.5), Cell("a text")]
    table = Table("", ["number", "text"], [[Row("a", cells)]])
    in_sight = Section("Differences", [table], text="In sight.")
    folded = Section("Holes", [replace(table, place="detail")], text="Of holes.")
    html = to_notebook(Report("Report", sections=[in_sight, folded]))
    shown, _, inside = html.partition("<details>")

    assert "In sight." in shown
    assert "Of holes." in inside
    assert inside.index("</table>") < inside.index("Of holes.") < inside.index("</details>")
    assert html.count("white-space:nowrap") == 2  # the number, in each of the tables
