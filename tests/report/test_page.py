"""The page and the output of a notebook's cell as texts: what is in them, in which order."""

import base64
import re
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.reported import EVIL, METRICS, baseline, comparison, other, results

from llama_index_rag_metrics import Ranking, Run, Scores, compare, evaluate, score_rankings
from llama_index_rag_metrics.evaluation.evaluation_results import results_report
from llama_index_rag_metrics.report import model
from llama_index_rag_metrics.report.html import fragment, html_page, questions
from llama_index_rag_metrics.report.model import Cell, Report, Row, Statement, Table


class Parsed(HTMLParser):
    """A page as a browser takes it apart: its tags, its attributes and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def questions(self) -> dict[str | None, dict[str, str | None]]:
        details = [values for tag, values in self.tags if tag == "details"]
        return {values["id"]: values for values in details if values.get("class") == "q"}


@pytest.fixture(scope="module")
def html() -> str:
    return html_page(comparison().report(full=True))


def test_decision_then_the_table_the_figure_and_the_questions(html: str) -> None:
    body = html.partition("<main>")[2]
    parts = ['class="verdict', "<h2>On ndcg@3", "<figcaption>Differences", "<h2>Questions"]
    places = [body.index(part) for part in (*parts, "What the metrics mean")]
    assert places == sorted(places)


def test_slices_are_folded_below_the_questions() -> None:
    html = html_page(results_report({"one": baseline()}, slice_by=["language"]))
    assert html.index("<h2>Questions") < html.index("<details><summary>ndcg@3 by language")


def test_questions_of_one_system_begin_with_the_worst() -> None:
    ranks = {"q1": ["a"], "q2": ["x", "a"], "q3": ["x"]}
    labels = {name: ["a"] for name in ranks}
    dataset = {"queries": {n: n for n in ranks}, "corpus": {}, "relevant_docs": labels}
    scores = evaluate(ranks.__getitem__, dataset, ["mrr"])
    questions = Parsed(html_page(scores.report(full=True))).questions()
    asked = {name: attributes["data-asked"] for name, attributes in questions.items()}
    assert list(asked.items()) == [("q3", "2"), ("q2", "1"), ("q1", "0")]


def test_questions_say_what_they_lost_and_how_they_changed(html: str) -> None:
    questions = Parsed(html).questions()
    gains = {name: attributes.get("data-gains") for name, attributes in questions.items()}
    assert list(gains) == ["q4", "q5", "q2", "q1", "q3"]  # the largest loss first, unknown last
    # the baseline has a at rank 2 and b at 3, the other a at 1 and no b
    assert gains["q1"] == "0.0905157"
    assert gains["q2"] == "-0.36907"
    assert gains["q3"] is None
    assert questions["q1"]["data-loss"] == "never retrieved"
    assert "alert(1)&lt;/script&gt;: 1 of 2 never retrieved, rank 2\u00a0→\u00a01<" in html
    assert questions["q3"]["data-loss"] == "nothing relevant"
    assert questions["q4"]["data-loss"] == "failed"
    assert questions["q5"]["data-loss"] == "nothing retrieved|never retrieved"


def test_question_without_labels_is_not_one_with_nothing_relevant() -> None:
    dataset = {"queries": {"q1": "x?", "q2": "y?"}, "corpus": {}, "relevant_docs": {"q2": ["d"]}}
    page = html_page(evaluate(lambda query: ["d"], dataset, ["mrr"]).report(full=True))
    losses = [values.get("data-loss") for values in Parsed(page).questions().values()]
    assert losses == [None, "not labelled"]


def test_question_has_one_row_a_passage_with_its_rank_of_each_system(html: str) -> None:
    question = re.search(r'<details class=q id="q2".*?</details>', html, re.DOTALL)
    assert question is not None
    rows = re.findall(r"<tr>((?:<td[^>]*>[^<]*)+)", question[0])
    assert rows == ["<td class=hit>1<td class=hit>2<td>", "<td>2<td>1<td>"]  # c, relevant, and x


def test_question_of_many_systems_names_each() -> None:
    systems = {}
    for n in range(6):
        run = Run({"q": Ranking(["a", "b"][: n % 3])}, queries={"q": "x?"})
        systems[f"s{n}"] = score_rankings({"q": ["a", "b"]}, run, ["recall"])
    page = html_page(compare(systems, "s1").report(full=True))
    assert "<li>s2 <b class=better>1.00</b>" in page
    assert "1 of 2 never retrieved in 2 of 6 systems" in page
    runs = [Run({"q": Ranking(["a", "b"][: n % 3])}) for n in range(6)]
    repeated = score_rankings({"q": ["a", "b"]}, Run(repeats=runs), ["recall"])
    assert "1 of 2 never retrieved in 2 of 6 runs" in html_page(repeated.report(full=True))
    assert re.search("((?:<td class=(?:lost>–|hit>2)){6})<td>", page)


def test_passages_show_the_scores_of_a_metric_of_texts_and_its_cutoff() -> None:
    texts = {"a": "deep sea", "b": "high hill", "c": "low sea"}
    dataset = {"queries": {"q": "sea?"}, "corpus": texts, "relevant_docs": {}}
    results = evaluate(lambda query: ["b", "c", "a"], dataset, ["bm25_similarity@2"])
    page = html_page(results.report(full=True))
    assert '--share:0%">0<td><code>b' in page
    rows = re.findall("<td>(?:<code>)?([abc]\\b|below[^<]*)", page)
    assert rows[2:] == ["below the cutoff 2", "a"]
    assert "unless its name says otherwise: 0 is no" in results.report().decision[-1].text
    items = [model.ReportedItem(name, name, name, 1, grade=name) for name in ("2,500", "1,250")]
    answer = model.ReportedAnswer("s", Cell(1.0, "score"), items)
    markup = questions.question(model.QueryAnswers("q", "?", answers=[answer], measure="score"))
    assert re.findall("--share:([0-9]+%)", markup) == ["100%", "50%"]


def test_text_from_data_becomes_no_markup(html: str) -> None:
    parsed = Parsed(html)
    assert [tag for tag, _ in parsed.tags].count("script") == 1
    assert not any(tag == "img" for tag, _ in parsed.tags)
    assert EVIL in parsed.text
    assert f"{EVIL}: failed: ValueError: {EVIL}" in parsed.text  # of one of two, with its name
    titled = Parsed(html_page(comparison().report(full=True), title=EVIL))
    assert [tag for tag, _ in titled.tags].count("script") == 1


def test_policy_allows_its_own_script_and_no_network(html: str) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    script = re.search(r"<script>(.*)</script>", html, re.DOTALL)
    assert policy is not None
    assert script is not None
    digest = base64.b64encode(sha256(script[1].encode()).digest()).decode()
    assert "default-src 'none'" in policy[1]
    assert f"script-src 'sha256-{digest}'" in policy[1]
    assert not re.search(r"https?://", html)


def test_page_of_the_same_comparison_is_the_same(html: str) -> None:
    assert html_page(comparison().report(full=True)) == html


def test_counts_of_better_and_worse_filter_the_questions_where_there_are_some() -> None:
    table = Table("", ["better / same / worse"], [Row(EVIL, [Cell((1, 0, 3), "tally")])])
    compared = comparison().report(full=True)
    report = Report("", tables=[table], queries=compared.queries)
    links = [values for tag, values in Parsed(html_page(report)).tags if tag == "a"]
    assert [link["data-show"] for link in links] == ["better 1", "worse 1"]


@pytest.mark.parametrize(
    ("label", "n_columns", "stacks"),
    [("a", 4, 0), ("a", 5, 1), ("a >= baseline - 0.02 at 95%", 1, 1)],
)
def test_rows_too_wide_for_a_narrow_screen_are_lists(
    label: str, n_columns: int, stacks: int
) -> None:
    heads = [f"<{n}>" for n in range(n_columns)]
    page = html_page(Report("", tables=[Table("", heads, [Row(label, [Cell(1.0)] * n_columns)])]))
    tags = Parsed(page).tags
    assert page.count('class="wide stacks"') == stacks
    assert [values["data-head"] for tag, values in tags if tag == "td" and values] == heads


def test_texts_are_cut_so_that_many_questions_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def page(n: int, n_words: int = 400) -> str:
        texts = [*["word " * n_words] * 9, "word " * (n_words - 1) + "THE-END"]
        rankings = {f"q{i}": Ranking([*"abcdefghi", f"d{i}"], texts=texts) for i in range(n)}
        dataset = {
            "queries": dict.fromkeys(rankings, "Which one?"),
            "corpus": {},
            "relevant_docs": {key: [f"d{i}"] for i, key in enumerate(rankings)},
        }
        ids = iter(rankings.values())
        scored = evaluate(lambda query: next(ids).ids, dataset, ["mrr"])
        retrieval = replace(scored.scores.retrieval, run=scored.run.replaced(rankings))  # type: ignore[type-var]
        scored.scores = scored.scores.replace(retrieval=retrieval)
        return html_page(scored.report(full=True))

    # 10 questions show 400 characters of every passage, 1,000 fewer; what is relevant is whole
    assert len(page(10)) > 10 * 9 * 400
    assert len(page(1_000)) < 3_000_000
    assert page(1_000).count("THE-END") == 1_000
    # as long as a page has room for it
    assert "Relevant passages are cut at 2,500 characters" in page(1_000, 600)
    monkeypatch.setattr("llama_index_rag_metrics.report.html._ROOM", 1_000)
    assert "Relevant passages are cut at 400 characters" in page(10)  # and at no fewer


def test_bare_scores_have_a_page_of_questions_without_rankings(tmp_path: Path) -> None:
    scores = Scores(["q1", "q2"], {"mrr": [0.5, 1.0]})
    path = scores.to_html(tmp_path / "report.html")
    assert list(Parsed(path.read_text(encoding="utf-8")).questions()) == ["q1", "q2"]


def test_retrievers_by_their_names(tmp_path: Path) -> None:
    path = compare({"old": baseline(), "new": other()}, "old").to_html(tmp_path / "report.html")
    assert "<h1>new against old</h1>" in path.read_text(encoding="utf-8")


def test_lone_surrogate_does_not_stop_the_page(tmp_path: Path) -> None:
    rankings = {"q1": Ranking(["a\ud800"], texts=["\udfff"])}
    assert results(rankings).to_html(tmp_path / "report.html").is_file()


def test_statement_shows_its_label() -> None:
    statement = Statement("worse: it is.", "alarm", "worse")
    html = html_page(Report("", decision=[statement]))
    assert '<b class="badge alarm">worse</b> it is.' in html


def test_notebook_shows_the_decision_the_tables_and_the_worst_questions() -> None:
    shown = baseline()._repr_html_()
    parsed = Parsed(shown)
    assert f"{METRICS[0]} is" in parsed.text
    assert next(iter(parsed.questions())) == "q1"  # the lowest
    assert "script" not in [tag for tag, _ in parsed.tags]
    assert fragment(compare({"a": baseline(), EVIL: other()}, "a").report()).count(EVIL) == 0
