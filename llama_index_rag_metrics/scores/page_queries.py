"""The data of every question, for a page."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from llama_index_rag_metrics.files.conversations import HISTORY, by_turn
from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.scores import rows
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
    of_runs: bool = False,
) -> m.Queries:
    """The data of every query, for a page; the first of `compared` systems is the baseline."""
    known: dict[str, None] = {}
    for system in systems:
        known |= dict.fromkeys([*system.scores.queries, *system.run, *system.scores.query_ids])
    left_out = [pair for system in systems for pair in system.scores.excluded.items()]
    metadata = {key: row for system in systems for key, row in system.scores.metadata.items()}
    ids = by_turn(list(known | dict.fromkeys(query_id for query_id, _ in left_out)), metadata)
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

    unjudged = [query_id for query_id, why in left_out if why == "unjudged"]
    unanswerable = [query_id for system in systems for query_id in system.scores.unanswerable]
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
        unanswerable={"unanswerable": positions(unanswerable), "unjudged": positions(unjudged)},
        slices=_slices(systems, ids),
        matcher_of_metric=[distinct.index(each) for each in readings],
        lower_is_better=[lower_is_better(metric) for metric in metrics],
        answer=answer if any(system.run for system in systems) else None,
        cutoffs=[Reading.of(metric).cutoff for metric in metrics],
        stages=stages,
        of_runs=of_runs,
    )


def _slices(systems: Sequence[System], ids: Sequence[str]) -> list[m.SliceKey]:
    """The keys of the metadata that part the queries into a few groups."""
    metadata = {
        query_id: row
        for system in reversed(systems)
        for query_id, row in system.scores.metadata.items()
    }
    slices = []
    for key in dict.fromkeys(key for row in metadata.values() for key in row if key != HISTORY):
        column = [metadata.get(query_id, {}).get(key) for query_id in ids]
        texts = [None if value is None else str(value) for value in column]
        by_text = {str(value): value for value in column if value is not None}
        values = list(map(str, rows.ordered([*by_text.values()])))
        if 2 <= len(values) <= _SLICE_VALUES:
            numbers: dict[str | None, int] = {value: n for n, value in enumerate(values)}
            slices.append(m.SliceKey(str(key), values, list(map(numbers.get, texts))))
    return slices[:_SLICE_KEYS]
