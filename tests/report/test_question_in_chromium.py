"""One question of the HTML report, unfolded in a real Chromium: why did it fail?"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.chromium import AA, axe_violations
from support.command_line import run as rag_metrics
from support.reported import EVIL, LONG, baseline, comparison, other
from support.tab import DRAWN, FILLED, Tab

from llama_index_rag_metrics import (
    Ranking,
    RetrievalDataset,
    Run,
    Scores,
    score_rankings,
    write_run,
)
from llama_index_rag_metrics.evaluation.results.evaluation_results import results_report
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report.html import html_page
from llama_index_rag_metrics.report.model import (
    Answer,
    CallAnswer,
    Cell,
    Cutoff,
    Found,
    Item,
    Queries,
    QueryAnswers,
    Report,
    ReportedItem,
    SameText,
)
from llama_index_rag_metrics.report.why import why_lines
from llama_index_rag_metrics.report.words import words_of

pytestmark = pytest.mark.browser

PUMP = "Why does the pump of the garden lose its pressure?"
RING = "0c4f29de-1e0b-4b53-8f0e-5b3e9f6f0001"
HOURS = "9b1e77aa-52f1-4c62-9a3c-1d2f3a4b0002"
VALVE = "9b1e7c00-7a11-4d0f-8b1b-2e3f4a5b0003"
TEXTS = {
    RING: "# Seal ring\nThe ring of the pump is replaced every year.",
    HOURS: "Opening hours: Monday to Friday",
    VALVE: "Close the valve of the pump "
    + "and wait until no pressure is left, " * 4
    + "then open it.",
}
SOME = [f"p{n}" for n in range(1, 31)]


def got(*ids: str, wanted: Sequence[Item] = (), **of: Any) -> Answer:
    """An answer of these items, of which the wanted ones are hits; copies count once."""
    grades = {item.id: item.grade for item in wanted}
    items = [ReportedItem(each, grades.get(each), TEXTS.get(each)) for each in ids]
    first = {each: rank for rank, each in enumerate(dict.fromkeys(ids), 1)}
    ranks = [first[each] if each not in ids[:at] else None for at, each in enumerate(ids)]
    found = {each: Found(rank) for each, rank in first.items()}
    return Answer("", Cell(None), items, **{"found": found, "ranks": ranks, **of})


def report(
    question: QueryAnswers, *systems: str, cutoff: Cutoff | None = None, **of: Any
) -> Report:
    """A report of one question, by a metric with this cutoff."""
    queries = queries_of(question, *systems, cutoff=cutoff, **of)
    return Report("Report", metrics=["recall"], queries=lambda: queries)


def queries_of(
    question: QueryAnswers, *systems: str, cutoff: Cutoff | None = None, **of: Any
) -> Queries:
    return Queries(
        ["q1"],
        [question.text],
        ["recall"],
        systems,
        len(systems) > 1 and not of.get("stages"),
        [[[0.5] for _ in systems]],
        {"failed": [[] for _ in systems], "empty": [[] for _ in systems]},
        {"unanswerable": [], "unjudged": []},
        [],
        [0],
        [False],
        lambda position, matcher: question,
        [cutoff],
        **of,
    )


def asked(*answers: Answer, wanted: Sequence[Item] = (), text: str = PUMP) -> QueryAnswers:
    return QueryAnswers("q1", text, [[item] for item in wanted], answers)


def lines(place: Any) -> list[list[str]]:
    """Of each passage in sight: rank, excerpt, id, remarks."""
    return list(
        place.locator(".line").evaluate_all(
            """lines => lines.map(line => [
                 line.querySelector(".rank").textContent,
                 line.querySelector(".excerpt")?.textContent ?? "",
                 ...[...line.querySelector(".tags").children].map(tag => tag.textContent)])"""
        )
    )


def expected(tab: Tab) -> list[list[str]]:
    return lines(unfolded(tab).locator(".side.relevant"))


def unfolded(tab: Tab) -> Any:
    """The first question, with the rankings side by side."""
    place = tab.unfold("q1")
    place.locator(".sides").wait_for()
    return place


@pytest.fixture(scope="module")
def script(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A page, to call its functions."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html_page(report(asked(got("p1")), "bm25")), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    yield page
    page.close()


def test_a_query_unfolds_to_rankings_side_by_side(open_report: Callable[..., Tab]) -> None:
    place = unfolded(open_report(comparison()))
    before, after = (place.locator(".sides .side").nth(n) for n in (0, 1))

    assert before.locator("h4").inner_text().split() == ["baseline", "0.67", "10.0", "ms"]
    assert [line[2:] for line in lines(before)] == [
        ["x", "unlabelled", "only here"],
        ["a", "hit, grade 2"],
        ["b", "hit, grade 1", "only here"],
    ]
    # a moved from 2 to 1; x isn't relevant, so that its loss is none
    assert [line[2:] for line in lines(after)] == [
        ["a", "hit, grade 2", "↑1"],
        ["y", "unlabelled", "only here"],
        ["a", "again"],
        ["b", "grade 1", "dropped"],
    ]
    assert after.locator("h5").all_inner_texts() == ["Relevant, dropped"]
    assert before.locator("li.hit").count() == 2


def test_beside_a_failure_nothing_is_new_or_dropped(open_report: Callable[..., Tab]) -> None:
    wanted = [Item("p1", 1.0)]
    failed = Answer("", Cell(None), [], "ConnectionError: refused")
    made = report(asked(got("p1", "p2", wanted=wanted), failed, wanted=wanted), "bm25", "lsa")
    place = unfolded(open_report(made))
    assert place.locator(".move").count() == 0
    assert lines(place.locator(".side.relevant")) == [["", "", "p1", "grade 1", "bm25: rank 1"]]


def test_passages_have_excerpts_and_ids_as_short_as_they_differ(
    open_report: Callable[..., Tab],
) -> None:
    wanted = [Item(RING, 1.0, text=TEXTS[RING])]
    tab = open_report(report(asked(got(HOURS, VALVE, RING, wanted=wanted), wanted=wanted), "bm25"))
    side = unfolded(tab).locator(".sides .side")
    # the first line where it is short; else whole words of the first 120 characters
    cut = TEXTS[VALVE][:120]
    assert side.locator(".excerpt").all_text_contents() == [
        TEXTS[HOURS],
        cut[: cut.rindex(" ")] + "…",
        "Seal ring",
    ]
    # 9b1e77aa and 9b1e7c00 differ, and so do 8 characters of all three
    ids = side.locator(".id")
    assert ids.locator("span:not(.out)").all_text_contents() == ["9b1e77aa", "9b1e7c00", "0c4f29de"]
    assert ids.all_text_contents() == [HOURS, VALVE, RING]  # which is what somebody copies
    assert [each.get_attribute("title") for each in ids.all()] == [HOURS, VALVE, RING]


@pytest.mark.parametrize(
    ("text", "excerpt"),
    [
        ("# A manual\nof a pump", "A manual"),
        ("One\nor two", "One or two"),  # too short for a title
        ("x" * 130, "x" * 120 + "…"),
        ("word " * 30, "word " * 23 + "word…"),  # 24 words of 5 letters, but for a space
        ("\n  \n", ""),
    ],
)
def test_the_excerpt_is_a_title_or_the_beginning(script: Any, text: str, excerpt: str) -> None:
    asking = "text => excerptOf({ text, length: text.length }).excerpt"
    assert script.evaluate(asking, text) == excerpt


@pytest.mark.parametrize(
    ("ids", "shown"),
    [
        (["a1", "a2"], ["a1", "a2"]),
        (["/data/manuals/pump.md#1", "/data/manuals/valve.md#1"], ["…pump.md#1", "…valve.md#1"]),
        ([HOURS, VALVE], ["9b1e77aa…", "9b1e7c00…"]),
        ([RING], [RING]),  # nothing to tell apart
        # of two the first 8 characters are alike; with the last 6 all differ
        (
            [f"{RING}_chunk_1", f"{RING}_chunk_2", HOURS],
            ["0c4f29de…hunk_1", "0c4f29de…hunk_2", "9b1e77aa…4b0002"],
        ),
        ([], []),
    ],
)
def test_ids_are_shortened_to_what_differs(script: Any, ids: list[str], shown: list[str]) -> None:
    read = """ids => {
      const short = shortIds(ids);
      return ids.map(id => [...short(id).children]
        .map(part => part.className ? "…" : part.textContent).join(""));
    }"""
    assert script.evaluate(read, ids) == shown


def test_the_first_three_are_open_and_long_texts_to_their_first_part(
    open_report: Callable[..., Tab], tmp_path: Path
) -> None:
    items = [ReportedItem(f"p{n}", None, f"{n} {LONG}") for n in range(5)]
    made = report(asked(Answer("", Cell(None), items)), "bm25")
    side = unfolded(open_report(made)).locator(".sides .side")
    assert [fold.get_attribute("open") is not None for fold in side.locator("details").all()] == [
        True, True, True, False, False,
    ]  # fmt: skip
    assert side.locator(".text + .quiet").first.inner_text() == "cut at 2,000 of 2,502 characters"

    class Whole:
        def to_html(self, path: Path) -> None:
            path.write_text(html_page(made, cut="never"), encoding="utf-8")

    side = unfolded(open_report(Whole())).locator(".sides .side")
    text = side.locator(".text").first
    assert len(text.text_content() or "") == 2000
    side.get_by_text("show all 2,502 characters").first.click()
    assert text.text_content() == items[0].text


MARKED = """([text, question, matched]) =>
  marked(text, askedWords(question), matched)
    .filter(piece => piece.className).map(piece => [piece.className, piece.textContent])"""


@pytest.mark.parametrize(
    ("text", "question", "words"),
    [
        ("The pumps of the garden LOSE pressure.", PUMP, ["pumps", "garden", "LOSE", "pressure"]),
        ("It is of the same kind", PUMP, []),  # stop words
        # without spaces two letters in a row are a word: 圧 alone is none
        ("油圧ポンプの圧力が低下した。圧延", "ポンプの圧力", ["ポンプの圧力"]),
        ("<b>pump</b>", PUMP, ["pump"]),
        ("", PUMP, []),
        ("pump", "", []),
    ],
)
def test_words_of_the_question_are_marked(
    script: Any, text: str, question: str, words: list[str]
) -> None:
    assert script.evaluate(MARKED, [text, question, None]) == [["word", word] for word in words]


def test_what_is_shared_with_the_matched_text_is_marked(script: Any) -> None:
    text = "One two, three: four five. Six seven."
    # four words in a row, whatever is between them; "six seven" are two
    matches = script.evaluate(MARKED, [text, "seven", "two three four FIVE; six seven"])
    assert matches == [["match", "two, three: four five. Six seven"]]
    matches = script.evaluate(MARKED, [text, "seven", "two three four five six eight seven"])
    assert matches == [["match", "two, three: four five. Six"], ["word", "seven"]]
    assert script.evaluate(MARKED, [text, "", "six seven"]) == [["match", "Six seven"]]


def test_where_nearly_all_is_matched_the_words_are_marked(script: Any) -> None:
    text = "The pumps lose pressure each winter, and the tyres go flat."
    # 11 words, of which 10 are in the matched text
    matches = script.evaluate(MARKED, [text, "flat tyre?", text.removesuffix(" flat.")])
    assert matches == [["word", "tyres"], ["word", "flat"]]


def test_the_page_has_the_words_of_python(script: Any) -> None:
    texts = (
        "The tyres, courses & bicycles of K80: 油圧ポンプ, batteries while stopping ÉTÉS PLA線材"
    )
    names = "text => wordsOf(text).flatMap((_, at, words) => namesOfWord(words, at))"
    marked = script.evaluate(names, texts)
    # each two signs in a row are named at both of them
    assert list(dict.fromkeys(marked)) == [word.stem for word in words_of(texts)]


def test_a_question_says_why_it_failed(open_report: Callable[..., Tab]) -> None:
    query = asked(got(*SOME), wanted=WANTED)
    place = unfolded(open_report(report(query, "bm25")))
    assert place.locator(".why").all_inner_texts() == why_lines(query)
    assert (
        place.locator("mark.legend").locator("..").inner_text() == "marked: words of the question"
    )


def test_a_hit_says_why_and_the_matched_text_is_marked(open_report: Callable[..., Tab]) -> None:
    passage = "The ring is replaced every year"
    wanted = [Item("by text", 2.0, passage), Item("by place", 1.0, Span("ring.md", 0, 31), passage)]
    items = [
        ReportedItem("p1", 2.0, f"First. {passage}, and after each frost.", [wanted[0]]),
        ReportedItem("p2", 1.0, f"Second. {passage}.", [wanted[1]]),
        ReportedItem("p3", None, "A ring."),
    ]
    question = asked(Answer("", Cell(None), items), wanted=wanted, text="seal?")
    place = unfolded(open_report(report(question, "bm25")))
    grades = place.locator(".sides .grade").all_inner_texts()
    assert grades == ["hit by text, grade 2", "hit by place, grade 1", "unlabelled"]
    assert place.locator(".sides mark.match").all_inner_texts() == [passage, passage]
    assert "ring.md, characters 0 to 31" in place.locator(".side.relevant").inner_text()


WANTED = [Item(RING, 1.0, text=TEXTS[RING])]


def test_a_missed_passage_shows_its_text_at_once(open_report: Callable[..., Tab]) -> None:
    tab = open_report(report(asked(got(*SOME), wanted=WANTED), "bm25"))
    assert expected(tab) == [["", "Seal ring", RING, "grade 1", "never retrieved"]]
    side = tab.page.locator(".side.relevant")
    assert side.locator("h4").inner_text() == "Relevant passages: 1 of 1 missed"
    assert "replaced every year" in side.inner_text()
    assert side.locator("li.missed").count() == 1


def test_a_stage_that_dropped_a_passage_is_named(open_report: Callable[..., Tab]) -> None:
    names = ["retriever", "rerank", "merge", "other"]
    came = [["p1", "p2", "p3", RING], ["p2", "p1"], ["p2"], ["p1", RING]]
    stages = [got(*ids)._replace(system=name) for ids, name in zip(came, names, strict=True)]
    story = asked(*stages, wanted=WANTED)._replace(stages=True)
    made = report(story, *names, cutoff=Cutoff(10), stages=True)
    assert expected(open_report(made)) == [
        [
            "",
            "Seal ring",
            RING,
            "grade 1",
            "retriever: rank 4",
            "rerank, merge: dropped by rerank (was 4)",
            "other: rank 2",
        ]
    ]


def test_what_every_system_missed_comes_first(open_report: Callable[..., Tab]) -> None:
    wanted = [Item("p1", 3.0), Item("p2", 1.0), Item("p9", 1.0)]
    answers = [got("p1", "p2", wanted=wanted), got("p1", wanted=wanted)]
    tab = open_report(report(asked(*answers, wanted=wanted), "bm25", "lsa"))
    assert [line[2:] for line in expected(tab)] == [
        ["p9", "grade 1", "never retrieved"],
        ["p2", "grade 1", "bm25: rank 2", "lsa: never retrieved"],
        ["p1", "grade 3", "rank 1"],
    ]
    heading = tab.page.locator(".side.relevant h4").inner_text()
    assert heading == "Relevant passages: 1 of 3 missed by every system"


def test_one_passage_of_a_need_is_enough(open_report: Callable[..., Tab]) -> None:
    needs = [[Item("a1", 1.0), Item("a2", 1.0)], [Item("b1", 1.0), Item("b2", 1.0)]]
    made = QueryAnswers("q1", PUMP, needs, [got("a2", "p1")])
    assert expected(open_report(report(made, "bm25"))) == [
        ["", "", "b1", "grade 1", "never retrieved"],
        ["or", "", "b2", "grade 1"],
        ["", "", "a2", "grade 1", "rank 1"],
        ["or", "", "a1", "grade 1"],
    ]


def test_ranks_of_two_systems_stand_beside_each_other(open_report: Callable[..., Tab]) -> None:
    texts = [ReportedItem(f"p{n}", None, f"p{n} {LONG}") for n in range(4)]
    short = [ReportedItem(f"p{n}", None, "short") for n in (3, 9, 2)]
    answers = [Answer("", Cell(None), items) for items in (texts, short)]
    place = unfolded(open_report(report(asked(*answers), "bm25", "lsa")))
    tops = place.evaluate(
        """place => [...place.querySelectorAll(".sides .ranking")].map(list =>
             [...list.children].slice(0, 3).map(row => row.getBoundingClientRect().top))"""
    )
    assert tops[0] == tops[1]
    moves = [line[-1] for line in lines(place.locator(".sides .side").nth(1))]
    assert moves == ["↑3", "only here", "="]  # p3 was fourth, p2 third
    assert place.locator("li.only").count() == 3  # p0 and p1 on the left, p9 on the right


def test_ranks_are_those_that_metrics_count(open_report: Callable[..., Tab]) -> None:
    wanted = [Item(name, 1.0, f"text of {name}") for name in "abc"]
    a, b, c = wanted
    items = [
        ReportedItem("p1", 1.0, None, [a, b]),  # ranks 1 and 2
        ReportedItem("p2", 1.0, None, [b]),  # b counts once
        ReportedItem("p3", None),  # 3
        ReportedItem("p4", 1.0, None, [a, c]),  # c is 4
    ]
    found = {name: Found(rank) for name, rank in {"a": 1, "b": 2, "c": 4}.items()}
    answer = Answer("", Cell(None), items, found=found, ranks=[1, None, 3, 4])
    made = report(asked(answer, wanted=wanted), "bm25", cutoff=Cutoff(3))
    tab = open_report(made)
    places = {line[2]: line[-1] for line in expected(tab)}
    assert places == {"a": "rank 1", "b": "rank 2", "c": "rank 4, below the cutoff 3"}
    assert [line[0] for line in lines(tab.page.locator(".sides"))] == ["1", "", "3", "4"]


def test_calls_show_their_passages(open_report: Callable[..., Tab]) -> None:
    hits = [ReportedItem(RING, 1.0, TEXTS[RING]), ReportedItem(HOURS, None, TEXTS[HOURS])]
    call = CallAnswer("pump  ring", "search", hits, [True, False], None, 0.02)
    failed = CallAnswer("again", "search", [], [], "Timeout: 3 s")
    answer = Answer("", Cell(None), hits, None, None, [call, failed])
    place = unfolded(open_report(report(asked(answer, wanted=WANTED), "agent")))
    calls = [" ".join(each.inner_text().split()) for each in place.locator(".call").all()]
    assert calls == [
        "1. “pump ring” → 2 passages, 1 relevant and new search 20.0 ms",
        "2. “again” → failed: Timeout: 3 s search",
    ]
    rows = lines(place.locator(".call + .ranking").first)
    assert [[row[1], *row[3:]] for row in rows] == [
        ["Seal ring", "relevant and new, grade 1"],
        [TEXTS[HOURS], "unlabelled"],
    ]


def test_a_text_under_another_id_says_where_and_what_to_do(open_report: Callable[..., Tab]) -> None:
    item = ReportedItem("n7", None, TEXTS[RING])
    answer = Answer("", Cell(None), [item], found={}, same_text={RING: SameText(1, "n7")})
    tab = open_report(report(asked(answer, wanted=WANTED), "bm25"))
    assert expected(tab)[0][-1] == "rank 1, under another id (n7)"
    heading = tab.page.locator(".side.relevant h4").inner_text()
    assert heading == "Relevant passages: 1 of 1 came under another id"
    side = tab.page.locator(".sides .side")
    assert f"same text as {RING}" in side.locator(".names").inner_text().replace("\n", "")
    check = tab.page.locator("#to-check details", has_text="relevant text under another id (1)")
    check.locator("summary").first.click()
    command = check.locator(".command code").first.inner_text()
    assert command == "rag-metrics labels move dataset.json storage/ -o moved.json"


def test_what_was_lost_filters_the_questions(open_report: Callable[..., Tab]) -> None:
    found = got("p1", RING)._replace(found={RING: Found(2)})
    made = report(asked(found, wanted=WANTED), "bm25", cutoff=Cutoff(1))
    tab = open_report(made)
    show = tab.page.locator("#show")
    assert show.locator("option").all_inner_texts() == ["all questions", "below the cutoff"]
    show.select_option("below the cutoff")
    assert tab.page.locator("#queries .unfold").count() == 1


def test_the_command_that_chooses_what_to_label_runs(
    open_report: Callable[..., Tab], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tab = open_report(comparison())
    place = tab.unfold("q1")
    place.locator("summary", has_text="Label the 2 unlabelled passages").click()  # x and y
    command = place.locator(".command code").inner_text()
    assert command == (
        "rag-metrics labels pool baseline.run script-alert-1-script-.run --dataset dataset.json"
        " --output pool.jsonl"
    )
    monkeypatch.chdir(tmp_path)
    RetrievalDataset({"q1": "one"}, {"q1": ["a"]}).save("dataset.json")
    for name, ids in {"baseline": ["x", "a"], "script-alert-1-script-": ["a", "y"]}.items():
        write_run(Run({"q1": Ranking(ids)}, name=name), f"{name}.run")
    rag_metrics(*shlex.split(command)[1:])
    pooled = (tmp_path / "pool.jsonl").read_text(encoding="utf-8")
    assert '"x"' in pooled
    assert '"y"' in pooled


def test_search_finds_ids_and_words_of_passages(open_report: Callable[..., Tab]) -> None:
    tab = open_report(comparison())
    for text, found in {"LONG": ["q1"], "文字": ["q2"], "y": ["q1"]}.items():
        tab.page.locator("#search").fill(text)
        tab.page.locator("#searching", has_text="looking").wait_for(state="detached")
        assert sorted(row[:2] for row in tab.rows()) == found, text
    tab.page.locator("#search").fill("")
    assert len(tab.rows()) == 5


def address(tab: Tab) -> str:
    return str(tab.page.evaluate("decodeURIComponent(location.hash)"))


def test_the_address_says_what_is_open_and_shown(open_report: Callable[..., Tab]) -> None:
    tab = open_report(comparison())
    assert address(tab) == ""
    tab.unfold("q2").locator(".sides").wait_for()
    assert address(tab) == "#q=q2"
    tab.page.select_option("#metric", label="mrr")
    tab.page.locator(".sides").wait_for()  # the question is unfolded again
    assert address(tab) == "#q=q2&metric=mrr"
    tab.page.select_option("#slices select", label="ja")
    tab.page.select_option("#show", label="worse than the baseline")
    assert address(tab) == "#q=q2&metric=mrr&show=worse&in+language=ja"
    tab.page.locator("#queries .unfold[aria-expanded=true]").click()
    assert address(tab) == "#metric=mrr&show=worse&in+language=ja"


def test_an_address_opens_the_question_and_filters(open_report: Callable[..., Tab]) -> None:
    tab = open_report(comparison(), address="#q=q2&metric=mrr&in+language=ja")
    tab.page.locator("#queries .unfolded .sides").wait_for()
    assert [row[:2] for row in tab.rows()] == ["q2"]
    assert tab.page.locator("#metric").evaluate("select => select.selectedOptions[0].text") == "mrr"
    tab.page.evaluate("location.hash = '#q=q5'")  # which the filter leaves out
    tab.page.locator(".unfolded", has_text="nothing retrieved").wait_for()
    assert len(tab.rows()) == 5


def test_an_address_opens_a_question_on_a_later_page(open_report: Callable[..., Tab]) -> None:
    tab = open_report(many(60), address="#q=query+57")
    place = tab.page.locator("#queries .unfolded")
    place.wait_for()
    assert "query 57" in tab.rows()
    assert tab.page.evaluate("scrollY") > 0


def many(n: int) -> Report:
    """Scores of so many questions."""
    ids = [f"query {number}" for number in range(n)]
    scores = Scores(ids, {"mrr": [1.0] * n}, queries={each: each.upper() for each in ids})
    return results_report(scores)


def test_a_row_of_a_slice_leads_to_its_questions(open_report: Callable[..., Tab]) -> None:
    systems = {"baseline": baseline(), "other": other()}
    tab = open_report(results_report(systems, slice_by=["language"]))
    tab.page.get_by_role("link", name="ja (1)").click()
    tab.page.wait_for_function("() => document.querySelectorAll('#queries .unfold').length === 1")
    assert [row[:2] for row in tab.rows()] == ["q2"]
    assert address(tab) == "#in+language=ja"


def test_a_question_and_the_summary_are_copied_as_markdown(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context()
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab = Tab(context.new_page())
    tab.page.goto(comparison().to_html(tmp_path / "report.html").as_uri())
    tab.page.wait_for_selector(FILLED)
    copied = "navigator.clipboard.readText()"
    tab.page.get_by_role("button", name="Copy as Markdown").click()
    tab.page.get_by_role("button", name="Copied").wait_for()
    assert tab.page.evaluate(copied) == comparison().to_markdown()

    place = tab.unfold("q1")
    place.get_by_role("button", name="Copy as Markdown").click()
    place.get_by_role("button", name="Copied").wait_for()
    text = tab.page.evaluate(copied)
    assert EVIL not in text
    assert text.startswith("**&#60;script&#62;alert(1)&#60;/script&#62;** (q1)")
    assert "- `a` · baseline: rank 2; &#60;script" in text
    assert "1. `a` · **hit** · " in text
    place.get_by_role("button", name="Copied").wait_for(state="detached")
    place.get_by_role("button", name="Copy link").click()
    place.get_by_role("button", name="Copied").wait_for()
    assert tab.page.evaluate(copied).endswith("report.html#q=q1")
    context.close()
    assert tab.trouble == []


@pytest.mark.parametrize(
    ("name", "copied"),
    [
        ("a b", "a b"),
        ("a\r\r# evil [x](javascript:1)", "a &#35; evil &#91;x&#93;(javascript:1)"),
        ("a`b", "a&#96;b"),
        ("a\u202eb", "a b"),
        ("a_b", "`a_b`"),
    ],
)
def test_a_copied_id_stays_text_in_one_line(script: Any, name: str, copied: str) -> None:
    assert script.evaluate("id => itemMarkdown(id, null)", name) == copied


def test_signs_that_turn_a_text_turn_nothing_beside_it(open_report: Callable[..., Tab]) -> None:
    """U+202E writes what follows from right to left, unless it is isolated."""
    turned = "\u202epump"
    wanted = [Item(turned, 1.0, text=f"{turned} ring")]
    story = asked(got("p1", turned, wanted=wanted), wanted=wanted, text=turned)
    place = unfolded(open_report(report(story, "bm25")))
    held = """place => [...place.querySelectorAll(".line, .unfold")].every(line => {
      const holders = [...line.querySelectorAll("*")].filter(each =>
        [...each.childNodes].some(node => node.nodeType === 3 && node.data.includes("\u202e")));
      return holders.every(each => getComputedStyle(each).unicodeBidi === "isolate"
        || getComputedStyle(each).display === "block");
    })"""
    assert place.evaluate(f"place => ({held})(place.closest('table'))")
    assert "pump" in place.inner_text()


def test_signs_that_turn_a_question_turn_nothing_beside_its_title(
    open_report: Callable[..., Tab],
) -> None:
    scores = score_rankings({"q1": ["a"]}, {"q1": []}, "mrr", queries={"q1": "\u202epump"})
    tab = open_report(scores)
    tab.page.locator("#to-check summary").first.click()
    title = tab.page.locator("#to-check summary span", has_text="pump").first
    assert title.evaluate("span => getComputedStyle(span).unicodeBidi") == "isolate"
    assert title.inner_text() == "\u202epump"


def test_a_plot_can_choose_the_questions(open_report: Callable[..., Tab]) -> None:
    tab = open_report(comparison())
    tab.page.evaluate(f"page.filter(['q1', 'q4'], {EVIL!r})")
    assert {row[:2] for row in tab.rows()} == {"q1", "q4"}
    assert EVIL in tab.page.locator("#only").inner_text()
    tab.page.get_by_role("button", name="Show all").click()
    assert len(tab.rows()) == 5
    assert tab.page.locator("#only").is_hidden()
    assert address(tab) == ""


@pytest.mark.parametrize("metric", ["ndcg@3", "mrr"])
def test_an_address_has_the_bar_that_chose_the_questions(
    open_report: Callable[..., Tab], metric: str
) -> None:
    tab = open_report(comparison(), until=DRAWN)
    tab.page.select_option("#metric", label=metric)
    bar = tab.page.locator("#figure-distribution [data-questions]", has_text=f"on {metric}")
    bar.first.click()
    tab.page.locator("#only").wait_for()
    rows, said = tab.rows(), tab.page.locator("#only").inner_text()
    assert 0 < len(rows) < 5
    kept = address(tab)

    again = open_report(comparison(), address=kept)
    assert again.rows() == rows
    assert again.page.locator("#only").inner_text() == said
    assert address(again) == kept
    unknown = open_report(comparison(), address="#only=nothing")
    assert len(unknown.rows()) == 5


@pytest.mark.parametrize(
    ("n", "printed", "sentence"),
    [(60, 60, ""), (600, 500, "500 of 600 questions are printed; the page has them all.")],
)
def test_paper_has_all_questions_or_says_how_many(
    open_report: Callable[..., Tab], n: int, printed: int, sentence: str
) -> None:
    tab = open_report(many(n))
    tab.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert len(tab.rows()) == printed
    assert tab.page.locator("#on-paper").text_content() == sentence
    assert tab.page.locator("#on-paper").is_hidden()
    tab.page.emulate_media(media="print")
    assert tab.page.locator("#on-paper").is_visible() == bool(sentence)
    tab.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert len(tab.rows()) == 25


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_a_question(browser: Any, tmp_path: Path, scheme: str) -> None:
    long = [ReportedItem(f"p{n}", None, f"{n} pump {LONG}") for n in range(2)]
    wanted = [*WANTED, Item("p1", 2.0, "long long long long")]
    hit = ReportedItem(HOURS, 2.0, TEXTS[VALVE] + LONG, [wanted[1]])
    answers = [Answer("", Cell(None), [*long, hit]), got(HOURS, VALVE, "p1", "p1")]
    made = report(asked(*answers, wanted=wanted), "bm25", "lsa", cutoff=Cutoff(1))
    path = tmp_path / "report.html"
    path.write_text(html_page(made, cut="never"), encoding="utf-8")
    page = browser.new_context(bypass_csp=True, color_scheme=scheme).new_page()
    page.goto(path.as_uri() + "#q=q1")
    page.wait_for_selector(".text")
    page.locator("summary", has_text="Label the").click()
    violations = axe_violations(page, [*AA, "best-practice"])
    page.context.close()
    assert violations == []


def test_an_unfolded_question_widens_no_table(open_report: Callable[..., Tab]) -> None:
    tab = open_report(comparison(), address="#q=q1")
    tab.page.locator(".sides .excerpt").first.wait_for()
    table = tab.page.locator("#all-queries .dt-layout-table")
    assert table.evaluate("place => place.scrollWidth - place.clientWidth") == 0


@pytest.mark.parametrize("width", [375, 800, 1280])
def test_no_width_scrolls_sideways(open_report: Callable[..., Tab], width: int) -> None:
    systems = [f"openai-3-large-chunk{n}-rerank" for n in range(10)]
    answers = [got(HOURS, VALVE, RING, "x" * 90) for _ in systems]
    made = report(asked(*answers, wanted=WANTED), *systems)
    tab = open_report(made, address="#q=q1", viewport={"width": width, "height": 800})
    tab.page.locator(".sides .excerpt").first.wait_for()
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    panel = tab.page.locator(".unfolded").bounding_box()
    assert panel["x"] + panel["width"] <= width
