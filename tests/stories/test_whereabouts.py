"""Where a wanted passage was lost, what it says, and how ids are told apart."""

import io
import sys
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.schema import NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode
from rich.console import Console
from support.retrievers import Postprocessor, Scripted, node

from llama_index_rag_metrics import (
    EvaluationResults,
    Ranking,
    Relevance,
    RetrievalDataset,
    Run,
    Span,
    evaluate,
    evaluate_stages,
    match_run,
    score_rankings,
)
from llama_index_rag_metrics.evaluation.evaluation_results import system_of
from llama_index_rag_metrics.rankings.run import Call, combine_calls
from llama_index_rag_metrics.report.model import (
    Cell,
    Listing,
    QueryAnswers,
    Report,
    ReportedAnswer,
    ReportedItem,
    Wanted,
)
from llama_index_rag_metrics.report.terminal import print_report, to_text
from llama_index_rag_metrics.report.text import excerpt, short_ids, titled
from llama_index_rag_metrics.scores.retrieval import Retrieval
from llama_index_rag_metrics.scores.scores import Scores
from llama_index_rag_metrics.stories.label_view import System
from llama_index_rag_metrics.stories.story import query_answers

RELEVANT = {"a": 1, "b": 1, "c": 1}


def where(run: Run, metric: str, relevance: Relevance | None = None) -> dict[str, str]:
    """The places of the wanted items of the question q."""
    judged = {"q": Relevance(RELEVANT) if relevance is None else relevance}
    system = System("bm25", Scores([], {}), {}, Retrieval(run, judged))
    story = query_answers("q", [system], metric)
    return {passage.name.replace(" [1]", ""): passage.where for passage in story.wanted}


def test_rank_counts_copies_once() -> None:
    # x, a, y, b: the second x and the second a are copies, so b has rank 4
    run = Run({"q": ["x", "a", "x", "a", "y", "b"]})
    assert where(run, "recall@3") == {
        "a": "rank 2",
        "b": "rank 4, below the cutoff 3",
        "c": "never retrieved",
    }
    assert where(run, "mrr") == {"a": "rank 2", "b": "rank 4", "c": "never retrieved"}


def test_budget_is_spent_by_whole_items_in_order() -> None:
    # 900 + 900 fit into 2,000; b would make it 2,700; a copy costs nothing
    ranking = Ranking(["x", "a", "a", "b"], tokens=[900, 900, 900, 900])
    assert where(Run({"q": ranking}), "recall@2000tokens") == {
        "a": "rank 2",
        "b": "over the budget of 2,000 tokens",
        "c": "never retrieved",
    }


RANKED = st.lists(st.tuples(st.sampled_from("abcdxyz"), st.integers(1, 9)), min_size=1, max_size=12)


@given(RANKED, st.sampled_from(["recall@1", "recall@4", "recall@10tokens", "recall@30tokens"]))
def test_passages_not_lost_are_those_that_count(ranked: list[tuple[str, int]], name: str) -> None:
    """Recall is the share of the wanted items that weren't lost, whatever repeats or costs."""
    cost = dict(reversed(ranked))  # copies of an item have its first one's length
    ranking = Ranking([item for item, _ in ranked], tokens=[cost[item] for item, _ in ranked])
    run, judged = Run({"q": ranking}), {"q": Relevance(["a", "b", "c"])}
    story = query_answers("q", [System("bm25", Scores([], {}), {}, Retrieval(run, judged))], name)
    kept = [passage for passage in story.wanted if not passage.is_missed]
    assert score_rankings(judged, run, name)[name] == pytest.approx([len(kept) / 3])


@given(st.lists(st.sampled_from(["Io.", "Rhea.", "Io. Rhea.", "Mars."]), min_size=1, max_size=6))
def test_so_it_is_where_texts_are_recognised(texts: list[str]) -> None:
    """An item that stands for two is two ranks, one that stands for a known one is none."""
    expected = {"io": "Io.", "rhea": "Rhea.", "titan": "Titan."}
    dataset = RetrievalDataset({"q": "x?"}, {"q": list(expected)}, expected)
    run = Run({"q": Ranking([f"n{n}" for n in range(len(texts))], texts=texts)})
    matched = match_run(run, dataset, "text")
    system = System("bm25", Scores([], {}), {}, Retrieval(run, {}, {"recall@2": matched}))
    story = query_answers("q", [system], "recall@2")
    kept = [passage for passage in story.wanted if not passage.is_missed]
    scores = score_rankings(matched.relevance, matched.run, "recall@2")
    assert scores["recall@2"] == pytest.approx([len(kept) / 3])


def test_failures_say_nothing_of_ranks() -> None:
    assert set(where(Run({"q": Ranking(error="refused")}), "mrr").values()) == {""}


def test_searches_say_how_much_is_relevant() -> None:
    calls = [
        Call(["a"], query="moons", asked_by="search"),
        Call(["x", "y"], query="moon"),
        Call(error="refused\x1b[31m", query="rings"),
        Call([], query="dust"),
    ]
    run = Run({"q": combine_calls(calls)})
    system = System("agent", Scores([], {}), {}, Retrieval(run, {"q": Relevance(["a"])}))
    story = query_answers("q", [system], "recall")
    assert story.answers[0].searches == [
        "1 passage, 1 relevant: “moons” (search)",
        "2 passages, none relevant: “moon”",
        "failed (refused [31m): “rings”",
        "nothing retrieved: “dust”",
    ]
    text = " ".join(to_text(Report("", listings=[Listing("", [story])]), width=100).split())
    assert "relevant a [1]: rank 1 by search 1 agent – search 1: 1 passage, 1 relevant" in text


def test_passages_left_out_are_counted() -> None:
    wanted = [Wanted([name], name) for name in "abcdefg"]
    text = to_text(Report("", listings=[Listing("", [QueryAnswers("q", "x?", wanted)])]))
    assert text.split()[-6:] == ["d", "e", "and", "2", "more", "relevant"]


def test_hits_are_green_in_a_terminal() -> None:
    retrieved = [
        ReportedItem("a", "a [0]", "Mars.", 1),
        ReportedItem("b", "b [2]", "Io.", 2, is_hit=True),
    ]
    query = QueryAnswers("q", "x?", answers=[ReportedAnswer("bm25", Cell(0.5, "score"), retrieved)])
    page = io.StringIO()
    console = Console(file=page, width=80, force_terminal=True, color_system="standard")
    print_report(Report("", listings=[Listing("", [query], n_items=2)]), console=console)
    assert "\x1b[32m2. b [2]  Io." in page.getvalue()
    assert "\x1b[32m1. a" not in page.getvalue()


def test_alternatives_each_meet_a_need() -> None:
    groups = Relevance(groups=[["a", "b"], ["c"]])
    run = Run({"q": ["x", "b", "a"]})
    met = {"c": "never retrieved", "a or b": "rank 2"}
    assert where(run, "group_recall@5", groups) == met
    # recall counts each passage, whatever its group
    by_item = {"c": "never retrieved", "a": "rank 3", "b": "rank 2"}
    assert where(run, "recall@5", groups) == by_item


def test_metric_of_spans_finds_what_overlaps() -> None:
    wanted = Relevance(spans=[("book", 0, 100), ("book", 300, 400)])
    ranking = Ranking(["n1", "n2"], spans=[Span("other", 0, 100), Span("book", 90, 200)])
    by_place = where(Run({"q": ranking}), "span_recall@5", wanted)
    # [90, 200) overlaps [0, 100), and nothing overlaps [300, 400)
    assert list(by_place.values()) == ["never retrieved", "rank 2 as n2"]


def test_stages_say_which_one_dropped_it() -> None:
    dataset = RetrievalDataset({"q": "x?"}, {"q": RELEVANT})
    rerank = {"rerank": Postprocessor(function=lambda nodes: nodes[:3])}
    stages = evaluate_stages(Scripted({"x?": ["x", "a", "y", "b"]}), rerank, dataset, ["recall@5"])
    systems = [system_of(results, stage) for stage, results in stages.items()]
    story = query_answers("q", systems, "recall@5", stages=True)
    assert {passage.ids[0]: (passage.where, passage.ranks) for passage in story.wanted} == {
        "b": ("dropped by rerank (was 4)", [4, None]),
        "c": ("never retrieved", [None, None]),
        "a": ("rank 2", [2, 2]),
    }
    assert story.why == ["1 of 3 relevant passages was never retrieved, 1 was dropped by a stage."]
    assert "b [1] “text of b”: dropped by rerank (was 4)" in str(stages)


def results(corpus: dict[str, str], *retrieved: NodeWithScore | str) -> EvaluationResults:
    dataset = RetrievalDataset({"q": "x?"}, {"q": RELEVANT}, corpus)
    return evaluate(Scripted({"x?": list(retrieved)}), dataset, ["recall@5"])


def texts_of(*systems: EvaluationResults) -> dict[str, str]:
    known = [system_of(each, f"system {n}") for n, each in enumerate(systems)]
    wanted = query_answers("q", known, "recall@5").wanted
    return {passage.ids[0]: passage.text for passage in wanted}


def test_texts_come_from_the_corpus_or_any_system_that_retrieved_it() -> None:
    one, other = results({"a": "In the corpus."}, "x"), results({}, node("b"))
    assert texts_of(one, other) == {"a": "In the corpus.", "b": "text of b", "c": ""}


def test_text_that_came_under_another_id_is_pointed_out() -> None:
    """As after a new ingestion, where only some ids stayed the same."""
    text = "Io has volcanoes, and lakes of sulphur on its surface."
    again = node("n7")
    again.node.text = f"{text} And more of them."  # type: ignore[attr-defined]
    missed = results({"a": f"  {text}\n", "b": "Too short to tell."}, node("x"), again)
    for worst in (missed.worst("recall@5"), missed.scores.worst("recall@5")):
        printed = " ".join(repr(worst).split())
        assert "1 is under another id" in printed
        assert "rank 2, under another id (n7)" in printed
    other = results({"a": "Rhea is an icy body, without an atmosphere to speak of."}, again)
    assert "another id" not in repr(other.worst("recall@5"))


def test_text_is_the_same_by_half_and_not_by_a_title() -> None:
    text = "Io has volcanoes, and lakes of sulphur on its surface. " * 4
    for share, place in ((0.6, "rank 1, under another id (n7)"), (0.4, "never retrieved")):
        part = node("n7")
        part.node.text = text[: int(share * len(text))]  # type: ignore[attr-defined]
        found = results({"a": text}, part)
        story = query_answers("q", [system_of(found)], "recall@5")
        assert [line.where for line in story.wanted if line.name == "a [1]"] == [place]


def test_pickled_results_keep_the_texts_of_relevant_passages_alone() -> None:
    import pickle

    full = results({"a": "In the corpus.", "z": "Irrelevant to all. " * 1000}, "x")
    data = pickle.dumps(full)
    assert b"Irrelevant" not in data
    assert texts_of(pickle.loads(data))["a"] == "In the corpus."


def test_text_of_a_place_is_cut_out_of_its_document() -> None:
    chunk = TextNode(text="one two", start_char_idx=0, end_char_idx=7)
    chunk.relationships = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="book")}
    wanted = Relevance(spans=[("book", 4, 13)])
    dataset = RetrievalDataset({"q": "x?"}, {"q": wanted}, {"book": "one two three"})
    script = Scripted({"x?": [NodeWithScore(node=chunk, score=1.0)]})
    found = evaluate(script, dataset, ["span_recall@5"])
    (passage,) = query_answers("q", [system_of(found)], "span_recall@5").wanted
    assert passage.text == "two three"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Geysers of Enceladus\nThey come from an ocean.", "Geysers of Enceladus"),
        ("\n\n  Geysers of Enceladus\n", "Geysers of Enceladus"),
        ("# Kiln rules\nNo food.", "Kiln rules"),
        ("送燒須知\n素燒排在星期二晚上。", "送燒須知"),
        ("word " * 40, "word " * 22 + "word…"),  # whole words
        ("x" * 200, "x" * 119 + "…"),
        ("\x1b[31mred alert", "[31mred alert"),
        ("", ""),
        (None, ""),
    ],
)
def test_excerpt_is_the_title_or_120_characters(text: str | None, shown: str) -> None:
    assert excerpt(text) == shown


@given(st.text(max_size=500), st.integers(10, 120))
def test_excerpt_is_never_longer_than_asked(text: str, most: int) -> None:
    assert len(excerpt(text, most)) <= most


def test_first_line_is_a_title_up_to_200_characters() -> None:
    short, long = "x" * 200, "x" * 201
    assert titled(f"{short}\nMore.", sys.maxsize) == (short, "More.")
    assert titled(f"{long}\nMore.", sys.maxsize) == ("", f"{long} More.")


def test_uuids_are_cut_to_where_they_differ() -> None:
    one, other = (str(UUID(int=n << 96)) for n in (1, 2))
    assert short_ids([one, other, "io"]) == {one: "00000001…", other: "00000002…", "io": "io"}
    # those that begin alike stay whole
    ids = [str(UUID(int=n)) for n in (1, 2)]
    assert list(short_ids(ids).values()) == ids


def test_chunks_of_a_uuid_keep_their_numbers() -> None:
    document = str(UUID(int=7 << 96))
    assert list(short_ids([f"{document}#1", f"{document}#2"]).values()) == [
        "00000007…#1",
        "00000007…#2",
    ]


@given(st.lists(st.uuids().map(str) | st.text("ab-/0", min_size=1), unique=True))
def test_short_ids_stay_apart(ids: list[str]) -> None:
    assert len(set(short_ids(ids).values())) == len(ids)
