"""The report of nuggets: how many there are, how far they are supported, and by what."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index_rag_metrics.labels import grouped
from llama_index_rag_metrics.labels.nuggets import Nuggets
from llama_index_rag_metrics.rankings.relevance import Nugget
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.failures import errors_in_words
from llama_index_rag_metrics.report.numbers import counted, questions

_MOST_SHOWN, _MOST_ON_PAGE = 5, 500


def nuggets_report(nuggets: Nuggets, *, full: bool = False) -> m.Report:
    rows = [(query_id, nugget) for query_id, of_query in nuggets.items() for nugget in of_query]
    every = [nugget for _, nugget in rows]
    is_assigned = any(nugget.supports for nugget in every)
    remarks = {"Failed": {query_id: [error] for query_id, error in nuggets.errors.items()}}
    if is_assigned:
        missing = [(key, _line(nugget)) for key, nugget in rows if not nugget.supported_by()]
        remarks["Without a passage that supports it"] = grouped(missing)
    return m.Report(
        title="Nuggets",
        lead=f"{questions(len(nuggets))}, {counted(len(every), 'nugget', 'nuggets')}",
        decision=[_decision(nuggets, every, is_assigned=is_assigned)],
        sections=[m.Section("Nuggets", [_table(every, is_assigned=is_assigned)])],
        listings=[
            m.Listing.of(
                title,
                [(key, nuggets.queries.get(key, ""), lines) for key, lines in by_query.items()],
                _MOST_ON_PAGE if full else _MOST_SHOWN,
            )
            for title, by_query in remarks.items()
        ],
        notes=[str(nuggets.usage)] if nuggets.usage.requests or nuggets.usage.cached else [],
        records=m.Records(
            {
                "query_id": [query_id for query_id, _ in rows],
                "nugget": [nugget.text for nugget in every],
                "importance": [nugget.importance for nugget in every],
                "full": [nugget.supported_by() for nugget in every],
                "partial": [_in_part(nugget) for nugget in every],
                "looked_at": [len(nugget.supports) for nugget in every],
            }
        ),
    )


def _decision(nuggets: Nuggets, every: Sequence[Nugget], *, is_assigned: bool) -> m.Statement:
    if nuggets.errors:
        failed = counted(len(nuggets.errors), "question has", "questions have")
        why = errors_in_words([*nuggets.errors.values()])
        return m.Statement(f"{failed} errors ({why}).", "alarm")
    if not every:
        return m.Statement("There are no nuggets.", "open")
    if not is_assigned:
        return m.Statement("No passage was compared with them yet: use assign_nuggets().", "open")
    if missing := sum(1 for nugget in every if not nugget.supported_by()):
        lack = counted(missing, "nugget has", "nuggets have")
        text = f"{lack} no passage that supports {'it' if missing == 1 else 'them'} in full."
        return m.Statement(text, "open")
    return m.Statement("Every nugget has a passage that supports it in full.", "best")


def _table(every: Sequence[Nugget], *, is_assigned: bool) -> m.Table:
    rows = []
    for importance in ("vital", "okay"):
        nuggets = [nugget for nugget in every if nugget.importance == importance]
        n, cells = len(nuggets), [m.Cell(len(nuggets), "count")]
        if is_assigned:
            full = sum(1 for nugget in nuggets if nugget.supported_by())
            at_all = sum(1 for nugget in nuggets if nugget.supported_by(partial=True))
            cells += [m.Cell((part, n), "share") for part in (full, at_all - full, n - at_all)]
        rows.append(m.Row(importance, cells))
    head = ["nuggets", "supported", "in part only", "by none"]
    return m.Table("", head if is_assigned else head[:1], [rows], first="importance")


def _in_part(nugget: Nugget) -> list[str]:
    return [passage for passage, support in nugget.supports.items() if support == "partial"]


def _line(nugget: Nugget) -> str:
    """A nugget that no passage supports in full."""
    by = f" (in part: {', '.join(partly)})" if (partly := _in_part(nugget)) else ""
    return f"{nugget.importance}: {nugget.text}{by}"
