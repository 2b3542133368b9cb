"""Span metrics against sets: every character of every document is an element."""

import copy
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.spans import SPAN_NAMES, by_sets, questions

from llama_index_rag_metrics import Ranking, Relevance, Span, metric, score_rankings
from llama_index_rag_metrics.runtime.errors import InvalidInput


def n_fitting(ranking: Ranking, budget: int) -> int:
    cost = dict(zip(ranking.ids, ranking.tokens or (), strict=True))
    spent = np.cumsum([cost[item] for item in dict.fromkeys(ranking.ids)])
    return int((spent <= budget).sum())


@pytest.mark.slow
@pytest.mark.parametrize("name", SPAN_NAMES)
@given(
    batch=st.lists(questions(), min_size=1, max_size=4),
    k=st.none() | st.integers(1, 6),
    min_grade=st.sampled_from([1.0, 2.0]),
)
@examples(250)
def test_spans_as_sets(
    name: str, batch: list[tuple[Relevance, Ranking]], k: int | None, min_grade: float
) -> None:
    relevance, rankings = map(list, zip(*batch, strict=True))
    chosen = metric(f"{name}(min_grade={min_grade})" + (f"@{k}" if k else ""))
    scores = score_rankings(relevance, rankings, chosen, no_relevant="zero")
    expected = [by_sets(name, *question, k, min_grade) for question in batch]
    assert scores[chosen.metric_name].tolist() == pytest.approx(expected, rel=0, abs=1e-12)


@pytest.mark.parametrize("name", SPAN_NAMES)
@given(question=questions(), budget=st.integers(1, 30))
@examples(150)
def test_within_tokens(name: str, question: tuple[Relevance, Ranking], budget: int) -> None:
    relevance, ranking = question
    names = [f"{name}@{budget}tokens", f"{name}@1000000tokens", name]
    scores = score_rankings([relevance], [ranking], names, no_relevant="zero")
    fits = n_fitting(ranking, budget)
    expected = by_sets(name, relevance, ranking, fits, 1.0) if fits else 0.0
    assert scores[names[0]].tolist() == pytest.approx([expected], rel=0, abs=1e-12)
    assert scores[names[1]].tobytes() == scores[name].tobytes()


@pytest.mark.parametrize("name", SPAN_NAMES)
@given(question=questions(), cut=st.integers(1, 11))
@examples(100)
def test_cuts_change_nothing(name: str, question: tuple[Relevance, Ranking], cut: int) -> None:
    relevance, ranking = question
    halves: list[tuple[str, Span | None]] = []
    for item, span in zip(ranking.ids, ranking.spans or (), strict=True):
        if span is None or span.start + cut >= span.end:
            halves.append((item, span))
        else:
            middle = span.start + cut
            halves.append((f"{item} 1", Span(span.source, span.start, middle)))
            halves.append((f"{item} 2", Span(span.source, middle, span.end)))
    parted = Ranking([item for item, _ in halves], spans=[span for _, span in halves])
    whole, in_two = (
        score_rankings([relevance], [retrieved], name, no_relevant="zero")
        for retrieved in (ranking, parted)
    )
    assert in_two[name].tolist() == whole[name].tolist()


def test_alone_and_in_a_batch() -> None:
    rng = np.random.default_rng(5)
    batch = []
    for _ in range(40):
        starts = rng.integers(0, 900, 8).tolist()
        spans = [Span(f"d{number % 3}", start, start + 60) for number, start in enumerate(starts)]
        batch.append((Relevance(spans=spans[:3]), Ranking(list("abcde"), spans=spans[3:])))
    relevance, rankings = map(list, zip(*batch, strict=True))
    together = score_rankings(relevance, rankings, SPAN_NAMES)
    for number, (judged, ranking) in enumerate(batch):
        alone = score_rankings([judged], [ranking], SPAN_NAMES)
        assert [alone[name][0] for name in SPAN_NAMES] == [
            together[name][number] for name in SPAN_NAMES
        ]


PLACES = {"p": ("moons.txt", 3, 9), "other": ("x", 0, 1)}
PLACED = Relevance(Relevance({"p": 2, "q": 0}), spans=PLACES)


@pytest.mark.parametrize(
    "again",
    [
        copy.deepcopy(PLACED),
        pickle.loads(pickle.dumps(PLACED)),
        Relevance(json.loads(json.dumps(PLACED.to_plain()))),
        Relevance(PLACED),
        eval(repr(PLACED)),
    ],
    ids=["copy", "pickle", "plain", "made of it", "repr"],
)
def test_places_stay(again: Relevance) -> None:
    assert again == PLACED
    assert dict(again.spans or {}) == {"p": Span("moons.txt", 3, 9)}
    assert again.grades == {"p": 2, "q": 0}


def test_facets_with_places() -> None:
    hops = Relevance(facets={"hop 1": ["p"]}, spans={"p": ("moons.txt", 3, 9)})
    assert Relevance(hops.to_plain()) == hops
    assert hops.facet_names == ("hop 1",)


def test_error_names_the_spans_that_are_missing() -> None:
    with pytest.raises(InvalidInput, match="the spans of what was retrieved"):
        score_rankings([PLACED], [["a"]], "span_recall")
    with pytest.raises(InvalidInput, match=r"Relevance\(spans="):
        score_rankings([["p"]], [Ranking(["a"], spans=[Span("m", 0, 1)])], "span_recall")
    with pytest.raises(InvalidInput, match="the spans of what was retrieved"):
        metric("span_recall").compute("", ["p"], ["a"])
    with pytest.raises(InvalidInput, match="grades"):
        Relevance(spans=[("m", 0, 1)], grades=[1, 2])
    with pytest.raises(InvalidInput, match=r"grades of 'm\[0:1\]': expected one grade"):
        Relevance(spans=[("m", 0, 1), ("m", 0, 1)], grades=[1, 2])
    with pytest.raises(InvalidInput, match="passage 1"):
        Relevance(spans=[("m", 5, 5)])


def test_place_given_twice_is_one_passage() -> None:
    twice = Relevance(spans=[("m", 0, 5), ("n", 0, 5), ("m", 0, 5)], grades=[2, 1, 2])
    assert twice == Relevance(spans=[("m", 0, 5), ("n", 0, 5)], grades=[2, 1])
