"""Matching by need: each group of alternatives is one expected item, whichever id meets it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from llama_index_rag_metrics.rankings.matching.matcher import Expected, Matcher
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.runtime.errors import InvalidInput


class GroupMatcher(Matcher[Any]):
    """The retrieved item is one of the alternatives of a group or facet: it stands for the group.

    So precision, ndcg, ap and the like count needs, not ids: the second alternative that is
    retrieved is a repetition, and an item of several groups stands for each of them. On labels that
    `move_labels` moved, these are the scores of `matcher="span"`. A group's grade is the lowest of
    its ids'; a facet that nothing is known to supply has grade 1, and is missed, but where no
    facet has any supply, nothing is relevant. Ids in no group stand for themselves.

    Raises:
        InvalidInput: a threshold other than 1 is given; ids compare exactly.

    Examples:
        >>> from llama_index_rag_metrics import RetrievalDataset, evaluate
        >>> dataset = RetrievalDataset({"q1": "x?"}, {"q1": [["n1", "n2"], ["n2"], ["n3"]]})
        >>> results = evaluate(lambda query: ["n2", "n1"], dataset, ["recall"], matcher="group")
        >>> results.scores.means["recall"]  # two of three needs
        0.6666666666666666
    """

    kind = "group"
    default = 1.0

    def __init__(self, threshold: float | None = None) -> None:
        if threshold not in (None, 1):
            sentence = "matcher 'group' has no threshold, since ids compare exactly."
            raise InvalidInput("threshold", threshold, sentence=sentence)
        super().__init__()

    def match(self, expected: Sequence[Sequence[str]], retrieved: Sequence[str]) -> list[list[int]]:
        return [[n for n, ids in enumerate(expected) if item in ids] for item in retrieved]


def expected_groups(relevance: Relevance | None) -> Expected:
    """What is expected, each group one item whose passage is its ids.

    >>> expected_groups(Relevance.groups([["a", "b"], ["c"]], {"d": 0})).passages
    (('a', 'b'), ('c',), ('d',))
    """
    if relevance is None:
        return Expected(None)
    if not relevance:  # facets that nothing is known to supply: nothing is relevant, as by ids
        return Expected.of(relevance, {item: (item,) for item in relevance.grades})
    members = relevance.alternatives or ()
    grouped = {item for ids in members for item in ids}
    rest = {item: grade for item, grade in relevance.grades.items() if item not in grouped}
    own_names = [" or ".join(map(str, ids)) for ids in members]
    names = _distinct(relevance.facet_names or own_names, rest)
    groups = dict(zip(names, members, strict=True))
    grades = {name: _grade(relevance, ids) for name, ids in groups.items()}
    needs = {name: [name] for name in groups}
    if relevance.facet_names is not None:
        weights = dict(zip(groups, relevance.weights or (), strict=True))
        judged = Relevance.facets(needs, weights=weights, grades={**grades, **rest})
    elif groups:
        judged = Relevance.groups(needs.values(), {**grades, **rest})
    else:
        judged = Relevance(rest)
    return Expected.of(judged, {**groups, **{item: (item,) for item in rest}})


def _grade(relevance: Relevance, ids: Iterable[str]) -> float:
    return min((relevance.grades[item] for item in ids), default=1.0)


def _distinct(names: Iterable[str], taken: Iterable[str]) -> Iterator[str]:
    """The names, where need be with a number that tells them from each other and what is taken."""
    seen = set(taken)
    for name in names:
        number, distinct = 1, name
        while distinct in seen:
            number += 1
            distinct = f"{name} ({number})"
        seen.add(distinct)
        yield distinct
