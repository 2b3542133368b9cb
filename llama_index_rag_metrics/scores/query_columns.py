"""Every query of some systems, column by column, for a page that sorts and filters them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.report import Queries, QueryAnswers, SliceKey
from llama_index_rag_metrics.scores.facet_rows import facet_remarks
from llama_index_rag_metrics.scores.systems import System, query_answers, query_text

_MOST_VALUES, _MOST_KEYS = 30, 5


def queries_of(
    systems: Sequence[System], metrics: Sequence[str], *, compared: bool = False
) -> Queries:
    """The data of every query; the first of `compared` systems is the baseline."""
    ids = _query_ids(systems)
    matchers = [tuple(_matcher(system, metric) for system in systems) for metric in metrics]
    distinct = list(dict.fromkeys(matchers))
    remarks_of = facet_remarks(systems)
    examples = [metrics[matchers.index(each)] for each in distinct]

    def answer(position: int, matcher: int) -> QueryAnswers:
        query_id = ids[position]
        answers = query_answers(query_id, systems, examples[matcher])
        return answers._replace(remarks=remarks_of(query_id))

    return Queries(
        ids=ids,
        texts=[query_text(query_id, systems) for query_id in ids],
        metrics=metrics,
        systems=[system.name for system in systems],
        compared=compared,
        scores=[[_column(system, metric, ids) for system in systems] for metric in metrics],
        failed_or_empty={
            "failed": [_positions(ids, system.scores.failed) for system in systems],
            "empty": [_positions(ids, system.scores.empty) for system in systems],
        },
        unanswerable={
            "unanswerable": _positions(ids, _without(systems, "no_relevant")),
            "unjudged": _positions(ids, _without(systems, "unjudged")),
        },
        slices=_slices(systems, ids),
        matcher_of_metric=[distinct.index(each) for each in matchers],
        lower_is_better=[lower_is_better(metric) for metric in metrics],
        answer=answer if any(system.run for system in systems) else None,
    )


def _matcher(system: System, metric: str) -> str | None:
    matched = system.matched.get(metric)
    return None if matched is None else matched.matcher


def _query_ids(systems: Sequence[System]) -> list[str]:
    known = [
        query_id
        for system in systems
        for part in (system.scores.queries, system.run, system.scores.query_ids)
        for query_id in part
    ]
    left_out = [query_id for system in systems for query_id in system.scores.excluded]
    return list(dict.fromkeys([*known, *left_out]))


def _column(system: System, metric: str, ids: Sequence[str]) -> list[float | None]:
    scores = system.by_query(metric)
    return [scores.get(query_id) for query_id in ids]


def _positions(ids: Sequence[str], chosen: Collection[str]) -> list[int]:
    members = set(chosen)
    return [position for position, query_id in enumerate(ids) if query_id in members]


def _without(systems: Sequence[System], reason: str) -> set[str]:
    """The queries that systems leave out for a reason, or score though nothing is relevant."""
    answers = {
        query_id
        for system in systems
        for query_id, why in system.scores.excluded.items()
        if why == reason
    }
    if reason == "no_relevant":
        answers.update(query_id for system in systems for query_id in system.scores.no_relevant)
    return answers


def _slices(systems: Sequence[System], ids: Sequence[str]) -> list[SliceKey]:
    """The keys of the metadata that part the queries into a few groups."""
    metadata = {
        query_id: row
        for system in reversed(systems)
        for query_id, row in system.scores.metadata.items()
    }
    keys = dict.fromkeys(key for row in metadata.values() for key in row)
    slices = []
    for key in keys:
        given = [metadata.get(query_id, {}).get(key) for query_id in ids]
        column = [None if value is None else str(value) for value in given]
        values = list(dict.fromkeys(value for value in column if value is not None))
        if 2 <= len(values) <= _MOST_VALUES:
            number = {value: position for position, value in enumerate(values)}
            of = [None if value is None else number[value] for value in column]
            slices.append(SliceKey(str(key), values, of))
    return slices[:_MOST_KEYS]
