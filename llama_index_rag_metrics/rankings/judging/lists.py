"""Judging from Python lists: relevance and rankings of any number of queries → JudgedRankings.

Here live the rules about duplicates and order: a repeated id counts at its first rank, later copies
are dropped and the ranks close up. Matching ids is nearly the whole cost of an evaluation, so
`judge` is one plain loop over local variables; order is brought into its columns at the end, all at
once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, compress, count
from numbers import Integral
from typing import Any, NamedTuple, TypeAlias, TypeGuard, TypeVar

import numpy as np

from llama_index_rag_metrics.rankings.judging.forbidden import Forbidden, judge_forbidden
from llama_index_rag_metrics.rankings.judging.judged import JudgedRankings, best_first, check_tokens
from llama_index_rag_metrics.rankings.judging.judged_spans import Ruler, SpanRows, Spans, Unit
from llama_index_rag_metrics.rankings.relevance import Groups, Relevance, RelevanceLike
from llama_index_rag_metrics.rankings.run import has_order
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.runtime.arrays import FloatArray, IntArray
from llama_index_rag_metrics.runtime.errors import (
    IdTypeMismatch,
    InvalidInput,
    NoRetrieval,
    id_remedy,
)

T = TypeVar("T")

Judgements: TypeAlias = Mapping[str, float]

_FEW = 4
"""Up to this many found items, looking each one up in the list is faster than a pass over it."""

_PLACE = 32
_POSITION = (1 << _PLACE) - 1
"""An item's place is one number: its query in the upper half, its position in the ranking below."""


def judge(
    relevance: Sequence[RelevanceLike | None],
    rankings: Sequence[Sequence[str]],
    tokens: Sequence[Sequence[int]] | None = None,
    spans: Sequence[Sequence[Span | None]] | None = None,
    ruler: Ruler | None = None,
    forbidden: Sequence[Collection[str] | None] | None = None,
) -> JudgedRankings:
    """Bring relevance and rankings together, query by query.

    Args:
        relevance: of each query: relevant ids, {id: grade}, groups, a Relevance, or None where the
            query is unjudged.
        rankings: of each query, in the same order: the retrieved ids, best first.
        tokens: of each query: how many tokens each retrieved item has; for cutoffs by tokens.
        spans: of each query: where each retrieved item is in its document; for span metrics.
        ruler: where a document's tokens end; for spans in tokens.
        forbidden: of each query: the ids that its asker may not see, or None; for leaks.

    Examples:
        >>> judge([["a", "b"]], [["b", "x", "b", "a"]]).item_rank
        array([1, 3])
    """
    _check_lengths(relevance, rankings)
    depth: list[int] = []
    n_judged: list[int] = []
    n_found: list[int] = []
    is_graded: list[bool] = []
    judged_grade: list[float] = []
    item_position: list[int] = []
    item_grade: list[float] = []
    grouped: list[tuple[int, Relevance, list[str]]] = []
    for judgements, retrieved in zip(relevance, rankings, strict=True):
        ranking = retrieved if type(retrieved) is list else _read_ranking(retrieved)
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
            # on every query (benchmarks/plain_ways.py)
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
    return _assemble(
        depth=depth,
        n_judged=n_judged,
        n_found=n_found,
        item_position=item_position,
        item_grade=_fill(item_grade, is_graded, n_found),
        judged_grade=_fill(judged_grade, is_graded, n_judged),
        grouped=grouped,
        tokens=None if tokens is None else _distinct_tokens(rankings, tokens),
        spans={} if spans is None else _spans(relevance, rankings, spans, ruler),
        forbidden=None if forbidden is None else _forbidden(relevance, rankings, forbidden),
    )


def _assemble(
    *,
    depth: list[int],
    n_judged: list[int],
    n_found: list[int],
    item_position: list[int],
    item_grade: FloatArray,
    judged_grade: FloatArray,
    grouped: list[tuple[int, Relevance, list[str]]],
    tokens: IntArray | None,
    spans: Mapping[Unit, Spans],
    forbidden: Forbidden | None,
) -> JudgedRankings:
    """Bring order into the columns: items by rank, judgements best first, groups together."""
    query_place = np.arange(len(depth)) << _PLACE
    place = np.repeat(query_place, np.array(n_found, np.int64)) + np.array(item_position, np.int64)
    order = np.argsort(place)
    place = place[order]
    groups = _Groups.of(grouped)
    return JudgedRankings(
        depth=np.array(depth, np.int64),
        item_query=place >> _PLACE,
        item_rank=(place & _POSITION) + 1,
        item_grade=item_grade[order],
        judged_grade=best_first(judged_grade, n_judged),
        judged_offset=np.cumsum([0, *n_judged]),
        group_query=groups.query,
        group_weight=groups.weight,
        group_name=groups.name,
        pair_group=groups.pair_group,
        pair_item=np.searchsorted(place, groups.pair_place),
        member_group=groups.member_group,
        member_item=groups.member_item,
        member_grade=groups.member_grade,
        tokens=tokens,
        spans=spans,
        forbidden=forbidden,
    )


def _distinct_tokens(
    rankings: Sequence[Sequence[str]], tokens: Sequence[Sequence[int]]
) -> IntArray:
    """The tokens of every item that is left when copies are dropped, which cost nothing."""
    distinct: list[int] = []
    for ranking, counts in zip(rankings, tokens, strict=True):
        distinct += _first_of_each("tokens", ranking, counts)
    return check_tokens(np.array(distinct, np.int64) if distinct else np.zeros(0, np.int64))


def _spans(
    relevance: Sequence[RelevanceLike | None],
    rankings: Sequence[Sequence[str]],
    spans: Sequence[Sequence[Span | None]],
    ruler: Ruler | None,
) -> Mapping[Unit, Spans]:
    """The expected and the retrieved spans, copies of items left out."""
    rows = SpanRows()
    for query, (judgements, ranking, places) in enumerate(
        zip(relevance, rankings, spans, strict=True)
    ):
        retrieved = enumerate(_first_of_each("spans", ranking, places), 1)
        judged = Relevance() if judgements is None else Relevance.of(judgements)
        rows.add(query, judged.spans, judged.grades, retrieved)
    return rows.by_unit(ruler)


def _forbidden(
    relevance: Sequence[RelevanceLike | None],
    rankings: Sequence[Sequence[str]],
    forbidden: Sequence[Collection[str] | None],
) -> Forbidden:
    grades = (_read_judgements(judgements)[0] for judgements in relevance)
    return judge_forbidden(forbidden, rankings, grades)


def _first_of_each(argument: str, ranking: Sequence[str], values: Sequence[T]) -> Iterable[T]:
    """What belongs to the items of a ranking that are left when copies are dropped."""
    if len(ranking) != len(values):
        expected = f"one for each of the {len(ranking)} retrieved ids"
        raise InvalidInput(argument, len(values), expected)
    first: dict[str, T] = {}
    for item, value in zip(ranking, values, strict=True):
        first.setdefault(item, value)
    return first.values()


def judge_one(
    relevance: RelevanceLike | None,
    ranking: Sequence[str] | None,
    tokens: Sequence[int] | None = None,
    spans: Sequence[Span | None] | None = None,
    forbidden: Collection[str] | None = None,
) -> JudgedRankings:
    """Judge a batch of one, remembering the last few: the metrics of one query share the work."""
    if ranking is None:
        raise NoRetrieval("retrieved_ids")
    retrieved = ranking if type(ranking) is list else _read_ranking(ranking)
    judgements = relevance if relevance is None or _is_plain(relevance) else Relevance.of(relevance)
    if spans is not None or forbidden is not None:
        return judge(
            [judgements],
            [retrieved],
            None if tokens is None else [tokens],
            None if spans is None else [spans],
            forbidden=None if forbidden is None else [forbidden],
        )
    try:
        counts = None if tokens is None else tuple(tokens)
        return _judge_remembered(*_key(judgements), tuple(retrieved), counts)
    except TypeError:
        # an id that can't be hashed can't be remembered either: judging says which one it is
        return judge([judgements], [retrieved], None if tokens is None else [tokens])


@lru_cache(maxsize=8)
def _judge_remembered(
    ids: tuple[str, ...] | None,
    grades: tuple[float, ...] | None,
    alternatives: Groups | None,
    weights: tuple[float, ...] | None,
    names: tuple[str, ...] | None,
    ranking: tuple[str, ...],
    tokens: tuple[int, ...] | None,
) -> JudgedRankings:
    relevance: RelevanceLike | None = None
    by_item = None if grades is None or ids is None else dict(zip(ids, grades, strict=True))
    if names is not None and alternatives is not None and weights is not None:
        facets = dict(zip(names, alternatives, strict=True))
        weighted = dict(zip(names, weights, strict=True))
        relevance = Relevance.facets(facets, weights=weighted, grades=by_item)
    elif alternatives is not None:
        relevance = Relevance.groups(alternatives, grades=by_item)
    elif ids is not None:
        relevance = list(ids) if grades is None else dict(zip(ids, grades, strict=True))
    return judge([relevance], [list(ranking)], None if tokens is None else [tokens])


def _key(
    relevance: Relevance | list[str] | None,
) -> tuple[
    tuple[str, ...] | None,
    tuple[float, ...] | None,
    Groups | None,
    tuple[float, ...] | None,
    tuple[str, ...] | None,
]:
    if relevance is None:
        return None, None, None, None, None
    if isinstance(relevance, Relevance):
        grades, groups = relevance.grades, relevance.alternatives
        weights, names = relevance.weights, relevance.facet_names
        return tuple(grades), tuple(grades.values()), groups, weights, names
    return tuple(relevance), None, None, None, None


def _is_plain(relevance: RelevanceLike | None) -> TypeGuard[list[str]]:
    """Whether this is a list of str and of nothing else: joining them is the quickest test."""
    if type(relevance) is not list or not relevance:
        return False
    try:
        "".join(relevance)
    except TypeError:
        return False
    return True


def _read_judgements(judgements: RelevanceLike | None) -> tuple[Judgements, Relevance | None]:
    """The judgements, and the relevance where it has groups."""
    if judgements is None:
        return {}, None
    relevance = Relevance.of(judgements)
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
    """The members of the ranking, the judgements and the groups, in any form."""
    judgements, groups = _read_judgements(relevance)
    try:
        return set(ranking), judgements, groups
    except TypeError as error:
        remedy = next(filter(None, map(id_remedy, ranking)), "")
        raise InvalidInput("retrieved_ids", ranking, "a list of ids", remedy) from error


def _check_lengths(relevance: Sequence[object], rankings: Sequence[object]) -> None:
    if len(relevance) != len(rankings):
        expected = f"one ranking for each of {len(relevance)} relevances"
        raise InvalidInput("rankings", len(rankings), expected)


def _check_types(*sides: Iterable[object]) -> None:
    """Ids of different types could never match: 1 is never "1"."""
    types = set(map(type, chain(*sides)))
    kinds = {
        next((kind for kind in (str, Integral) if issubclass(type_, kind)), type_)
        for type_ in types
    }
    if len(kinds) > 1:
        raise IdTypeMismatch(type_.__name__ for type_ in types)


def _fill(grades: list[float], is_graded: list[bool], counts: list[int]) -> FloatArray:
    """The grades of all queries: those given, and 1 where a query has plain ids."""
    grade = np.ones(sum(counts))
    if grades:
        grade[np.repeat(is_graded, counts)] = grades
    return grade


class _Groups(NamedTuple):
    """The groups of a batch, as `JudgedRankings` holds them; places instead of items."""

    query: IntArray
    weight: FloatArray
    name: list[str]
    pair_group: IntArray
    pair_place: IntArray
    member_group: IntArray
    member_item: IntArray
    member_grade: FloatArray

    @classmethod
    def of(cls, grouped: Sequence[tuple[int, Relevance, list[str]]]) -> _Groups:
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
        columns = *_columns(pairs), *_columns(members), np.array(member_grade, np.float64)
        return cls(np.array(query, np.int64), np.array(weight), name, *columns)


def _columns(pairs: list[tuple[int, int]]) -> tuple[IntArray, IntArray]:
    first, second = np.array(pairs, np.int64).reshape(-1, 2).T
    return first, second
