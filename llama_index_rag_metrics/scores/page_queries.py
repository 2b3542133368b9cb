"""The data of every question, for a page."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.scores.facet_rows import facet_remarks
from llama_index_rag_metrics.scores.reading import Reading
from llama_index_rag_metrics.scores.stories import query_answers, readings_of
from llama_index_rag_metrics.scores.systems import System, query_text

_SLICE_VALUES, _SLICE_KEYS = 30, 5


def queries_of(
    systems: Sequence[System],
    metrics: Sequence[str],
    *,
    compared: bool = False,
    stages: bool = False,
) -> m.Queries:
    """The data of every query, for a page; the first of `compared` systems is the baseline."""
    known = (
        query_id
        for system in systems
        for part in (system.scores.queries, system.run, system.scores.query_ids)
        for query_id in part
    )
    left_out = (query_id for system in systems for query_id in system.scores.excluded)
    ids = list(dict.fromkeys([*known, *left_out]))
    readings = readings_of(systems, metrics)
    distinct = list(dict.fromkeys(readings))
    remarks_of = facet_remarks(systems)
    examples = [metrics[readings.index(each)] for each in distinct]
    # the first items of a ranking, which scores keep, don't say what was never retrieved
    ranked = [
        system if system.run else system._replace(scores=system.scores.replace(answers={}))
        for system in systems
    ]

    def answer(position: int, reading: int) -> m.QueryAnswers:
        query_id = ids[position]
        answers = query_answers(query_id, ranked, examples[reading], stages=stages)
        return answers._replace(remarks=[*answers.remarks, *remarks_of(query_id)])

    def positions(chosen: Collection[str]) -> list[int]:
        members = set(chosen)
        return [position for position, query_id in enumerate(ids) if query_id in members]

    def excluded(reason: str) -> list[str]:
        pairs = (pair for system in systems for pair in system.scores.excluded.items())
        return [query_id for query_id, why in pairs if why == reason]

    scored_without = [query_id for system in systems for query_id in system.scores.no_relevant]
    return m.Queries(
        ids=ids,
        texts=[query_text(query_id, systems) for query_id in ids],
        metrics=metrics,
        systems=[system.name for system in systems],
        compared=compared,
        scores=[
            [list(map(system.valid_by_query(metric).get, ids)) for system in systems]
            for metric in metrics
        ],
        failed_or_empty={
            reason: [positions(getattr(system.scores, reason)) for system in systems]
            for reason in ("failed", "empty")
        },
        unanswerable={
            "unanswerable": positions([*excluded("no_relevant"), *scored_without]),
            "unjudged": positions(excluded("unjudged")),
        },
        slices=_slices(systems, ids),
        matcher_of_metric=[distinct.index(each) for each in readings],
        lower_is_better=[lower_is_better(metric) for metric in metrics],
        answer=answer if any(system.run for system in systems) else None,
        cutoffs=[Reading.of(metric).cutoff for metric in metrics],
        stages=stages,
    )


def _slices(systems: Sequence[System], ids: Sequence[str]) -> list[m.SliceKey]:
    """The keys of the metadata that part the queries into a few groups."""
    metadata = {
        query_id: row
        for system in reversed(systems)
        for query_id, row in system.scores.metadata.items()
    }
    slices = []
    for key in dict.fromkeys(key for row in metadata.values() for key in row):
        column = [metadata.get(query_id, {}).get(key) for query_id in ids]
        texts = [None if value is None else str(value) for value in column]
        values = list(dict.fromkeys(text for text in texts if text is not None))
        if 2 <= len(values) <= _SLICE_VALUES:
            numbers: dict[str | None, int] = {value: n for n, value in enumerate(values)}
            slices.append(m.SliceKey(str(key), values, list(map(numbers.get, texts))))
    return slices[:_SLICE_KEYS]
