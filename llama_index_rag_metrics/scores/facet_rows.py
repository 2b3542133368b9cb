"""Which facets were found and which were missed, over all queries and query by query."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

from llama_index_rag_metrics.metrics.metric_names import metric as resolve
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.model import Cell, Row, Section, Table
from llama_index_rag_metrics.report.numbers import mean_of
from llama_index_rag_metrics.runtime.errors import RagMetricsError
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.scores.rows import mark_best
from llama_index_rag_metrics.scores.scores import Scores
from llama_index_rag_metrics.scores.systems import System

_SHOWN_FACETS = 20
"""Facets in the table: the ones least found."""

_CALL_COLUMNS = 6
"""Calls that have a column of their own."""


def facet_metric(scores: Scores) -> str | None:
    """The first metric that names the facets it found, or None."""
    of_facets = (
        metric
        for metric in scores
        if any("missed" in row for row in scores.details.get(metric, {}).values())
    )
    return next(of_facets, None)


def facet_sections(systems: Sequence[System]) -> list[Section]:
    """How often each facet of several queries was found, the least found first."""
    tallies = [_Tally(system.scores) for system in systems]
    wanted = Counter[str]()
    for tally in tallies:
        wanted |= Counter({name: len(query_ids) for name, query_ids in tally.asked.items()})
    names = [name for name, n in wanted.items() if n > 1]
    if not names:
        return []
    names.sort(key=lambda name: max(tally.share(name) or 0.0 for tally in tallies))
    shown = names[:_SHOWN_FACETS]
    metrics = list(dict.fromkeys(tally.metric for tally in tallies if tally.metric))
    left_out = f"; {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    cells = [
        mark_best(
            metrics[0],
            [tally.share(name) for tally in tallies],
            [tally.asked[name] for tally in tallies],
        )
        for name in shown
    ]
    labels = [f"{plain(name)} ({wanted[name]})" for name in shown]
    table = Table(
        f"Facets on {', '.join(metrics)}",
        [system.name for system in systems],
        [list(map(Row, labels, cells))],
        first="facet",
        by_system=True,
        remark=f"(share of the questions with it in which it was found{left_out})",
    )
    by_call = [
        call_table
        for system in systems
        for call_table in _by_call(system, shown, f" of {system.name}" if len(systems) > 1 else "")
    ]
    sentences = []
    for system, tally in zip(systems, tallies, strict=True):
        never = [
            name for name, asked in tally.asked.items() if len(asked) > 1 and not tally.share(name)
        ]
        if never:
            is_or_are = "is" if len(never) == 1 else "are"
            sentences.append(f"{plain(system.name)}: {_quoted(never)} {is_or_are} never found.")
    return [Section("Facets", [table, *by_call], text=" ".join(sentences))]


def facet_remarks(systems: Sequence[System]) -> Callable[[str], list[str]]:
    """A function from query id to one line a system: the facets that it missed."""
    metrics = [facet_metric(system.scores) for system in systems]

    def remarks(query_id: str) -> list[str]:
        lines = []
        for system, metric in zip(systems, metrics, strict=True):
            row = system.scores.details[metric].get(query_id, {}) if metric else {}
            if missed := row.get("missed"):
                lines.append(f"{system.name}: {_quoted(missed)} not found, on {metric}")
        return lines

    return remarks


def _by_call(system: System, names: Sequence[str], of_system: str) -> Iterator[Table]:
    """How often each facet had been found after each call, if calls are known."""
    first_calls = _first_calls(system)
    most = max((len(ranking.calls or ()) for ranking in system.run.values()), default=0)
    if not first_calls or most == 0:
        return
    ends = list(range(1, min(most, _CALL_COLUMNS) + 1))
    head = [f"call {number}" for number in ends]
    if most > _CALL_COLUMNS:
        ends.append(most)
        head.append("all calls")
    rows = []
    for name in names:
        counts = first_calls.get(name, Counter[int]())
        total = counts.total()
        found_by = [sum(counts[number] for number in range(1, end + 1)) for end in ends]
        shares = [n / total if total else None for n in found_by]
        cells = [mean_of(Cell.of(share, "score"), total) for share in shares]
        rows.append(Row(f"{plain(name)} ({total})", cells))
    yield Table(
        f"Facets by call{of_system}",
        head,
        [rows],
        first="facet",
        remark="(share of the sessions with it in which it had been found by then, at any rank)",
    )


def _first_calls(system: System) -> dict[str, Counter[int]]:
    """Facet to the number of the call that found it first, 0 for none, to how many sessions."""
    first: dict[str, Counter[int]] = defaultdict(Counter)
    metric = facet_metric(system.scores)
    if metric is None:
        return first
    try:
        min_grade = getattr(resolve(metric), "min_grade", 1.0)
    except RagMetricsError:  # a metric that isn't registered: nobody knows which grade it wants
        return first
    matched = system.judged_by(metric)
    for query_id in system.scores.details[metric]:
        judged, ranking = matched.relevance.get(query_id), matched.run.get(query_id)
        if judged is None or judged.facet_names is None or ranking is None or ranking.calls is None:
            continue
        for name, members in zip(judged.facet_names, judged.alternatives or (), strict=True):
            wanted = {item for item in members if judged.grades[item] >= min_grade}
            brought = (
                number
                for number, call in enumerate(ranking.calls, 1)
                if not wanted.isdisjoint(call.ids)
            )
            first[name][next(brought, 0)] += 1
    return first


class _Tally:
    """The questions of a system that ask for each facet, and in how many it was found."""

    def __init__(self, scores: Scores) -> None:
        self.metric = facet_metric(scores)
        self.asked: dict[str, set[str]] = defaultdict(set)
        self._found = Counter[str]()
        for query_id, row in scores.details[self.metric].items() if self.metric else ():
            self._found.update(row.get("found", ()))
            for name in (*row.get("found", ()), *row.get("missed", ())):
                self.asked[name].add(query_id)

    def share(self, name: str) -> float | None:
        return self._found[name] / len(self.asked[name]) if self.asked[name] else None


def _quoted(names: Sequence[str]) -> str:
    return join_first([f"'{plain(name)}'" for name in names], _SHOWN_FACETS)
