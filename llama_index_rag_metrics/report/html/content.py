"""What the page shows of every query: scores for the table, rankings for who unfolds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llama_index_rag_metrics.relevance import Relevance
from llama_index_rag_metrics.report.html.store import Texts
from llama_index_rag_metrics.report.plots import Drawn
from llama_index_rag_metrics.report.summary import System
from llama_index_rag_metrics.run import Ranking

_QUERIES_PER_CHUNK = 200
_DIGITS = 4
_MOST_VALUES, _MOST_KEYS = 30, 5


@dataclass
class Content:
    """The data of the page.

    Attributes:
        index: what the table of queries needs, column by column.
        rankings: chunks of queries, each with the ranking of every system.
        texts: the texts that the rankings point to.
    """

    index: dict[str, Any]
    rankings: list[list[Any]]
    texts: Texts = field(repr=False)


def content_of(drawn: Drawn, metric: str, cut: int | None) -> Content:
    """Gather what the page shows.

    Args:
        drawn: the systems, the baseline first if there is one.
        metric: the metric that the table shows first.
        cut: how many characters of a text are kept; None for all.
    """
    texts = Texts(cut)
    systems = drawn.systems
    query_ids = _query_ids(drawn)
    has_rankings = any(one.results is not None for one in systems)
    rows = [_query(one, systems, texts) for one in query_ids] if has_rankings else []
    index = {
        "systems": [one.name for one in systems],
        "compared": drawn.comparison is not None,
        "metrics": list(drawn.metric_names),
        "shown": list(drawn.metric_names).index(metric),
        "ids": [str(one) for one in query_ids],
        "queries": [_text(one, systems) for one in query_ids],
        "scores": _scores(drawn, query_ids),
        "failed": [_positions(query_ids, one.scores.failed) for one in systems],
        "empty": [_positions(query_ids, one.scores.empty) for one in systems],
        "unanswerable": _positions(query_ids, _without(systems, "no_relevant")),
        "unjudged": _positions(query_ids, _without(systems, "unjudged")),
        "slices": _slices(systems, query_ids),
        "perChunk": _QUERIES_PER_CHUNK,
        "textStarts": list(texts.starts),
    }
    chunks = [
        rows[start : start + _QUERIES_PER_CHUNK]
        for start in range(0, len(rows), _QUERIES_PER_CHUNK)
    ]
    return Content(index, chunks, texts)


def grades_by_position(system: System, query_id: str) -> list[float | None]:
    """The grade of each retrieved item, None where it isn't judged, as the matcher sees them."""
    ranking = system.run.get(query_id, Ranking())
    grades = system.relevance.get(query_id, Relevance()).grades
    stands_for: Sequence[Sequence[str]] = [[one] for one in ranking.ids]
    if system.results is not None and system.results.matched:
        matched = next(iter(system.results.matched.values()))
        stands_for = matched.stands_for.get(query_id, stands_for)
    return [
        max((grades[one] for one in items if one in grades), default=None) for items in stands_for
    ]


def _query_ids(drawn: Drawn) -> list[str]:
    """All queries of all systems, those compared first, or in the order of the first system."""
    known = [
        one
        for system in drawn.systems
        for part in (system.scores.queries, system.run, system.scores.query_ids)
        for one in part
    ]
    left_out = [one for system in drawn.systems for one in system.scores.excluded]
    return list(dict.fromkeys([*known, *left_out]))


def _query(query_id: str, systems: Sequence[System], texts: Texts) -> list[Any]:
    """[wanted, answers]: what is relevant as [[id, grade], …], and what each system gave."""
    judged = (one.relevance[query_id].grades for one in systems if query_id in one.relevance)
    grades: Mapping[str, float] = next(judged, {})
    best_first = sorted((one for one in grades if grades[one] > 0), key=lambda one: -grades[one])
    wanted = [[str(one), grades[one]] for one in best_first]
    return [wanted, [_answer(one, query_id, texts) for one in systems]]


def _answer(system: System, query_id: str, texts: Texts) -> Any:
    """[ids, grades, texts, latency, error]; None where the system knows no ranking."""
    ranking = system.run.get(query_id)
    if ranking is None:
        return None
    return [
        [str(one) for one in ranking.ids],
        grades_by_position(system, query_id),
        [texts.add(one) if one else None for one in ranking.texts or ()],
        None if ranking.latency is None else round(ranking.latency, 6),
        ranking.error,
    ]


def _text(query_id: str, systems: Sequence[System]) -> str:
    found = (one.scores.queries.get(query_id) for one in systems)
    return next(filter(None, found), "")


def _scores(drawn: Drawn, query_ids: Sequence[str]) -> list[list[list[float | None]]]:
    """Metric by system by query."""
    columns = []
    for metric in drawn.metric_names:
        by_system = []
        for one in drawn.systems:
            scores = one.scores.by_query(metric) if metric in one.scores else {}
            by_system.append([_rounded(scores.get(query_id)) for query_id in query_ids])
        columns.append(by_system)
    return columns


def _rounded(score: float | None) -> float | None:
    return None if score is None else round(score, _DIGITS)


def _positions(query_ids: Sequence[str], wanted: Any) -> list[int]:
    chosen = set(wanted)
    return [at for at, one in enumerate(query_ids) if one in chosen]


def _without(systems: Sequence[System], reason: str) -> set[str]:
    """The queries that systems leave out for a reason, or score though nothing is relevant."""
    found = {
        query_id
        for one in systems
        for query_id, why in one.scores.excluded.items()
        if why == reason
    }
    if reason == "no_relevant":
        found.update(query_id for one in systems for query_id in one.scores.no_relevant)
    return found


def _slices(systems: Sequence[System], query_ids: Sequence[str]) -> list[dict[str, Any]]:
    """The keys of the metadata that part the queries into a few groups, with each query's value."""
    metadata = {
        query_id: row for one in reversed(systems) for query_id, row in one.scores.metadata.items()
    }
    keys = dict.fromkeys(key for row in metadata.values() for key in row)
    found = []
    for key in keys:
        column = [_value(metadata.get(one, {}).get(key)) for one in query_ids]
        values = list(dict.fromkeys(one for one in column if one is not None))
        if 2 <= len(values) <= _MOST_VALUES:
            number = {value: at for at, value in enumerate(values)}
            positions = [None if one is None else number[one] for one in column]
            found.append({"key": str(key), "values": values, "of": positions})
    return found[:_MOST_KEYS]


def _value(value: Any) -> str | None:
    return None if value is None else str(value)
