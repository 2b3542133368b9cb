"""Judging from Python lists: relevance and rankings of any number of queries → JudgedRankings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, compress, count
from numbers import Integral
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike, as_relevance
from llama_index_rag_metrics.rankings.run import Ranking, has_order
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.rankings.tokens import TokenCounter, Tokenizer
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import InvalidInput, mixed_id_types

from .beside import SPANS, TOKENS, JudgedSpans, RankingLike, ids_of, token_counts
from .judged import JudgedRankings, grades_best_first

Judgements: TypeAlias = Mapping[str, float]

_FEW = 4
"""Up to this many found items, looking each one up in the list is faster than a pass over it."""

_PLACE = 32
_POSITION = (1 << _PLACE) - 1
"""An item's place is one number: its query in the upper half, its position in the ranking below."""


def judge(
    relevance: Sequence[RelevanceLike | None],
    rankings: Sequence[RankingLike],
    needs: Collection[str] = (),
    *,
    tokenizer: Tokenizer | TokenCounter | None = None,
    query_ids: Sequence[str] | None = None,
) -> JudgedRankings:
    """Bring relevance and rankings together, query by query.

    Args:
        relevance: what is relevant to each query, or None where it isn't judged.
        rankings: ids, best first, or a `Ranking`, of each query.
        needs: what metrics read beside ids: "tokens", "spans".
        tokenizer: counts the tokens of texts where a ranking has none.
        query_ids: for errors.
    """
    if len(relevance) != len(rankings):
        expected = f"one ranking for each of {len(relevance)} relevances"
        raise InvalidInput("rankings", len(rankings), expected)
    judged = _judge_ids(relevance, rankings)
    if TOKENS in needs:
        judged = replace(judged, tokens=token_counts(rankings, tokenizer, query_ids))
    if SPANS in needs:
        judged = replace(judged, spans=JudgedSpans.of(relevance, rankings, query_ids))
    return judged


def _judge_ids(
    relevance: Sequence[RelevanceLike | None], rankings: Sequence[RankingLike]
) -> JudgedRankings:
    depth: list[int] = []
    n_judged: list[int] = []
    n_found: list[int] = []
    is_graded: list[bool] = []
    judged_grade: list[float] = []
    item_position: list[int] = []
    item_grade: list[float] = []
    grouped: list[tuple[int, Relevance, list[str]]] = []
    for judgements, retrieved in zip(relevance, rankings, strict=True):
        ranking = retrieved if type(retrieved) is list else _read_ranking(ids_of(retrieved))
        grades = groups = None
        try:
            members = set(ranking)
            if type(judgements) is list:
                "".join(judgements)  # the quickest way to see that all are strings
                judged = set(judgements)
            else:
                grades, groups = _read_judgements(judgements)
                judged = set(grades)
        except TypeError:
            # ids that aren't all strings are rare: asking each id first takes half as long again
            # on every query
            members, grades, groups = _read_both(judgements, ranking)
            judged = set(grades)
        if None in members:
            raise InvalidInput("retrieved_ids", ranking, "a list of ids, without None")
        if len(members) != len(ranking):
            ranking = list(dict.fromkeys(ranking))
        retrieved_and_judged: Collection[str] = members & judged
        depth.append(len(ranking))
        n_judged.append(len(judged))
        n_found.append(len(retrieved_and_judged))
        if not retrieved_and_judged:
            _check_types(judged, ranking)
        elif len(retrieved_and_judged) <= _FEW:
            for item in retrieved_and_judged:
                item_position.append(ranking.index(item))
        else:
            positions = list(compress(count(), map(retrieved_and_judged.__contains__, ranking)))
            retrieved_and_judged = [ranking[position] for position in positions]
            item_position += positions
        is_graded.append(grades is not None)
        if grades is not None:
            judged_grade += grades.values()
            item_grade += [grades[item] for item in retrieved_and_judged]
        if groups is not None:
            grouped.append((len(depth) - 1, groups, ranking))
    item_grades = _fill(item_grade, is_graded, n_found)
    judged_grades = _fill(judged_grade, is_graded, n_judged)
    query_place = np.arange(len(depth)) << _PLACE
    place = np.repeat(query_place, np.array(n_found, np.int64)) + np.array(item_position, np.int64)
    order = np.argsort(place)
    place = place[order]
    return JudgedRankings(
        depth=np.array(depth, np.int64),
        item_query=place >> _PLACE,
        item_rank=(place & _POSITION) + 1,
        item_grade=item_grades[order],
        judged_grade=grades_best_first(judged_grades, n_judged),
        judged_offset=np.cumsum([0, *n_judged]),
        **_groups(grouped, place),
    )


def judge_one(
    relevance: RelevanceLike | None,
    ranking: Sequence[str] | None,
    tokens: Sequence[int] | None = None,
    spans: Sequence[Span | None] | None = None,
) -> JudgedRankings:
    """Judge a batch of one, remembering the last few: the metrics of one query share the work."""
    if ranking is None:
        raise InvalidInput("retrieved_ids", None, "ids, [] where nothing was retrieved")
    ids = ranking if type(ranking) is list else _read_ranking(ranking)
    judgements = relevance
    if judgements is not None and not _is_plain(judgements):
        judgements = as_relevance(judgements)
    columns = {TOKENS: tokens, SPANS: spans}
    needs = [name for name, values in columns.items() if values is not None]
    if needs:
        return judge([judgements], [Ranking(ids, tokens=tokens, spans=spans)], needs)
    key: Any = judgements and tuple(judgements)
    if isinstance(judgements, Relevance):
        grades, groups = tuple(judgements.grades.items()), judgements.alternatives
        key = grades, groups, judgements.weights, judgements.facet_names
    case = _Case((key, tuple(ids)))
    case.relevance, case.ids = judgements, ids
    try:
        return _judge_remembered(case)
    except TypeError:
        # an id that can't be hashed can't be remembered either: judging says which one it is
        return judge([judgements], [ids])


class _Case(tuple[object, ...]):
    """What tells cases apart, as a tuple: hashed and compared without Python code."""

    relevance: RelevanceLike | None
    ids: Sequence[str]


@lru_cache(maxsize=8)
def _judge_remembered(case: _Case) -> JudgedRankings:
    return judge([case.relevance], [case.ids])


def _is_plain(relevance: RelevanceLike | None) -> TypeGuard[list[str]]:
    return type(relevance) is list and bool(relevance) and _are_texts(relevance)


def _are_texts(ids: Iterable[Any]) -> bool:
    try:
        "".join(ids)
    except TypeError:
        return False
    return True


def _read_judgements(judgements: RelevanceLike | None) -> tuple[Judgements, Relevance | None]:
    if judgements is None:
        return {}, None
    relevance = as_relevance(judgements)
    _check_types(relevance.grades)
    return relevance.grades, None if relevance.alternatives is None else relevance


def _read_ranking(ranking: Any) -> list[str]:
    if not has_order(ranking):
        remedy = "Write one id as ['id']." if isinstance(ranking, str) else ""
        if isinstance(ranking, Mapping):
            remedy = "read_run({query id: {id: score}}) orders ids by their scores."
        raise InvalidInput("retrieved_ids", ranking, "a list of ids, best first", remedy)
    return list(ranking)


def _read_both(
    relevance: RelevanceLike | None, ranking: list[str]
) -> tuple[set[str], Judgements, Relevance | None]:
    judgements, groups = _read_judgements(relevance)
    try:
        return set(ranking), judgements, groups
    except TypeError as error:
        remedy = "The id of a node is node.node_id."
        raise InvalidInput("retrieved_ids", ranking, "a list of ids", remedy) from error


def _check_types(*sides: Iterable[object]) -> None:
    """Ids of different types could never match: 1 is never "1"."""
    if all(map(_are_texts, sides)):
        return
    if len(id_kinds(chain(*sides))) > 1:
        raise mixed_id_types({type(item).__name__ for item in chain(*sides)})


def id_kinds(ids: Iterable[object]) -> set[type]:
    """The types of ids; all whole numbers are of one, and all texts."""
    return {
        next((kind for kind in (str, Integral) if issubclass(type_, kind)), type_)
        for type_ in set(map(type, ids))
    }


def _fill(grades: list[float], is_graded: list[bool], counts: list[int]) -> FloatArray:
    """The grades of all queries: those given, and 1 where a query has plain ids."""
    grade = np.ones(sum(counts))
    if grades:
        grade[np.repeat(is_graded, counts)] = grades
    return grade


def _groups(grouped: Sequence[tuple[int, Relevance, list[str]]], place: IntArray) -> dict[str, Any]:
    """The groups of a batch, as fields of `JudgedRankings`; `place` holds those of its items."""
    if not grouped:
        return {}
    query: list[int] = []
    weight: list[float] = []
    name: list[str] = []
    pairs: list[tuple[int, int]] = []
    members: list[tuple[int, int]] = []
    member_grade: list[float] = []
    n_items = 0
    for query_number, relevance, ranking in grouped:
        position = {item: rank for rank, item in enumerate(ranking)}
        number = {item: n for n, item in enumerate(sorted(relevance, reverse=True), n_items)}
        n_items += len(number)
        for group in relevance.alternatives or ():
            retrieved = sorted(position[item] for item in group if item in position)
            pairs += [(len(query), (query_number << _PLACE) + rank) for rank in retrieved]
            members += [(len(query), number[item]) for item in group]
            member_grade += [relevance.grades[item] for item in group]
            query.append(query_number)
        weight += relevance.weights or ()
        name += relevance.facet_names or [""] * len(relevance.alternatives or ())
    pair_group, pair_place = np.array(pairs, np.int64).reshape(-1, 2).T
    member_group, member_item = np.array(members, np.int64).reshape(-1, 2).T
    return {
        "group_query": np.array(query, np.int64),
        "group_weight": np.array(weight),
        "group_name": name,
        "pair_group": pair_group,
        "pair_item": np.searchsorted(place, pair_place),
        "member_group": member_group,
        "member_item": member_item,
        "member_grade": np.array(member_grade, np.float64),
    }
