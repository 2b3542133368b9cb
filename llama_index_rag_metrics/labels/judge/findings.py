"""The numbers of a judge's check: grades of the same texts, compared pair by pair."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from llama_index_rag_metrics.cache import Usage
from llama_index_rag_metrics.labels.judge.agreement import judged_grades
from llama_index_rag_metrics.labels.judge.result import GradeChange, JudgeCheck, SelfPreference
from llama_index_rag_metrics.relevance import RelevanceLike
from llama_index_rag_metrics.statistics import MeanInterval, difference_intervals, mean_interval
from llama_index_rag_metrics.statistics.agreement import Kappa, cohens_kappa
from llama_index_rag_metrics.statistics.intervals import exact_mean, units_of
from llama_index_rag_metrics.text_metrics.grades import HIGHEST

Own: TypeAlias = "Collection[str] | Mapping[str, Collection[str]]"
"""Ids of texts; or query id to those of its texts."""

Pair: TypeAlias = tuple[str, int, int]
"""A query, and two grades of the same text."""


@dataclass
class Look:
    """The grades of one query's texts.

    Attributes:
        query_id: the query.
        query: its text.
        texts: id to text.
        alone: id to its grades alone.
        calls: id to (place, grade), call by call; the first two have the same order.
    """

    query_id: str
    query: str
    texts: dict[str, str]
    alone: dict[str, tuple[int, int]] = field(default_factory=dict)
    calls: list[dict[str, tuple[int, int]]] = field(default_factory=list)


def findings(
    looks: Sequence[Look],
    human: Mapping[str, RelevanceLike] | None,
    own: Own | None,
    *,
    confidence: float,
    model: str,
    texts_per_call: int,
    usage: Usage,
    notes: tuple[str, ...],
) -> JudgeCheck:
    """What looks come to; there is at least one, with a grade."""
    repeated = _change(
        [(look.query_id, *grades) for look in looks for grades in look.alone.values()], confidence
    )
    together = [
        (look.query_id, look.alone[item][0], grade)
        for look in looks
        for item, (_, grade) in (look.calls[0] if look.calls else {}).items()
    ]
    return JudgeCheck(
        model=model,
        n_queries=len(looks),
        texts_per_call=texts_per_call,
        repeated=repeated,
        repeated_together=_change_if_any(_between_calls(looks, again=True), confidence),
        moved=_change_if_any(_between_calls(looks, again=False), confidence),
        due_to_place=_due_to_place(looks, confidence),
        together=_change_if_any(together, confidence),
        places=_places(looks, confidence),
        preference=None if own is None else _preference(looks, human, own, confidence),
        kappa=None if human is None else _kappa(looks, human, confidence),
        usage=usage,
        confidence=confidence,
        notes=(*notes, *_notes(looks, human)),
    )


def _between_calls(looks: Iterable[Look], *, again: bool) -> Iterator[Pair]:
    """The grades of the first call beside those of the same again, or of those in other orders."""
    for look in looks:
        for call in look.calls[1:2] if again else look.calls[2:]:
            for item, (_, grade) in call.items():
                if item in look.calls[0]:
                    yield look.query_id, look.calls[0][item][1], grade


def _change_if_any(pairs: Iterable[Pair], confidence: float) -> GradeChange | None:
    graded = list(pairs)
    return _change(graded, confidence) if graded else None


def _change(pairs: Sequence[Pair], confidence: float) -> GradeChange:
    clusters = [query_id for query_id, *_ in pairs]
    changes = np.array([second - first for _, first, second in pairs], np.float64)
    is_changed = (changes != 0).astype(np.float64)
    return GradeChange(
        changed=mean_interval(is_changed, confidence=confidence, clusters=clusters),
        difference=_difference(changes.tolist(), clusters, HIGHEST, confidence),
        n=len(pairs),
        n_changed=int(is_changed.sum()),
    )


def _difference(
    differences: Sequence[float], clusters: Sequence[str], widest: float, confidence: float
) -> MeanInterval:
    column = np.array(differences, np.float64).reshape(-1, 1)
    units = units_of(column, clusters)
    (interval,) = difference_intervals(units, widest=widest, confidence=confidence)
    return interval


def _due_to_place(looks: Iterable[Look], confidence: float) -> MeanInterval | None:
    """Per text: share of other places with another grade, minus whether asking again gives one."""
    extra: list[float] = []
    clusters: list[str] = []
    for look in looks:
        for item, (_, grade) in (look.calls[0] if look.calls else {}).items():
            moved = [call[item][1] != grade for call in look.calls[2:] if item in call]
            if moved and item in look.calls[1]:
                extra.append(sum(moved) / len(moved) - (look.calls[1][item][1] != grade))
                clusters.append(look.query_id)
    return _difference(extra, clusters, 1.0, confidence) if extra else None


def _places(looks: Iterable[Look], confidence: float) -> dict[int, MeanInterval]:
    """Per place: grades there minus the mean grade of the same texts at other places."""
    effects: dict[int, list[tuple[str, float]]] = defaultdict(list)
    for look in looks:
        orders = look.calls[1:]
        for item in orders[0] if orders else ():
            graded = [call[item] for call in orders if item in call]
            total = sum(grade for _, grade in graded)
            for place, grade in graded if len(graded) > 1 else ():
                elsewhere = (total - grade) / (len(graded) - 1)
                effects[place].append((look.query_id, grade - elsewhere))
    return {
        place: _difference(
            [effect for _, effect in of_place],
            [query_id for query_id, _ in of_place],
            HIGHEST,
            confidence,
        )
        for place, of_place in sorted(effects.items())
    }


def _notes(looks: Sequence[Look], human: Mapping[str, RelevanceLike] | None) -> Iterator[str]:
    """Whether people's grades are on another scale than the judge's, so that no number says much.

    Nobody says what the scale is; what was graded shows where it differs.
    """
    graded = _beside_people(looks, human or {})
    if not graded:
        return
    highest, theirs = max(grade for _, grade, _ in graded), max(grade for *_, grade in graded)
    if theirs > HIGHEST or theirs <= 1 < highest:
        yield (
            f"people's grades go up to {theirs:g} and the judge's to {highest}: kappa and the "
            f"comparison with people mean something on one scale only, from 0 to {HIGHEST}"
        )


def _preference(
    looks: Iterable[Look],
    human: Mapping[str, RelevanceLike] | None,
    own: Own,
    confidence: float,
) -> SelfPreference | None:
    """None where no query has texts of both kinds."""
    by_query: list[tuple[str, list[float], list[float]]] = []
    for look in looks:
        written = own.get(look.query_id, ()) if isinstance(own, Mapping) else own
        people = judged_grades(human or {}, look.query_id)
        kinds: tuple[list[float], list[float]] = ([], [])
        for item, grades in look.alone.items():
            if human is None or item in people:
                kinds[item not in written].append(
                    exact_mean(np.array(grades)) - people.get(item, 0)
                )
        if all(kinds):
            by_query.append((look.query_id, *kinds))
    if not by_query:
        return None
    means = [[exact_mean(np.array(kind)) for kind in kinds] for _, *kinds in by_query]
    ours, theirs = (exact_mean(np.array(column)) for column in zip(*means, strict=True))
    return SelfPreference(
        difference=_difference(
            [own_mean - other_mean for own_mean, other_mean in means],
            [query_id for query_id, *_ in by_query],
            HIGHEST if human is None else 2 * HIGHEST,
            confidence,
        ),
        own=ours,
        others=theirs,
        n_own=sum(len(kind) for _, kind, _ in by_query),
        n_others=sum(len(kind) for _, _, kind in by_query),
        is_controlled=human is not None,
    )


def _beside_people(
    looks: Iterable[Look], human: Mapping[str, RelevanceLike]
) -> list[tuple[str, int, float]]:
    """Query id, first grade alone and people's grade of every text that both graded."""
    return [
        (look.query_id, grades[0], people[item])
        for look in looks
        for people in [judged_grades(human, look.query_id)]
        for item, grades in look.alone.items()
        if item in people
    ]


def _kappa(
    looks: Iterable[Look], human: Mapping[str, RelevanceLike], confidence: float
) -> Kappa | None:
    """Of first grades alone with people's; None where they graded nothing alike."""
    graded = _beside_people(looks, human)
    if not graded:
        return None
    clusters, ours, theirs = zip(*graded, strict=True)
    return cohens_kappa(
        np.array(ours, np.float64), np.array(theirs), confidence=confidence, clusters=list(clusters)
    )
