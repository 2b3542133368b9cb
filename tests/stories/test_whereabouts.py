"""Where a wanted passage was lost: a question's story tells it as its metric scored it."""

import io
import sys
from collections.abc import Sequence
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
    Scores,
    Span,
    evaluate,
    evaluate_stages,
    match_run,
    score_rankings,
)
from llama_index_rag_metrics.evaluation.evaluation_results import system_of
from llama_index_rag_metrics.rankings.matching.matched import Matched
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
from llama_index_rag_metrics.stories.label_view import System
from llama_index_rag_metrics.stories.story import query_answers
from llama_index_rag_metrics.stories.whereabouts import losses

RELEVANT = {"a": 1, "b": 1, "c": 1}


def system(
    ranking: Ranking | Sequence[str],
    labels: Relevance,
    *metrics: str,
    name: str = "bm25",
    matched: Matched | None = None,
) -> System:
    """One question q, scored."""
    run = Run({"q": ranking})
    judged = {"q": labels} if matched is None else matched.relevance
    scores = score_rankings(judged, run if matched is None else matched.run, list(metrics))
    recognised = {} if matched is None else dict.fromkeys(metrics, matched)
    return System(name, scores, {}, Retrieval(run, {"q": labels}, recognised))


def where(
    ranking: Ranking | Sequence[str], metric: str, labels: Relevance | None = None
) -> dict[str, str]:
    """The places of the wanted items of the question q."""
    story = query_answers("q", [system(ranking, labels or Relevance(RELEVANT), metric)], metric)
    return {passage.name.replace(" [1]", ""): passage.where for passage in story.wanted}


def test_rank_counts_copies_once() -> None:
    # x, a, y, b: the second x and the second a are copies, so b has rank 4
    ranking = ["x", "a", "x", "a", "y", "b"]
    assert where(ranking, "recall@3") == {
        "a": "rank 2",
        "b": "rank 4, below the cutoff 3",
        "c": "never retrieved",
    }
    assert where(ranking, "mrr") == {"a": "rank 2", "b": "rank 4", "c": "never retrieved"}


def test_budget_is_spent_by_whole_items_in_order() -> None:
    # 900 + 900 fit into 2,000; b would make it 2,700; a copy costs nothing
    ranking = Ranking(["x", "a", "a", "b"], tokens=[900, 900, 900, 900])
    assert where(ranking, "recall@2000tokens") == {
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
    one = system(ranking, Relevance(["a", "b", "c"]), name)
    wanted = query_answers("q", [one], name).wanted
    kept = [passage for passage in wanted if not passage.is_missed]
    assert one.scores[name] == pytest.approx([len(kept) / 3])


@given(st.lists(st.sampled_from(["Io.", "Rhea.", "Io. Rhea.", "Mars."]), min_size=1, max_size=6))
def test_so_it_is_where_texts_are_recognised(texts: list[str]) -> None:
    """An item that stands for two is two ranks, one that stands for a known one is none."""
    expected = {"io": "Io.", "rhea": "Rhea.", "titan": "Titan."}
    dataset = RetrievalDataset({"q": "x?"}, {"q": list(expected)}, expected)
    ranking = Ranking([f"n{n}" for n in range(len(texts))], texts=texts)
    matched = match_run(Run({"q": ranking}), dataset, "text")
    one = system(ranking, Relevance(list(expected)), "recall@2", matched=matched)
    wanted = query_answers("q", [one], "recall@2").wanted
    kept = [passage for passage in wanted if not passage.is_missed]
    assert one.scores["recall@2"] == pytest.approx([len(kept) / 3])


def test_failures_say_nothing_of_ranks() -> None:
    assert set(where(Ranking(error="refused"), "mrr").values()) == {""}


def test_searches_say_how_much_is_relevant() -> None:
    calls = [
        Call(["a"], query="moons", asked_by="search"),
        Call(["x", "y"], query="moon"),
        Call(error="refused\x1b[31m", query="rings"),
        Call([], query="dust"),
    ]
    agent = system(combine_calls(calls), Relevance(["a"]), "recall", name="agent")
    story = query_answers("q", [agent], "recall")
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
    ranking = ["x", "b", "a"]
    met = {"c": "never retrieved", "a or b": "rank 2"}
    assert where(ranking, "group_recall@5", groups) == met
    # recall counts each passage, whatever its group
    by_item = {"c": "never retrieved", "a": "rank 3", "b": "rank 2"}
    assert where(ranking, "recall@5", groups) == by_item


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
    assert story.why == ["1 of 3 relevant passages was never retrieved, 1 was dropped by rerank."]
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
    places = (0.6, "under another id"), (0.4, "in part under another id"), (0.06, "never retrieved")
    for share, place in places:
        part = node("n7")
        part.node.text = text[: int(share * len(text))]  # type: ignore[attr-defined]
        found = results({"a": text}, part)
        story = query_answers("q", [system_of(found)], "recall@5")
        assert [line.losses for line in story.wanted if line.name == "a [1]"] == [[place]]


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
    shown = short_ids([f"{document}#1", f"{document}#2"])
    assert list(shown.values()) == ["00000007…#1", "00000007…#2"]


@given(st.lists(st.uuids().map(str) | st.text("ab-/0", min_size=1), unique=True))
def test_short_ids_stay_apart(ids: list[str]) -> None:
    assert len(set(short_ids(ids).values())) == len(ids)


IO = "Io is the most volcanic moon of Jupiter and has hundreds of volcanoes."

GEYSERS = "Enceladus has geysers which come from an ocean under the ice of it."

TITAN = "Titan has lakes of methane and a thick atmosphere of nitrogen gas."


def lines(story: QueryAnswers) -> list[str]:
    return list(map(str, story.wanted))


def stored_of(live: System) -> System:
    scores = live.scores.replace(retrieval=live.retrieval)
    return System.of(Scores.from_json(scores.to_json()), "stored")


def told(ranking: Ranking | Sequence[str], labels: Relevance, metric: str) -> list[str]:
    return lines(query_answers("q", [system(ranking, labels, metric)], metric))


def test_label_below_the_grade_isnt_missed() -> None:
    # recall counts grades from 1: a doesn't count, so that recall is 1
    labels = Relevance({"a": 0.5, "b": 1})
    assert told(["b"], labels, "recall@5") == ["b [1]: rank 1"]
    assert told(["b"], labels, "ndcg@5") == ["a [0.5]: never retrieved", "b [1]: rank 1"]
    graded = Relevance({"a": 1, "b": 2})
    assert told(["b"], graded, "recall(min_grade=2)@5") == ["b [2]: rank 1"]


def test_story_says_where_no_label_counts() -> None:
    story = query_answers("q", [system(["a"], Relevance({"a": 0.5}), "recall@5")], "recall@5")
    assert story.wanted == []
    assert story.remarks == ["No label reaches the grade 1 that recall@5 asks for."]


def test_item_that_counts_for_the_metric_is_a_hit() -> None:
    labels = Relevance({"a": 1, "b": 2, "c": 0.5})
    for metric, hits in {
        "recall@5": [True, True, False],
        "recall(min_grade=2)@5": [False, True, False],
        "ndcg@5": [True, True, True],
    }.items():
        (answer,) = query_answers("q", [system(["a", "b", "c"], labels, metric)], metric).answers
        assert [item.is_hit for item in answer.retrieved or ()] == hits


def test_member_of_too_low_a_grade_meets_no_group() -> None:
    labels = Relevance({"a1": 1, "a2": 3}, groups=[["a1", "a2"]])
    ranking = ["a1", *(f"x{n}" for n in range(8)), "a2"]
    metric = "group_recall(min_grade=2)@5"
    assert told(ranking, labels, metric) == ["a2 [3]: rank 10, below the cutoff 5"]
    assert told(["a1"], Relevance(groups=[["a1"]]), metric) == [
        "group 1: no relevant passage meets it"
    ]


def test_facet_without_passages_is_named() -> None:
    # facet_recall is 2/3
    labels = Relevance(facets={"x": ["a"], "y": [], "z": ["a"]})
    one = system(["a", "b"], labels, "facet_recall@5")
    story = query_answers("q", [one], "facet_recall@5")
    assert lines(story) == ["y: no relevant passage meets it", "a [1]: rank 1", "a [1]: rank 1"]
    # it isn't a passage that could be counted as lost
    (lost,) = losses([one], "facet_recall@5")
    assert (lost.n_wanted, str(lost)) == (2, "all 2 relevant passages were found")


@pytest.mark.parametrize("metrics", [["recall@5", "span_recall"], ["span_recall", "recall@5"]])
def test_story_doesnt_depend_on_the_order_of_metrics(metrics: list[str]) -> None:
    labels = Relevance(spans=[("doc", 100, 200), ("doc", 500, 600)])
    # c2 overlaps the first, c1 has its place in another document; no id is that of a label
    spans = [Span("other", 100, 200), Span("doc", 50, 220)]
    live = system(Ranking(["c1", "c2"], spans=spans), labels, *metrics)
    stored = stored_of(live)
    found = {
        "recall@5": ["never retrieved"] * 2,
        "span_recall": ["never retrieved", "rank 2 as c2"],
    }
    for metric, places in found.items():
        for each in (live, stored):
            story = query_answers("q", [each], metric)
            assert [passage.where for passage in story.wanted] == places


def test_chunk_that_covers_two_places_has_one_rank() -> None:
    labels = Relevance(spans=[("doc", 0, 10), ("doc", 20, 30), ("doc", 40, 50)])
    spans = [Span("doc", 0, 30), Span("doc", 40, 50)]
    places = told(Ranking(["c1", "c2"], spans=spans), labels, "span_recall@2")
    assert [line.rpartition(": ")[2] for line in places] == [
        "rank 1 as c1",
        "rank 1 as c1",
        "rank 2 as c2",
    ]


def test_id_that_clashes_with_a_labels_isnt_found_by_place() -> None:
    labels = Relevance(["c1"], spans={"c1": ("doc", 0, 10)})
    ranking = Ranking(["c1"], spans=[Span("doc", 500, 600)])
    (line,) = told(ranking, labels, "span_recall@5")
    assert line.endswith("never retrieved")
    ranking = Ranking(["c1", "c2"], spans=[Span("doc", 500, 600), Span("doc", 5, 9)])
    (line,) = told(ranking, labels, "span_recall@5")
    assert line.endswith("rank 2 as c2")


def test_first_of_copies_places_counts() -> None:
    # span_recall is 0: the second c1 is a copy
    ranking = Ranking(["c1", "c1"], spans=[Span("doc", 500, 600), Span("doc", 5, 9)])
    (line,) = told(ranking, Relevance(spans=[("doc", 0, 10)]), "span_recall@5")
    assert line.endswith("never retrieved")


def test_copy_has_no_rank() -> None:
    one = system(["x", "a", "x", "y", "b"], Relevance(["b"]), "recall@4")
    story = query_answers("q", [one], "recall@4")
    # recall@4 is 1: x, a, y, b
    assert lines(story) == ["b [1]: rank 4"]
    assert list(map(str, story.answers[0].retrieved or ())) == [
        "1. x",
        "2. a",
        "again: x",
        "3. y",
        "4. b [1]",
    ]


def test_chunk_that_stands_for_two_has_two_ranks() -> None:
    texts = {"d1": IO, "d2": GEYSERS, "d3": TITAN}
    dataset = RetrievalDataset({"q": "which moons?"}, {"q": list(texts)}, texts)
    ranking = Ranking(["n1", "n2", "n3"], texts=[f"{IO} {GEYSERS}", IO, TITAN])
    matched = match_run(Run({"q": ranking}), dataset, "text")
    one = system(ranking, Relevance(list(texts)), "recall@2", matched=matched)
    story = query_answers("q", [one], "recall@2")
    assert [item.rank for item in story.answers[0].retrieved or ()] == [1, None, 3]
    assert "rank 3 as n3, below the cutoff 2" in lines(story)[0]


CALLS = [
    Call(["a", "b"], texts=[IO, GEYSERS], query="moons", asked_by="search"),
    Call(["c"], texts=[TITAN], query="titan", asked_by="search"),
]


def test_story_says_what_only_a_call_had() -> None:
    ranking = Ranking(["c"], texts=[TITAN], calls=CALLS)
    one = system(ranking, Relevance(["a", "c"]), "recall@5", name="agent")
    story = query_answers("q", [one], "recall@5")
    lost = f"a [1] “{IO}”: in search 1, not in the result"
    assert lines(story) == [lost, f"c [1] “{TITAN}”: rank 1 by search 2"]
    assert story.answers[0].searches == [
        "2 passages, 1 relevant: “moons” (search)",
        "1 passage, 1 relevant: “titan” (search)",
    ]
    (counted,) = losses([one], "recall@5")
    assert dict(counted.by_loss) == {"in a search, not in the result": 1}
    # scores keep that
    assert lines(query_answers("q", [stored_of(one)], "recall@5")) == lines(story)


def test_place_says_whose_it_is_where_another_failed() -> None:
    labels = Relevance(["a"])
    failed = system(Ranking(error="TimeoutError: late"), labels, "recall@5", name="x")
    found = system(["z", "c", "a"], labels, "recall@5", name="y")
    story = query_answers("q", [failed, found], "recall@5")
    assert lines(story) == ["a [1]: y: rank 3"]


def test_missed_is_what_every_system_missed_and_of_stages_the_last() -> None:
    labels = Relevance(["a", "b", "c"])
    first = system(["a", "b"], labels, "recall@5", name="first")
    last = system(["b"], labels, "recall@5", name="last")
    for stages, missed in ((False, {"c"}), (True, {"a", "c"})):
        story = query_answers("q", [first, last], "recall@5", stages=stages)
        named = {passage.name[0] for passage in story.wanted if passage.is_missed}
        assert named == missed


def test_stored_scores_know_every_place_and_the_beginnings_of_ten_texts() -> None:
    ids = [f"passage-{n:03}" for n in range(100)]
    run = Run({"q": Ranking(ids, texts=["volcano " * 1000] * 100)})
    scores = score_rankings({"q": ids}, run, ["recall@100"])
    assert len(scores.to_json()) < 10_000
    story = query_answers("q", [System.of(scores)], "recall@100")
    assert [passage.ranks for passage in story.wanted] == [[n] for n in range(1, 101)]


NAMES = "abcdefg"


@st.composite
def labelled(draw: st.DrawFn) -> Relevance:
    grades = draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from([0, 0.5, 1, 2, 3])))
    kind = draw(st.sampled_from(["plain", "groups", "facets"]))
    if kind == "plain":
        return Relevance(grades)
    members = st.lists(st.sampled_from(NAMES), unique=True, min_size=kind == "groups", max_size=3)
    groups = draw(st.lists(members, min_size=1, max_size=3))
    known = {name: grade or 1 for name, grade in grades.items()}
    if kind == "groups":
        return Relevance(known, groups=groups)
    return Relevance(facets={f"facet {n}": group for n, group in enumerate(groups)}, grades=known)


@given(
    st.lists(st.sampled_from(NAMES + "xyz"), max_size=9),
    labelled(),
    st.sampled_from(["recall", "group_recall", "facet_recall"]),
    st.sampled_from([0.5, 1, 2, 3]),
    st.integers(1, 6),
)
def test_recall_is_1_where_nothing_is_missed_and_0_where_all_is(
    ranking: list[str], labels: Relevance, name: str, least: float, k: int
) -> None:
    metric = f"{name}(min_grade={least})@{k}"
    one = system(ranking, labels, metric)
    for score in one.by_query(metric).values():
        story = query_answers("q", [one], metric)
        if not story.wanted:  # nothing reaches the grade
            assert story.remarks
            assert score == 0
            continue
        missed = [passage.is_missed for passage in story.wanted]
        assert (score == 1) == (not any(missed))
        assert (score == 0) == all(missed)
