"""The numbers of a report, rounded: the rows that the terminal and the notebook set as tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from llama_index_rag_metrics.errors import InvalidInput, UnknownMetric
from llama_index_rag_metrics.evaluation import EvaluationResults, Matched
from llama_index_rag_metrics.relevance import Relevance
from llama_index_rag_metrics.run import Run, Span
from llama_index_rag_metrics.scores import Scores

Reported: TypeAlias = EvaluationResults | Scores
"""What a report takes for one retriever."""

Tone: TypeAlias = Literal["normal", "best", "quiet", "alarm"]

NO_VALUE = "–"
_MOST_TEXT = 300
_MOST_PASSAGE = 60

_COUNTS: Mapping[str, Tone] = {
    "queries": "normal",
    "scored": "normal",
    "no relevant": "normal",
    "unjudged": "normal",
    "empty": "alarm",
    "failed": "alarm",
}
"""The counts in the order of reports, and their tone when they aren't 0."""


_USAGE = {
    "requests sent": "requests",
    "texts asked": "fresh",
    "texts cached": "cached",
    "units billed": "units",
}


class System(NamedTuple):
    """One retriever of a report: its scores, and its run and the relevance where they are known.

    Attributes:
        matched: metric name to what its matcher made of the run, of metrics that don't compare ids.
    """

    name: str
    scores: Scores
    run: Run
    relevance: Mapping[str, Relevance]
    matched: Mapping[str, Matched]
    results: EvaluationResults | None = None


class Cell(NamedTuple):
    """A value as it is shown."""

    text: str
    tone: Tone = "normal"


class Row(NamedTuple):
    """One line of a table: a label, and a cell a system."""

    label: str
    cells: Sequence[Cell]


class Answer(NamedTuple):
    """What one system gave for one query."""

    system: str
    score: Cell
    first: str


class Question(NamedTuple):
    """A query with what was wanted and what each system gave."""

    query_id: str
    text: str
    wanted: str
    answers: Sequence[Answer]


def systems_of(reported: Reported | Sequence[Reported]) -> list[System]:
    """The systems of a report, each with a name to show."""
    given = [reported] if isinstance(reported, (EvaluationResults, Scores)) else list(reported)
    if not given:
        raise InvalidInput("results", given, "the results of at least one retriever")
    systems = []
    for at, one in enumerate(given, 1):
        scores = one if isinstance(one, Scores) else one.scores
        unnamed = "score" if len(given) == 1 else f"system {at}"
        systems.append(system_of(plain(scores.name) or unnamed, one))
    return systems


def system_of(name: str, reported: Reported) -> System:
    """One system of a report, called by this name."""
    if isinstance(reported, Scores):
        return System(name, reported, Run(), {}, {})
    matched = {metric: reported.matched[way] for metric, way in reported.matched_by.items()}
    return System(name, reported.scores, reported.run, reported.relevance, matched, reported)


def sections(systems: Sequence[System]) -> list[list[Row]]:
    """The summary: means, counts, and where there were any, latency and what was asked for."""
    parts = (_means(systems), count_rows(systems), _latencies(systems), _usage(systems))
    return [rows for part in parts if (rows := list(part))]


def count_rows(systems: Sequence[System]) -> Iterator[Row]:
    """The counts that stand beside the means, a cell a system."""
    for label, tone in _COUNTS.items():
        counts = [getattr(one.scores.counts, label.replace(" ", "_")) for one in systems]
        yield Row(label, [Cell(f"{count:,}", tone if count else "quiet") for count in counts])


def slice_rows(systems: Sequence[System], key: str, metric: str) -> list[Row]:
    """The mean of one metric by a value of the queries' metadata; the label says of how many.

    Raises:
        InvalidInput: no query has that key.
        UnknownMetric: the metric wasn't computed.
    """
    by_value = [one.scores.slices(key) for one in systems]
    rows = []
    for value in dict.fromkeys(value for one in by_value for value in one):
        members = [one.get(value) for one in by_value]
        n = max(one.counts.scored for one in members if one is not None)
        label = "without" if value is None else plain(str(value))
        rows.append(Row(f"{label} ({n})", _marked([_mean(one, metric) for one in members])))
    return rows


def query_rows(systems: Sequence[System], metric: str) -> list[Row]:
    """Every query's score by one metric, a cell a system."""
    found = [_by_query(one.scores, metric) for one in systems]
    query_ids = dict.fromkeys(query_id for one in systems for query_id in one.scores.query_ids)
    return [
        Row(plain(query_id), _marked([one.get(query_id) for one in found]))
        for query_id in query_ids
    ]


def metric_rows(scores: Scores) -> list[Row]:
    """Every query's scores by one system, a cell a metric."""
    found = [scores.by_query(metric) for metric in scores]
    return [
        Row(plain(query_id), [_score_cell(one.get(query_id)) for one in found])
        for query_id in scores.query_ids
    ]


def headline(systems: Sequence[System]) -> str:
    """The metric that stands for the others: ndcg where there is one, else the first."""
    names = list(dict.fromkeys(metric for one in systems for metric in one.scores))
    return next((name for name in names if name.startswith("ndcg")), names[0])


def hardest(systems: Sequence[System], metric: str, n: int) -> list[Question]:
    """The queries with the lowest scores, averaged over the systems; among equals, as they came."""
    if not any(metric in one.scores for one in systems):
        raise UnknownMetric(metric, systems[0].scores.metric_names)
    totals: dict[str, list[float]] = {}
    for one in systems:
        for query_id, score in _by_query(one.scores, metric).items():
            totals.setdefault(query_id, []).append(score)
    worst = sorted(totals, key=lambda query_id: math.fsum(totals[query_id]) / len(totals[query_id]))
    return [_question(query_id, systems, metric) for query_id in worst[:n]]


def remarks(systems: Sequence[System]) -> list[str]:
    """What a reader of the numbers should know, each once, with the systems it holds for."""
    holders: dict[str, list[str]] = {}
    for one in systems:
        for note in (*one.scores.notes, *_own_denominators(one.scores)):
            holders.setdefault(plain(note), []).append(one.name)
    return [
        note if len(names) == len(systems) else f"{', '.join(names)}: {note}"
        for note, names in holders.items()
    ]


def failures(systems: Sequence[System]) -> list[tuple[str, str, str]]:
    """(system, query id, error) of every query on which a retriever failed."""
    return [
        (one.name, plain(query_id), plain(error))
        for one in systems
        for query_id, error in one.scores.failed.items()
    ]


def plain(text: str) -> str:
    """The text in one line, without control characters: data must not steer a terminal."""
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())


def _means(systems: Sequence[System]) -> Iterator[Row]:
    for metric in dict.fromkeys(metric for one in systems for metric in one.scores):
        yield Row(plain(metric), _marked([_mean(one.scores, metric) for one in systems]))


def _mean(scores: Scores | None, metric: str) -> float | None:
    if scores is None or metric not in scores or not scores.n(metric):
        return None
    return scores.means[metric]


def _marked(means: Sequence[float | None]) -> list[Cell]:
    """The means as cells; the highest is marked, unless all look the same."""
    texts = [NO_VALUE if mean is None else number(mean) for mean in means]
    known = [(mean, text) for mean, text in zip(means, texts, strict=True) if mean is not None]
    best = max(known)[1] if len({text for _, text in known}) > 1 else None
    tones: dict[str | None, Tone] = {NO_VALUE: "quiet", best: "best"}
    return [Cell(text, tones.get(text, "normal")) for text in texts]


def _latencies(systems: Sequence[System]) -> Iterator[Row]:
    latencies = [one.run.latency for one in systems]
    if not any(latencies):
        return
    for percentile in ("p50", "p95", "p99"):
        yield Row(
            f"latency {percentile}",
            [time_cell(None if one is None else getattr(one, percentile)) for one in latencies],
        )


def time_cell(seconds: float | None) -> Cell:
    """Seconds as a cell, a dash for None."""
    return Cell(NO_VALUE, "quiet") if seconds is None else Cell(seconds_text(seconds))


def _usage(systems: Sequence[System]) -> Iterator[Row]:
    """What the metrics of texts asked services and models for, summed over the metrics."""
    for label, count in _USAGE.items():
        sums = [
            sum(getattr(usage, count) for usage in one.scores.usage.values()) for one in systems
        ]
        if any(one.scores.usage for one in systems) and (any(sums) or count != "units"):
            yield Row(label, [Cell(f"{one:,g}" if one else "0") for one in sums])


def _question(query_id: str, systems: Sequence[System], metric: str) -> Question:
    texts = (one.scores.queries.get(query_id) for one in systems)
    return Question(
        plain(query_id),
        plain(next(filter(None, texts), "")),
        next(filter(None, (_wanted(one, query_id, metric) for one in systems)), ""),
        [
            Answer(
                one.name,
                _score_cell(_by_query(one.scores, metric).get(query_id)),
                _first(one, query_id, metric),
            )
            for one in systems
        ],
    )


def _by_query(scores: Scores, metric: str) -> dict[str, float]:
    return scores.by_query(metric) if metric in scores else {}


def _score_cell(score: float | None) -> Cell:
    return Cell(NO_VALUE, "quiet") if score is None else Cell(number(score))


def _grades(system: System, query_id: str, metric: str) -> Mapping[str, float]:
    matched = system.matched.get(metric)
    judged = (system.relevance if matched is None else matched.relevance).get(query_id)
    return {} if judged is None else judged.grades


def _wanted(system: System, query_id: str, metric: str) -> str:
    """What is relevant, best grade first; what was matched by its text, with the text."""
    grades = _grades(system, query_id, metric)
    matched = system.matched.get(metric)
    passages = {} if matched is None else matched.passages.get(query_id, {})
    wanted = sorted((one for one in grades if grades[one] > 0), key=lambda one: -grades[one])
    return ", ".join(
        f"{plain(str(one))} {_quoted(passages[one])}" if one in passages else plain(str(one))
        for one in wanted
    )


def _quoted(passage: str | Span) -> str:
    if isinstance(passage, Span):
        return f"({plain(passage.source)}, characters {passage.start} to {passage.end})"
    text = plain(passage[:_MOST_TEXT])
    return f"“{text[: _MOST_PASSAGE - 1]}…”" if len(text) > _MOST_PASSAGE else f"“{text}”"


def _first(system: System, query_id: str, metric: str) -> str:
    """What came first, with its grade; what was matched, with what it stands for."""
    ranking = system.run.get(query_id)
    if ranking is None:
        return ""
    if ranking.error is not None:
        return f"failed: {plain(ranking.error)}"
    if not ranking.ids:
        return "nothing retrieved"
    grades = _grades(system, query_id, metric)
    item = ranking.ids[0]
    matched = system.matched.get(metric)
    stands_for = [[item]] if matched is None else matched.stands_for.get(query_id, [[]])
    found = [f"{plain(one)} [{grades[one]:g}]" for one in stands_for[0] if one in grades]
    shown = ", ".join(found) or plain(str(item))
    if found and stands_for[0] != [item]:
        shown = f"{plain(str(item))} = {shown}"
    first_line = ranking.texts[0].strip().partition("\n")[0] if ranking.texts else ""
    return f"{shown}  {plain(first_line[:_MOST_TEXT])}".rstrip()


def _own_denominators(scores: Scores) -> Iterator[str]:
    for metric in scores:
        n, scored = scores.n(metric), scores.counts.scored
        if n > scored:
            yield f"{metric} needs no labels: it has a value for {n} queries, not only {scored}"
        elif n < scored:
            yield f"{metric} has a value for {n} of {scored} scored queries"


def number(score: float) -> str:
    """A score as it is shown."""
    return f"{score:.4f}"


def seconds_text(seconds: float) -> str:
    """Seconds as they are shown, in three digits."""
    value, unit = (seconds, "s") if seconds >= 1 else (seconds * 1e3, "ms")
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"
