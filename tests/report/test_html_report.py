"""The HTML report as a text: what it carries, and what it can't be made to do."""

from __future__ import annotations

import base64
import dataclasses
import re
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from support.carried import unpacked
from support.reported import EVIL, LONG, METRICS, QUERIES, baseline, comparison, other, results

from llama_index_rag_metrics import (
    EvaluationResults,
    Ranking,
    Scores,
    check_rules,
    evaluate,
    write_html,
)
from llama_index_rag_metrics.evaluation.results.evaluation_results import results_report, system_of
from llama_index_rag_metrics.rankings.matching.matcher_names import Matched
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.report import html as report_html
from llama_index_rag_metrics.report.escape import element, render
from llama_index_rag_metrics.report.html import assets as libraries
from llama_index_rag_metrics.report.html import page
from llama_index_rag_metrics.report.html.assets import packed
from llama_index_rag_metrics.report.html.page_content import Texts, content_of, packed_texts
from llama_index_rag_metrics.report.markup import to_markdown
from llama_index_rag_metrics.report.model import (
    Cell,
    Listing,
    QueryAnswers,
    Report,
    Row,
    Section,
    Statement,
    Table,
)
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra
from llama_index_rag_metrics.scores.stories import query_answers


def html_page(reported: Any, **options: Any) -> str:
    """What `write_html` writes."""
    is_one = isinstance(reported, Reportable)
    report = reported.report(full=True) if is_one else results_report(reported)
    return report_html.html_page(report, **options)


class Parsed(HTMLParser):
    """A page as a browser takes it apart."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.policy = ""
        self.carried: dict[str, str] = {}
        self.scripts: list[str] = []
        self.words = ""
        self._inside: str | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        named = dict(attrs)
        assert not any(name.startswith("on") for name in named), attrs
        if named.get("http-equiv") == "Content-Security-Policy":
            self.policy = named["content"] or ""
        self._inside = named.get("id", "") if tag == "script" else None

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is None:
            self.words += data
        elif self._inside:
            self.carried[self._inside] = data
        else:
            self.scripts.append(data)


def carried(html: str) -> dict[str, Any]:
    """What the page carries, but for the libraries."""
    chunks = Parsed(html).carried
    return {
        name.removeprefix("data-"): unpacked(chunk)
        for name, chunk in chunks.items()
        if "library" not in name
    }


def texts(html: str) -> list[Any]:
    parts = sorted(
        (int(name.partition("-")[2]), chunk)
        for name, chunk in carried(html).items()
        if name.startswith("texts-")
    )
    return [text for _, chunk in parts for text in chunk]


def noise(seed: int) -> str:
    """576 characters that hardly compress."""
    return "".join(sha256(f"{seed} {part}".encode()).hexdigest() for part in range(9))


@pytest.fixture(scope="module")
def html() -> str:
    return html_page(comparison())


def test_the_scores_of_the_table_are_those_of_the_results(html: str) -> None:
    index = carried(html)["index"]

    assert index["systems"] == ["baseline", EVIL]
    assert index["metrics"] == METRICS
    assert index["queries"] == list(QUERIES.values())
    for metric, columns in zip(METRICS, index["scores"], strict=True):
        for system, column in zip((baseline(), other()), columns, strict=True):
            by_query = system.scores.by_query(metric)
            expected = [by_query.get(query_id) for query_id in index["ids"]]
            assert column == [None if score is None else round(score, 4) for score in expected]


def test_scores_of_a_question_have_the_digits_that_tell_them_apart() -> None:
    report = comparison().report(full=True)
    assert report.queries is not None
    scores = [[0.5, 0.5, None, 0.0, 1.0], [0.503, 0.51, None, 0.998, 1.0]]
    content = content_of(dataclasses.replace(report.queries(), scores=[scores]), None)
    # in two digits .503 would be .50, and .998 would be 1.00
    assert content.index["digits"] == [[3, 2, 2, 3, 2]]


def test_failed_empty_and_unanswerable_queries_are_named(html: str) -> None:
    index = carried(html)["index"]

    assert index["ids"] == ["q1", "q2", "q3", "q4", "q5"]
    assert index["failed"] == [[], [3]]
    assert index["empty"] == [[], [4]]
    assert index["unanswerable"] == [2]
    assert index["unjudged"] == []
    assert index["slices"] == [
        {"key": "language", "values": ["en", "ja"], "ofQuery": [0, 1, 0, 0, 0]}
    ]


def test_the_rankings_are_those_of_the_runs(html: str) -> None:
    first, second, _, fourth, _ = carried(html)["rankings-0"]

    (before, after), (seen,) = first["answers"], first["seen"]
    assert (seen["wanted"]["ids"], seen["wanted"]["grades"]) == (["a", "b"], [2.0, 1.0])
    assert before["ids"] == ["x", "a", "b"]
    # x isn't judged; a is second, b third
    assert seen["answers"][0] == {
        "grades": [None, 2.0, 1.0],
        "why": [None, "id", "id"],
        "found": {"0": 2, "1": 3},
    }
    # the second a counts at its first rank
    assert seen["answers"][1]["ranks"] == [1, 2, None]
    # what the other found, "other" lacks: b
    assert first["told"][0][0] == [
        [1, 0, [["rank 3", "baseline"], ["never retrieved", EVIL]]],
        [0, 0, [["rank 2", "baseline"], ["rank 1", EVIL]]],
    ]
    assert after["ids"] == ["a", "y", "a"]
    assert before["latency"] == "10.0 ms"
    assert "error" not in before
    assert [texts(html)[number] for number in second["answers"][0]["texts"]] == ["文字", EVIL]
    assert fourth["answers"][1] == {"ids": [], "latency": "1.00 s", "error": f"ValueError: {EVIL}"}


def test_each_text_is_carried_once_and_cut(html: str) -> None:
    carried_texts = texts(html)

    assert sorted(map(str, carried_texts)) == sorted(
        map(str, [EVIL, [LONG[:2000], 2500], "short", "文字", "d", "e", "y"])
    )
    assert "1 of 7 texts are cut at 2,000 characters" in Parsed(html).words


def test_texts_can_be_cut_elsewhere_or_kept_whole() -> None:
    whole = html_page(comparison(), cut="never")
    assert LONG in texts(whole)
    assert "texts are cut" not in Parsed(whole).words
    assert [LONG[:7], 2500] in texts(html_page(comparison(), cut=7))


def test_texts_are_cut_shorter_where_the_file_would_be_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def large() -> EvaluationResults:
        passages = [noise(n) for n in range(200)]
        return results({"q1": Ranking([str(n) for n in range(200)], texts=passages)})

    size = len(html_page(large()).encode())
    monkeypatch.setattr(page, "_MOST_BYTES", size - 10_000)
    smaller = html_page(large())

    assert len(smaller.encode()) <= size - 5_000
    cuts = {len(shown) for shown, length in texts(smaller) if length == 576}
    assert len(cuts) == 1
    assert 40 <= min(cuts) < 576
    assert f"cut at {min(cuts)} characters" in Parsed(smaller).words
    assert len(html_page(large(), cut=2000).encode()) > size - 5_000  # asked for, so kept


@pytest.mark.parametrize("cut", [0, -1, 1.5, True, "all", None])
def test_a_cut_that_is_no_number_of_characters_is_refused(cut: Any) -> None:
    with pytest.raises(InvalidInput, match="cut"):
        html_page(comparison(), cut=cut)


def test_nothing_from_data_becomes_markup(html: str) -> None:
    parsed = Parsed(html)

    assert EVIL not in html
    assert "onerror" not in html
    assert parsed.tags.count("script") == len(parsed.carried) + 1
    assert len(parsed.scripts) == 1
    assert "img" not in parsed.tags
    assert EVIL in parsed.words  # the verdict speaks of the system by its name


def test_a_title_is_text() -> None:
    parsed = Parsed(html_page(comparison(), title=f"{EVIL} & 中文"))
    assert f"{EVIL} & 中文" in parsed.words
    assert parsed.tags.count("script") == len(parsed.carried) + 1


def test_the_policy_allows_its_own_script_and_no_network(html: str) -> None:
    parsed = Parsed(html)
    digest = base64.b64encode(sha256(parsed.scripts[0].encode()).digest()).decode()
    rules = dict(rule.strip().partition(" ")[::2] for rule in parsed.policy.split(";"))

    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == f"'sha256-{digest}' blob:"
    assert rules["style-src"] == "'unsafe-inline'"
    assert rules["img-src"] == "data: blob:"
    assert set(rules) == {
        "default-src", "script-src", "style-src", "img-src", "base-uri", "form-action"
    }  # fmt: skip


def test_the_page_names_no_address(html: str) -> None:
    assert not re.search(r"https?://|//cdn|\bsrc=|@import|pickle", html)
    assert not re.search(r"\bhref=(?!\"#)", html)  # but places within


def test_the_page_carries_the_library_as_it_is_installed(html: str) -> None:
    import itables

    bundle = Path(itables.options.dt_bundle)
    chunk = Parsed(html).carried["data-library-table"]
    assert base64.b64decode(chunk)[:2] == b"\x1f\x8b"  # gzip
    assert _text(chunk) == bundle.read_text(encoding="utf-8")
    assert libraries.table_library().css == bundle.with_suffix(".css").read_text(encoding="utf-8")


def test_a_page_without_plots_and_queries_carries_no_libraries() -> None:
    html = html_page(check_rules(Scores(["q1", "q2"], {"mrr": [0.5, 1.0]}), "mrr >= 0.5"))
    parsed = Parsed(html)
    assert parsed.carried.keys() == {"data-figures", "data-index", "data-markdown"}
    assert "drawTable = " not in html  # nor the scripts and styles of questions
    assert "#queries .unfold" not in html
    assert "(MIT)" not in parsed.words


def _text(chunk: str) -> str:
    import gzip

    return gzip.decompress(base64.b64decode(chunk)).decode("utf-8")


def test_the_same_comparison_gives_the_same_page(html: str) -> None:
    assert html_page(comparison()) == html


def test_there_is_one_figure_a_metric_where_it_depends_on_one(html: str) -> None:
    figures = carried(html)["figures"]

    assert set(figures) == {
        "means", "differences", "distribution", "by_cutoff"
    }  # fmt: skip
    assert set(figures["by_cutoff"]) == set(METRICS)
    assert set(figures["means"]) == {""}
    ((_, means),) = figures["means"][""]
    assert ">baseline</text>" in means
    assert ">&lt;script&gt;alert(1)&lt;/script&gt;</text>" in means
    assert means in html  # drawn in the page itself, where no script is needed to see or print it


def test_the_differences_of_all_metrics_are_in_sight(html: str) -> None:
    section = html[html.index("<h2>Differences") :]
    section = section[: section.index("</section>")]
    in_sight = re.sub(r"<details.*?</details>", "", section, flags=re.S)
    for metric in comparison().metric_names:
        assert f'scope="row">{metric}<' in in_sight, metric
    assert "Counts and latency" not in section


def test_results_without_a_baseline_have_a_page() -> None:
    parsed = Parsed(html_page([baseline(), other()]))
    index = unpacked(parsed.carried["data-index"])

    assert index["compared"] is False
    assert "Means" in parsed.words
    assert "differences" not in unpacked(parsed.carried["data-figures"])


def test_columns_of_texts_are_set_apart_from_numbers() -> None:
    cells = [Cell("ValueError: no index"), Cell(0.5, "score")]
    table = Table("", ["error", "mrr"], [[Row("a", cells)]], text_columns=1)
    html = report_html.html_page(Report("Report", sections=[Section("Failed", [table])]))
    assert '<th scope="col" class="text">error</th><th scope="col" class="number">mrr</th>' in html
    assert '<td class="normal text" data-label="error">ValueError: no index</td>' in html
    assert '<td class="normal number" data-label="mrr">0.5000</td>' in html


def test_bare_scores_have_a_page_without_rankings() -> None:
    scores = Scores(["q1", "q2"], {"mrr": [1.0, 0.5]}, queries={"q1": "one"})
    parts = carried(html_page(scores))

    assert parts["index"]["queries"] == ["one", ""]
    assert not any(name.startswith(("rankings", "texts")) for name in parts)
    assert parts["figures"] == {}  # its mean is in the table


def test_a_query_that_a_system_does_not_know_has_no_answer() -> None:
    known = baseline()
    known.run = Run({query_id: known.run[query_id] for query_id in ("q1", "q2")})
    rows = carried(html_page([known]))["rankings-0"]
    assert rows[2]["answers"] == [None]


def test_grades_are_those_of_the_matcher() -> None:
    reported = baseline()
    stands_for = {"q1": [["a", "b"], ["x"], ["z"]]}
    matched = Matched("text", reported.run, reported.relevance, stands_for, {}, {})
    reported.matched, reported.matched_by = {"text": matched}, {"mrr": "text"}
    (answer,) = query_answers("q1", [system_of(reported)], "mrr").answers
    # the first covers a (2) and b (1); x isn't judged; z was judged 0
    assert [item.grade for item in answer.retrieved] == [2.0, None, 0.0]  # type: ignore[union-attr]


def test_results_and_comparisons_write_their_page(tmp_path: Path) -> None:
    for reported in (comparison(), baseline()):
        path = reported.to_html(tmp_path / "report.html", title="mine")
        assert path.read_text(encoding="utf-8") == html_page(reported, title="mine")
    assert write_html(comparison(), str(tmp_path / "b.html")) == tmp_path / "b.html"


def test_a_lone_surrogate_does_not_stop_the_page(tmp_path: Path) -> None:
    scores = Scores(["q"], {"mrr": [1.0]}, queries={"q": "half \ud83d"}, name="\ud83d")
    assert "half ?" in str(carried(write_html(scores, tmp_path / "r.html").read_text("utf-8")))


def test_a_missing_library_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"pip install .*\[demo\]'"):
        html_page(comparison())
    assert "data-library-table" not in html_page(check_rules(baseline(), "mrr >= 0.1"))


def test_text_in_the_tree_comes_out_escaped() -> None:
    made = element("td", EVIL, element("b", "&"), "<", class_="a", data_label='">' + EVIL)
    html = render(made)
    assert html.startswith('<td class="a" data-label="&quot;&gt;')
    assert "<script" not in html
    assert Parsed(html).words == f"{EVIL}&<"


def test_texts_fill_chunks_and_know_where_each_begins() -> None:
    store = Texts(cut=None)
    passages = [f"{n} " + "x" * 150_000 for n in range(6)]
    numbers = [store.add(passage) for passage in passages + passages]
    chunks = list(store.chunks())

    assert numbers == [0, 1, 2, 3, 4, 5] * 2
    assert [text for chunk in chunks for text in chunk] == passages
    assert [chunk[0] for chunk in chunks] == [passages[start] for start in store.starts]
    assert len(chunks) == 2  # of 400,000 characters each


def test_texts_are_shortened_until_they_fit() -> None:
    def filled() -> Texts:
        store = Texts(300)
        for n in range(200):
            store.add(noise(n))
        return store

    whole = sum(map(len, packed_texts(filled(), None)))
    store = filled()
    chunks = packed_texts(store, whole // 2)

    assert sum(map(len, chunks)) <= whole // 2
    assert store.cut is not None
    assert 40 <= store.cut < 200
    assert list(map(unpacked, chunks)) == list(store.chunks())
    assert packed_texts(filled(), -5) == packed_texts(_cut(filled(), 40), None)


def test_a_cut_is_the_longest_that_leaves_so_many_characters() -> None:
    store = Texts(300)
    for length in (10, 100, 290, 500):  # together 10 + 100 + 290 + 300 = 700
        store.add("x" * length)
    # 10 + 100 + 2 * 120 = 350 is half of it; with 121 it would be 352
    store.shorten(0.5)
    assert store.cut == 120
    store.shorten(0.0)
    assert store.cut == 40


def _cut(store: Texts, cut: int) -> Texts:
    store.cut = cut
    return store


def _chunks() -> Iterator[Any]:
    yield {"a": [1, 0.5, None, "</script>"]}
    yield []
    yield "𠮷 \u2028 \x00"


@pytest.mark.parametrize("value", list(_chunks()))
def test_what_is_packed_comes_out_again(value: Any) -> None:
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", packed(value))
    assert unpacked(packed(value)) == value


def test_several_retrievers_by_their_names(tmp_path: Path) -> None:
    path = write_html({"bm25": baseline(), "hybrid": other()}, tmp_path / "report.html")
    written = path.read_text(encoding="utf-8")
    assert "bm25" in written
    assert "hybrid" in written


def test_what_is_no_result_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="results or scores of retrievers"):
        write_html(["bm25"], tmp_path / "report.html")  # type: ignore[list-item]


NUMBERS = [Table("", ["mrr"], [[Row("a", [Cell(0.5, "score")])]])]
FIRST, MEANS = Section("First", NUMBERS), Section("Means & more", NUMBERS)


def linked(html: str) -> dict[str, str]:
    """The links of a page, by their words."""
    found = re.findall(r'<a href="([^"]*)"[^>]*>([^<]*)</a>', html)
    return {words: place for place, words in found}


def test_a_long_page_has_contents_and_each_link_a_place() -> None:
    cards = [MEANS, Section("Means & more", MEANS.tables), Section("中文", MEANS.tables)]
    more = [Section(f"Part {n}", MEANS.tables, aside=n == 2) for n in (1, 2)]
    html = report_html.html_page(Report("Report", sections=[*cards, *more]))
    nav = html[html.index('<nav class="contents"') : html.index("</nav>")]
    # the second of two alike isn't listed twice
    assert linked(nav) == {
        "Means &amp; more": "#at-means-more",
        "中文": "#at-中文",
        "Part 1": "#at-part-1",
        "Part 2": "#at-part-2",
    }
    for place in linked(nav).values():
        assert html.count(f'id="{place[1:]}"') == 1
    assert "<nav" not in report_html.html_page(Report("Report", sections=[MEANS]))


def test_a_page_can_be_skipped_to_its_content(html: str) -> None:
    assert linked(html)["Skip to the content"] == "#content"
    assert html.index('href="#content"') < html.index("<header>")
    assert '<main id="content">' in html
    assert {"Plots", "Questions"} <= linked(html).keys()
    assert html.count('id="all-queries"') == html.count('id="plots"') == 1


def test_a_statement_links_to_its_evidence_and_shows_its_command() -> None:
    decision = [
        Statement("It is better.", "best", "better", evidence="Means & more"),
        Statement("Label more.", evidence="questions", command='labels review "<a>"'),
        Statement("So it is.", evidence="Elsewhere"),
        Statement("Look below.", evidence="First"),
    ]
    report = Report("Report", decision=decision, further=decision[:1], sections=[FIRST, MEANS])
    html = report_html.html_page(report)
    # there is no table of questions, and no section called "Elsewhere"; the first one comes next
    assert linked(html[html.index("<main") :]) == {"→ Means &amp; more": "#at-means-more"}
    assert '<p class="command"><code>labels review "&lt;a&gt;"</code></p>' in html
    full = comparison().report(full=True)
    asked = dataclasses.replace(full, decision=decision)
    assert linked(report_html.html_page(asked))["→ questions"] == "#all-queries"


@pytest.mark.parametrize("folded", [True, False])
def test_the_remark_of_a_table_is_above_it(folded: bool) -> None:
    tables = [Table("Runs", ["a"], [[Row("q1", [Cell(1)])]], remark="the first <3> of 9")]
    html = report_html.html_page(Report("Runs", sections=[Section("Runs", tables, folded=folded)]))
    body = html[html.index("<main") :]
    assert '<p class="quiet">the first &lt;3&gt; of 9</p><div class="wide"' in body


def test_the_remark_of_a_listing_is_above_it() -> None:
    listing = Listing("Hardest", [QueryAnswers("q1", "?")], "beside <q2>, above")
    html = report_html.html_page(Report("Runs", listings=[listing]))
    assert '<h2>Hardest</h2><p class="quiet">beside &lt;q2&gt;, above</p>' in html


def test_a_listing_links_to_the_questions_of_the_page() -> None:
    full = comparison().report(full=True)
    listing = Listing("Hardest", [QueryAnswers("q1", EVIL), QueryAnswers("not there", "")])
    html = report_html.html_page(dataclasses.replace(full, listings=[listing]))
    assert linked(html)["q1"] == "#q=q1"
    assert "not there" not in linked(html)


def test_the_page_carries_the_summary_as_markdown(html: str) -> None:
    assert carried(html)["markdown"] == to_markdown(comparison().report(full=True))


def test_what_the_run_was_is_folded_below_the_verdict() -> None:
    results = evaluate(lambda query: ["d1"], dataset_of_one(), ["mrr"], workers=3)
    head, _, below = html_page(results).partition("<main")
    folded = below.partition("<summary>About this run</summary>")[2].partition("</details>")[0]
    assert not re.search("matched by|workers", head)
    assert "<dt>matched by</dt><dd>id</dd>" in folded
    assert "<dt>workers</dt><dd>3</dd>" in folded


def test_the_means_of_one_system_are_drawn_where_they_are_many() -> None:
    def kinds(n_metrics: int, **more: Scores) -> set[str]:
        values = {f"recall@{k}": [1.0, 0.5] for k in range(1, n_metrics + 1)}
        return set(carried(html_page({"a": Scores(["q1", "q2"], values), **more}))["figures"])

    assert "means" not in kinds(6)
    assert "means" in kinds(7)
    assert "means" in kinds(1, b=Scores(["q1", "q2"], {"recall@1": [1.0, 1.0]}))


def dataset_of_one() -> dict[str, Any]:
    return {"queries": {"q": "x?"}, "corpus": {}, "relevant_docs": {"q": ["d1"]}}
