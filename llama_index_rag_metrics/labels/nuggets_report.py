"""The report of nuggets: how many there are, how far they are supported, and by what."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from llama_index_rag_metrics.labels.nuggets import Nuggets
from llama_index_rag_metrics.rankings.nugget import Importance, Nugget
from llama_index_rag_metrics.report import (
    Cell,
    Listing,
    QueryAnswers,
    Records,
    Report,
    Row,
    Section,
    Statement,
    Table,
)
from llama_index_rag_metrics.report.numbers import counted

_MOST_SHOWN, _MOST_ON_PAGE = 5, 500
_IMPORTANCES: tuple[Importance, ...] = ("vital", "okay")


def nuggets_report(nuggets: Nuggets, *, full: bool = False) -> Report:
    all_nuggets = [nugget for of_query in nuggets.values() for nugget in of_query]
    is_assigned = any(nugget.supports for nugget in all_nuggets)
    n = counted(len(all_nuggets), "nugget", "nuggets")
    most = _MOST_ON_PAGE if full else _MOST_SHOWN
    return Report(
        title="Nuggets",
        lead=f"{counted(len(nuggets))}, {n}",
        decision=[_decision(nuggets, all_nuggets)],
        sections=[Section("Nuggets", [_table(all_nuggets, is_assigned=is_assigned)])],
        listings=_listings(nuggets, most, is_assigned=is_assigned),
        notes=[str(nuggets.usage)] if nuggets.usage.requests or nuggets.usage.cached else [],
        records=_records(nuggets),
    )


def _decision(nuggets: Nuggets, all_nuggets: Sequence[Nugget]) -> Statement:
    if nuggets.errors:
        failed = counted(len(nuggets.errors), "query has", "queries have")
        return Statement(f"{failed} errors: see the list below.", "alarm")
    if not any(nugget.supports for nugget in all_nuggets):
        return Statement("No passage was compared with them yet: assign_nuggets does it.", "open")
    missing = sum(1 for nugget in all_nuggets if not nugget.supported_by())
    if missing:
        lack = counted(missing, "nugget has", "nuggets have")
        return Statement(f"{lack} no passage that supports it in full.", "open")
    return Statement("Every nugget has a passage that supports it in full.", "best")


def _table(all_nuggets: Sequence[Nugget], *, is_assigned: bool) -> Table:
    head = ["nuggets"]
    if is_assigned:
        head += ["supported", "in part only", "by none"]
    rows = [
        Row(
            importance,
            _cells(
                [nugget for nugget in all_nuggets if nugget.importance == importance],
                is_assigned=is_assigned,
            ),
        )
        for importance in _IMPORTANCES
    ]
    return Table("", head, [rows], first="importance")


def _cells(nuggets: Sequence[Nugget], *, is_assigned: bool) -> list[Cell]:
    cells = [Cell(len(nuggets), "count")]
    if is_assigned:
        full = sum(1 for nugget in nuggets if nugget.supported_by())
        at_all = sum(1 for nugget in nuggets if nugget.supported_by(partial=True))
        numbers = (full, at_all - full, len(nuggets) - at_all)
        cells += [Cell((number, len(nuggets)), "share") for number in numbers]
    return cells


def _listings(nuggets: Nuggets, most: int, *, is_assigned: bool) -> list[Listing]:
    remarks = {"Failed": {query_id: [error] for query_id, error in nuggets.errors.items()}}
    if is_assigned:
        missing = {
            query_id: [_line(nugget) for nugget in of_query if not nugget.supported_by()]
            for query_id, of_query in nuggets.items()
        }
        remarks["Without a passage that supports it"] = {
            query_id: lines for query_id, lines in missing.items() if lines
        }
    return [
        Listing.of(
            title,
            [
                QueryAnswers(query_id, nuggets.queries.get(query_id, ""), remarks=lines)
                for query_id, lines in islice(by_query.items(), most)
            ],
            len(by_query),
        )
        for title, by_query in remarks.items()
        if by_query
    ]


def _line(nugget: Nugget) -> str:
    partly = nugget.supported_by(partial=True)
    by = f" (in part: {', '.join(partly)})" if partly else ""
    return f"{nugget.importance}: {nugget.text}{by}"


def _records(nuggets: Nuggets) -> Records:
    rows = [(query_id, nugget) for query_id, of_query in nuggets.items() for nugget in of_query]
    return Records(
        {
            "query_id": [query_id for query_id, _ in rows],
            "nugget": [nugget.text for _, nugget in rows],
            "importance": [nugget.importance for _, nugget in rows],
            "full": [nugget.supported_by() for _, nugget in rows],
            "partial": [_only_partly(nugget) for _, nugget in rows],
            "looked_at": [len(nugget.supports) for _, nugget in rows],
        }
    )


def _only_partly(nugget: Nugget) -> list[str]:
    return [passage for passage, support in nugget.supports.items() if support == "partial"]
