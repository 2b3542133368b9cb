"""The line that says why a question failed: facts that hold, and silence where none is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_index_rag_metrics import Ranking, RetrievalDataset, Run, evaluate, score_rankings
from llama_index_rag_metrics.rankings.run import Call
from llama_index_rag_metrics.report.model import (
    Answer,
    CallAnswer,
    Cell,
    Cutoff,
    Found,
    Item,
    Listing,
    QueryAnswers,
    Report,
    ReportedItem,
    SameText,
)
from llama_index_rag_metrics.report.query_lines import came_lines, wanted_lines
from llama_index_rag_metrics.report.terminal import to_text
from llama_index_rag_metrics.report.wording import why_lines
from llama_index_rag_metrics.scores.retrieval import Retrieval
from llama_index_rag_metrics.stories.answers import query_answers
from llama_index_rag_metrics.stories.label_view import System

POT = "Is soup out of the clay pots all right?"
GLAZE = "Glazes for tableware\nWhite labels were tested for cups."
THROWING = "The pottery\nClay is thrown; a pot is fired."


def story(
    wanted: Mapping[str, str | None],
    *,
    found: Mapping[str, int] = {},
    came: Sequence[tuple[str, str]] = (("c1", THROWING),),
    text: str = POT,
    at: int | None = 5,
    **further: Any,
) -> QueryAnswers:
    """One system's story: ids and texts of what is wanted, ranks of what was found, what came."""
    items = [ReportedItem(name, 1.0 if name in found else None, body) for name, body in came]
    places = {name: Found(rank) for name, rank in found.items()}
    answer = Answer("bm25", Cell(0.0, "score"), items, found=places)._replace(**further)
    needs = [[Item(name, 1.0, text=body)] for name, body in wanted.items()]
    return QueryAnswers("q", text, needs, [answer], cutoff=None if at is None else Cutoff(at))


def why(*args: Any, **options: Any) -> str:
    return " ".join(why_lines(story(*args, **options)))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            story({"a": "x"}, same_text={"a": SameText(1, "n7")}),
            "The relevant text came at rank 1 under another id: match by text, or move the labels.",
        ),
        (
            story(
                dict.fromkeys("abc"),
                found={"c": 1},
                same_text={"a": SameText(4, "n7"), "b": SameText(2, "n8")},
            ),
            "2 of 3 relevant texts came under another id, the first at rank 2: "
            "match by text, or move the labels.",
        ),
        (story({"a": None}, found={"a": 7}), "Found at rank 7; only the first 5 count."),
        (
            story(dict.fromkeys("abcd"), found={"a": 9, "b": 6, "c": 7, "d": 1}),
            "3 of 4 relevant passages are at ranks 6, 7 and 9; only the first 5 count.",
        ),
        (
            story(dict.fromkeys("abc"), found={"a": 9, "b": 1}),
            "1 of 3 relevant passages is at rank 9; only the first 5 count. "
            "1 of 3 relevant passages wasn't retrieved.",
        ),
        (story(dict.fromkeys("ab")), "None of the 2 relevant passages was retrieved."),
        (story({"a": None}), "The relevant passage wasn't retrieved."),
        # all found; nothing known; failed; nothing returned, which is said elsewhere
        (story({"a": None}, found={"a": 5}), ""),
        (story({"a": None}, found={}, came=(), error="TimeoutError"), ""),
        (story({"a": None}, came=()), ""),
        (story({}), ""),
    ],
)
def test_what_was_lost_says_how(query: QueryAnswers, said: str) -> None:
    assert " ".join(why_lines(query)) == said


def test_a_token_budget_says_so() -> None:
    answer = Answer("b", Cell(0.0), [ReportedItem("x", None)], found={"a": Found(3, 250)})
    query = QueryAnswers("q", "", [[Item("a", 1.0)]], [answer], cutoff=Cutoff(200, "tokens"))
    assert why_lines(query) == ["Found at rank 3; only the first 200 tokens count."]


@pytest.mark.parametrize(
    ("calls", "in_call", "found", "said"),
    [
        # x is none of soup, clay, pots and right
        ([False, False], {}, {}, "None of its 2 searches brought a relevant passage."),
        ([False], {}, {}, "Its only search brought no relevant passage."),
        ([], {}, {}, "It made no search."),
        ([True, False], {}, {"a": 1}, "Its 2 searches brought 1 of 2 relevant passages."),
        (
            [True],
            {"a": 1, "b": 1},
            {},
            "2 of 2 relevant passages were brought by a search, but dropped from the result.",
        ),
    ],
)
def test_an_agents_searches(
    calls: list[bool], in_call: dict[str, int], found: dict[str, int], said: str
) -> None:
    made = [CallAnswer("x", "", [ReportedItem("c", 1.0 if hit else None)], [hit]) for hit in calls]
    query = story(dict.fromkeys("ab"), found=found, calls=made, in_call=in_call)
    assert why_lines(query) == [said]


def test_the_best_passage_is_named_where_lesser_ones_are_lost() -> None:
    needs = [[Item("best", 3.0)], [Item("other", 1.0)], [Item("third", 1.0)]]
    lost = story(dict.fromkeys(("best", "other", "third")), found={"best": 2})
    assert why_lines(lost._replace(wanted=needs)) == [
        "The highest grade is at rank 2. 2 of 3 relevant passages weren't retrieved."
    ]
    # of equal ones none is the best
    assert why(dict.fromkeys("abc"), found={"a": 2}) == (
        "2 of 3 relevant passages weren't retrieved."
    )


def test_the_call_that_had_it_is_named() -> None:
    run = Run({"q": Ranking(["x"], calls=[Call(["a"], query="1"), Call(["x"], query="2")])})
    scores = score_rankings({"q": ["a"]}, run, ["recall"])
    system = System("agent", scores, {}, Retrieval(run, _relevance("a")))
    assert why_lines(query_answers("q", [system], "recall")) == [
        "Call 1 had it, the result doesn't."
    ]


def _relevance(*ids: str) -> Any:
    return RetrievalDataset({"q": "x?"}, {"q": list(ids)}).relevance


def test_the_stage_that_dropped_it_is_named_as_it_is_written() -> None:
    need = [[Item("a", 1.0)]]
    answers = [
        Answer("bm25", Cell(1.0), [ReportedItem("a", 1.0)], found={"a": Found(4)}),
        Answer("Cohere V3", Cell(0.0), [ReportedItem("x", None)], found={}),
    ]
    query = QueryAnswers("q", "", need, answers, stages=True)
    assert why_lines(query) == ["Dropped by Cohere V3 (was 4)."]


def test_systems_of_which_the_same_holds_share_a_line() -> None:
    one = story({"a": None}).answers[0]
    two = one._replace(system="lsa\x1b[31m", found={"a": Found(7)})
    query = story({"a": None})
    both = query._replace(answers=[one, one._replace(system="b")])
    assert why_lines(both) == ["The relevant passage wasn't retrieved."]
    apart = query._replace(answers=[one, two])
    assert [line.partition(":")[0] for line in why_lines(apart)] == ["bm25", "lsa [31m"]


@given(st.lists(st.sampled_from("abcdefgh"), unique=True), st.sets(st.sampled_from("abcdefgh")))
def test_a_line_is_there_just_where_something_came_and_not_all(
    ranking: list[str], relevant: set[str]
) -> None:
    labels = sorted(relevant) or ["a"]
    run = Run({"q": Ranking(ranking)})
    scores = score_rankings({"q": labels}, run, ["recall@3"])
    system = System("s", scores, {}, Retrieval(run, _relevance(*labels)))
    lines = why_lines(query_answers("q", [system], "recall@3"))
    missed_some = not set(labels) <= set(ranking[:3])
    assert bool(lines) == (bool(ranking) and missed_some)


def test_it_stands_under_the_question_everywhere() -> None:
    dataset = RetrievalDataset({"q": POT}, {"q": ["glaze"]}, {"glaze": GLAZE, "c1": THROWING})
    worst = evaluate(lambda query: ["c1"], dataset, ["recall@5"]).worst("recall@5")
    line = "The relevant passage wasn't retrieved."
    assert f"{POT} {line}" in " ".join(str(worst).split())
    assert f"<p class=why>{escape(line)}</p>" in worst._repr_html_()
    assert f"- q: {POT}\n  - {line}" in worst.to_markdown()


def test_found_passages_are_never_folded_away() -> None:
    # six needs, the last found; of five lines four are of missed ones
    query = story(dict.fromkeys("abcdef"), found={"f": 4})
    assert [line.name for line in wanted_lines(query)] == [
        *(f"{name} [1]" for name in "abcd"),
        "f [1]",
    ]
    # five found: two missed ones come first all the same
    query = story(dict.fromkeys("abcdefgh"), found=dict.fromkeys("defgh", 1))
    assert [line.name[0] for line in wanted_lines(query)] == ["a", "b", "d", "e", "f"]


def test_hits_beyond_the_first_items_are_shown() -> None:
    came = [(name, "") for name in "tuvwxay"]
    query = story({"a": None}, found={"a": 6}, came=came)
    lines = [line.text for line in came_lines(query, query.answers[0], 3)]
    assert lines == [
        "1. t",
        "2. u",
        "3. v",
        "4. to 5. none labelled relevant",
        "6. a [1]",
        "and 1 more",
    ]


def test_a_text_without_blanks_is_cut_anywhere() -> None:
    item = [
        [Item("zh", 1.0, text="開放時間與休館日\n" + "工坊週二到週五下午兩點開門晚上九點關門" * 5)]
    ]
    query = QueryAnswers("q", "x?", item, [Answer("b", Cell(0.0, "score"), [], found={})])
    text = to_text(Report("", listings=[Listing("", [query], most=3)]), width=80)
    (line,) = [line for line in text.splitlines() if "zh [1]" in line]
    assert "” 工坊週二到" in line
    assert line.endswith("…")
