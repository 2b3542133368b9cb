"""A question's story tells what its metric scored: inputs on which it didn't, and a property."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_index_rag_metrics import (
    Ranking,
    Relevance,
    RetrievalDataset,
    Run,
    Scores,
    match_run,
    score_rankings,
)
from llama_index_rag_metrics.rankings.matching.matched import Matched
from llama_index_rag_metrics.rankings.run import Call
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report.model import QueryAnswers
from llama_index_rag_metrics.scores.retrieval import Retrieval
from llama_index_rag_metrics.stories.label_view import System
from llama_index_rag_metrics.stories.story import query_answers
from llama_index_rag_metrics.stories.whereabouts import losses

IO = "Io is the most volcanic moon of Jupiter and has hundreds of volcanoes."
GEYSERS = "Enceladus has geysers which come from an ocean under the ice of it."
TITAN = "Titan has lakes of methane and a thick atmosphere of nitrogen gas."


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


def stored_of(live: System) -> System:
    scores = live.scores.replace(retrieval=live.retrieval)
    return System.of(Scores.from_json(scores.to_json()), "stored")


def told(ranking: Ranking | Sequence[str], labels: Relevance, metric: str) -> list[str]:
    return lines(query_answers("q", [system(ranking, labels, metric)], metric))


def lines(story: QueryAnswers) -> list[str]:
    return list(map(str, story.wanted))


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


def test_groups_are_met_once_where_the_metric_has_groups() -> None:
    labels = Relevance(groups=[["a1", "a2"], ["b"]])
    met = ["a1 [1] or a2 [1]: rank 1", "b [1]: rank 2"]
    assert told(["a1", "b"], labels, "group_recall@5") == met
    # recall is 2/3: a2 is missed
    assert told(["a1", "b"], labels, "recall@5")[0] == "a2 [1]: never retrieved"


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
    # c1 overlaps the first; no id is that of a label
    spans = [Span("doc", 50, 220), Span("doc", 800, 900)]
    live = system(Ranking(["c1", "c2"], spans=spans), labels, *metrics)
    stored = stored_of(live)
    found = {
        "recall@5": ["never retrieved"] * 2,
        "span_recall": ["never retrieved", "rank 1 as c1"],
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
