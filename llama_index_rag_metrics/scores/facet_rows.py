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

_SHOWN_FACETS = 20  # facets in the table: the ones least found
_CALL_COLUMNS = 6  # calls that have a column of their own


def facet_metric(scores: Scores) -> str | None:
    """The first metric that names the facets it found, or None."""
    rows_of = ((metric, scores.details.get(metric, {}).values()) for metric in scores)
    return next((metric for metric, rows in rows_of if any("missed" in row for row in rows)), None)


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
    rows = []
    for name in shown:
        asked = [tally.asked[name] for tally in tallies]
        cells = mark_best(metrics[0], [tally.share(name) for tally in tallies], asked)
        rows.append(Row(f"{plain(name)} ({wanted[name]})", cells))
    table = Table(
        f"Facets on {', '.join(metrics)}",
        [system.name for system in systems],
        [rows],
        first="facet",
        by_system=True,
        remark=f"(share of the questions with it in which it was found{left_out})",
    )
    tables, sentences = [table], []
    for system, tally in zip(systems, tallies, strict=True):
        tables += _by_call(system, shown, f" of {system.name}" if len(systems) > 1 else "")
        several = [name for name, asked in tally.asked.items() if len(asked) > 1]
        if never := [name for name in several if not tally.share(name)]:
            is_or_are = "is" if len(never) == 1 else "are"
            sentences.append(f"{plain(system.name)}: {_quoted(never)} {is_or_are} never found.")
    return [Section("Facets", tables, text=" ".join(sentences))]


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
    ends = {f"call {number}": number for number in range(1, min(most, _CALL_COLUMNS) + 1)}
    if most > _CALL_COLUMNS:
        ends["all calls"] = most
    rows = []
    for name in names:
        counts = first_calls.get(name, Counter[int]())
        total = counts.total()
        found_by = [sum(counts[number] for number in range(1, end + 1)) for end in ends.values()]
        shares = (Cell.of(n / total if total else None, "score") for n in found_by)
        cells = [mean_of(share, total) for share in shares]
        rows.append(Row(f"{plain(name)} ({total})", cells))
    yield Table(
        f"Facets by call{of_system}",
        list(ends),
        [rows],
        first="facet",
        remark="(share of the sessions with it in which it had been found by then, at any rank"
        + ("; of the first run)" if system.scores.repeats else ")"),
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
            brought = (n for n, call in enumerate(ranking.calls, 1) if wanted & {*call.ids})
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
