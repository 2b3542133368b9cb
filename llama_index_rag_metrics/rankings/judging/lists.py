"""Judging from Python lists: relevance and rankings of any number of queries → JudgedRankings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count, repeat
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike, as_relevance
from llama_index_rag_metrics.rankings.run import Ranking, ranked_ids
from llama_index_rag_metrics.runtime.containers import FloatArray, IntArray, picked
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning, warn

from .beside import SPANS, TOKENS, JudgedSpans, RankingLike, Tokenizer, ids_of, token_counts
from .judged import NO_GROUPS, JudgedGroups, JudgedRankings, grades_best_first

_Labels: TypeAlias = "RelevanceLike | None"  # None: not judged
_Places: TypeAlias = dict[str, int]  # a retrieved id to how many are above it
_POSITION_BITS = 32  # of an item's place, one number: its query, then its position


def judge(
    relevance: Sequence[_Labels],
    rankings: Sequence[RankingLike],
    needs: Collection[str] = (),
    *,
    tokenizer: Tokenizer | None = None,
    query_ids: Sequence[str] | None = None,
) -> JudgedRankings:
    """Bring relevance (None: not judged) and rankings together; metrics may need tokens, spans."""
    try:
        judged = _judge_ids(relevance, rankings)
    except InvalidInput:
        for query_id, labels, ranking in zip(query_ids or (), relevance, rankings, strict=False):
            try:
                _judge_ids([labels], [ranking])
            except InvalidInput as error:
                argument = f"{error.argument} of question {query_id!r}"
                raise InvalidInput(argument, error.value, error.expected, error.remedy) from None
        raise
    if TOKENS in needs:
        judged = replace(judged, tokens=token_counts(rankings, tokenizer, query_ids))
    if SPANS in needs:
        judged = replace(judged, spans=JudgedSpans.of(relevance, rankings, query_ids))
    return judged


def _judge_ids(relevance: Sequence[_Labels], rankings: Sequence[RankingLike]) -> JudgedRankings:
    depth: list[int] = []
    offsets = [0]
    n_items: list[int] = []
    positions: list[int] = []
    judged_grades: list[float] = []  # until the last labels that have grades
    item_grades: list[float] = []
    grouped: list[tuple[int, Relevance, list[str]]] = []
    for labels, retrieved in zip(relevance, rankings, strict=True):
        ranking = retrieved if type(retrieved) is list else ranked_ids(ids_of(retrieved))
        place_of, judged, graded = _read_ids(ranking, labels)
        if len(place_of) != len(ranking):
            ranking = list(place_of)
            place_of = _read_places(ranking)
        places = sorted([place_of[item] for item in judged if item in place_of])
        if not places:
            _check_types(judged, ranking)
        if graded is not None:
            _put(judged_grades, offsets[-1], graded.grades.values())
            _put(item_grades, len(positions), [graded.grades[ranking[place]] for place in places])
            if graded.alternatives is not None:
                grouped.append((len(depth), graded, ranking))
        positions += places
        n_items.append(len(places))
        depth.append(len(ranking))
        offsets.append(offsets[-1] + len(judged))
    query, position = np.arange(len(depth)).repeat(n_items), np.array(positions, np.int64)
    judged_grade = _fill(judged_grades, offsets[-1])
    if judged_grades:
        judged_grade = grades_best_first(judged_grade, offsets)
    return JudgedRankings(
        depth=np.array(depth, np.int64),
        item_query=query,
        item_rank=position + 1,
        item_grade=_fill(item_grades, len(position)),
        judged_grade=judged_grade,
        judged_offset=np.array(offsets, np.int64),
        groups=_groups(grouped, query, position),
    )


def _put(column: list[float], start: int, grades: Iterable[float]) -> None:
    """Put grades into a column from a position on; those before are 1, of labels without grades."""
    column += repeat(1.0, start - len(column))
    column += grades


def _fill(grades: list[float], n: int) -> FloatArray:
    column = np.empty(n)
    column.fill(1.0)
    if grades:
        column[: len(grades)] = grades
    return column


def _read_ids(ranking: list[str], labels: _Labels) -> tuple[_Places, set[str], Relevance | None]:
    """The places of the retrieved ids, the judged ids, and labels that may have grades."""
    graded: Relevance | None = None
    try:
        place_of = dict(zip(ranking, count(), strict=False))
        if type(labels) is list:
            "".join(labels)  # the quickest way to see that all are strings
            judged = set(labels)
        else:
            graded = _read_labels(labels)
            judged = set(graded.grades)
    except TypeError:  # ids that aren't all strings are rare: asking each id first costs half
        graded = _read_labels(labels)
        judged, place_of = set(graded.grades), _read_places(ranking)
    if None in place_of or "" in place_of or "" in judged:
        for rank, item in enumerate(ranking, 1):
            if item in (None, ""):
                raise InvalidInput(f"retrieved_ids, rank {rank}", item, "an id that isn't empty")
        _read_labels(labels)
    return place_of, judged, graded


_MISSES = 10  # queries in a row, judged one by one, that found nothing: their ids may not fit
_STRAY = "{n} questions in a row found no label ({label!r}, got {retrieved!r}): evaluate() says why"
_misses = [0]
_last: list[tuple[Any, Any, JudgedRankings | None]] = [(None, None, None)]
"""The last labels and ids, and what came of them: of one query, whose metrics ask one by one."""


def judge_one(
    labels: _Labels,
    ranking: Sequence[str] | None,
    needs: Collection[str] = (),
    columns: Mapping[str, Any] | None = None,
) -> JudgedRankings:
    """Judge a batch of one, remembering the last: the metrics of one query share the work."""
    if ranking is None:
        raise InvalidInput("retrieved_ids", None, "ids, [] where nothing was retrieved")
    ids = ranking if type(ranking) is list else ranked_ids(ranking)
    if needs:
        return judge([labels], [Ranking(ids, **(columns or {}))], needs)
    if type(labels) is not list and labels is not None:
        labels = as_relevance(labels)
    last_labels, last_ids, last_judged = _last[0]
    is_of_kind = type(labels) is type(last_labels)
    if last_judged is not None and is_of_kind and ids == last_ids and labels == last_labels:
        return last_judged
    judged = judge([labels], [ids])
    if labels and ids:
        _misses[0] = 0 if len(judged.item_rank) else _misses[0] + 1
        if _misses[0] == _MISSES:
            label = next(iter(as_relevance(labels)))
            warn(LabelWarning(_STRAY.format(n=_MISSES, label=label, retrieved=ids[0])))
    if isinstance(labels, Relevance):
        _last[0] = labels, [*ids], judged
    elif labels is not None and not len(judged.groups.query):  # a list in a list may change
        _last[0] = [*labels], [*ids], judged
    return judged


def _read_labels(labels: _Labels) -> Relevance:
    relevance = Relevance() if labels is None else as_relevance(labels)
    _check_types(relevance.grades)
    return relevance


def _read_places(ranking: list[str]) -> _Places:
    try:
        return dict(zip(ranking, count(), strict=False))
    except TypeError as error:
        remedy = "The id of a node is node.node_id."
        raise InvalidInput("retrieved_ids", ranking, "a list of ids", remedy) from error


def _check_types(*sides: Iterable[object]) -> None:
    kinds = id_kinds(chain(*sides))
    if len(kinds) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        remedy = "Ids compare exactly; convert one side, e.g. with str()."
        raise InvalidInput("expected_ids", names, "ids of the type of retrieved_ids", remedy)


def id_kinds(ids: Iterable[object]) -> set[type]:
    """The types of ids; all whole numbers are of one, and all texts."""
    kinds: set[type] = set()
    for type_of_id in set(map(type, ids)):
        if issubclass(type_of_id, str):
            kinds.add(str)
        else:
            kinds.add(int if issubclass(type_of_id, Integral) else type_of_id)
    return kinds


def _groups(
    grouped: Sequence[tuple[int, Relevance, list[str]]], item_query: IntArray, position: IntArray
) -> JudgedGroups:
    if not grouped:
        return NO_GROUPS
    query_of: list[int] = []
    weights: list[float] = []
    pairs: list[tuple[int, int]] = []
    members: list[tuple[int, int, float]] = []
    n_items = 0
    for query, relevance, ranking in grouped:
        groups = relevance.alternatives or ()
        place_in_all = {item: (query << _POSITION_BITS) + rank for rank, item in enumerate(ranking)}
        number = {item: n for n, item in enumerate(sorted(relevance, reverse=True), n_items)}
        n_items += len(number)
        for group_number, group in enumerate(groups, len(query_of)):
            places = sorted(picked(place_in_all, group).values())
            pairs += [(group_number, place_of_item) for place_of_item in places]
            members += [(group_number, number[item], relevance.grades[item]) for item in group]
        query_of += [query] * len(groups)
        weights += relevance.weights or ()
    pair_group, pair_place = np.array(pairs, np.int64).reshape(-1, 2).T
    member_group, member_item, member_grade = np.array(members, np.float64).reshape(-1, 3).T
    return JudgedGroups(
        np.array(query_of, np.int64),
        np.array(weights),
        pair_group,
        np.searchsorted((item_query << _POSITION_BITS) + position, pair_place),
        member_group.astype(np.int64),
        member_item.astype(np.int64),
        member_grade.copy(),
    )
