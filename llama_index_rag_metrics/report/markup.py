"""Reports as Markdown, as GitHub shows it; what comes from data stays text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from llama_index_rag_metrics.report import escape, query_lines
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.excerpts import excerpt
from llama_index_rag_metrics.report.failures import failure_lines, failures_title
from llama_index_rag_metrics.report.numbers import shown
from llama_index_rag_metrics.report.wording import why_lines

_SIGNS: Mapping[m.Tone, str] = {"best": "✅", "alarm": "❌", "open": "⚠️"}
_BOLD: tuple[m.Tone, ...] = ("best", "alarm")
_QUESTION_CHARACTERS = 200


def to_markdown(report: m.Report) -> str:
    """The decision, the tables, remarks; queries worth a look are folded."""
    return "\n\n".join(filter(None, _blocks(report))) + "\n"


def _blocks(report: m.Report) -> Iterator[str]:
    outcome = "" if report.outcome is None else f": {_cell(report.outcome)}"
    yield f"### {escape.markdown(report.title)}{outcome}"
    for statement in report.decision:
        yield escape.markdown(statement.text)
    for table in report.tables("summary", "detail"):
        if table.title:
            yield f"**{escape.markdown(table.title)}** {escape.markdown(table.remark)}".rstrip()
        sides = [":--" if n < table.text_columns else "--:" for n in range(len(table.head))]
        rows = [(escape.markdown(row.label), *map(_cell, row.cells)) for row in table.rows]
        yield _pipes(map(escape.markdown, (table.first, *table.head)), (":--", *sides), *rows)
    for section in report.sections:
        yield escape.markdown(section.text)
    yield "\n".join(f"- {escape.markdown(note)}" for note in report.notes)
    for listing in report.listings:
        title = f"{listing.title} ({listing.remark})" if listing.remark else listing.title
        above = map(escape.markdown, filter(None, (listing.lead, listing.legend)))
        yield _folded(title, "\n\n".join([*above, "\n".join(_listed(listing))]))
    if report.failures:
        rows = [tuple(map(escape.markdown, line)) for line in failure_lines(report.failures)]
        lines = _pipes(("system", "error"), ["---"] * 2, *rows)
        yield _folded(failures_title(report.failures), lines)


def _cell(cell: m.Cell) -> str:
    text = shown(cell)
    if cell.form == "outcome":
        return f"{_SIGNS.get(cell.tone, '')} {text}".strip()
    # a number holds no markup but the sign of a small p
    text = escape.markdown(text) if cell.form == "text" else text.replace("<", "&lt;")
    return f"**{text}**" if cell.tone in _BOLD else text


def _listed(listing: m.Listing) -> Iterator[str]:
    for query in listing.queries:
        text = excerpt(query.text, _QUESTION_CHARACTERS)
        yield f"- {escape.markdown(query.query_id)}: {escape.markdown(text)}".removesuffix(": ")
        yield from (f"  - {escape.markdown(line)}" for line in why_lines(query))
        yield from chain(*query_lines.in_order(query, _relevant(query), _came(query, listing.most)))
        yield from (f"  - {escape.markdown(remark)}" for remark in query.remarks)
    if listing.more_in_words:
        yield f"- {listing.more_in_words}"


def _relevant(query: m.QueryAnswers) -> Iterator[str]:
    for wanted in query_lines.wanted_lines(query):
        yield f"  - relevant {escape.markdown(str(wanted))}"
    if more := query_lines.more_wanted(query):
        yield f"  - {more}"


def _came(query: m.QueryAnswers, most: int) -> Iterator[str]:
    for answer in query.answers:
        head = f"{escape.markdown(answer.system)} {_cell(answer.score)}".rstrip()
        lines = [escape.markdown(line.text) for line in query_lines.came_lines(query, answer, most)]
        # a failure, or the only item, stands beside the system
        beside = lines[:1] if most == 1 or answer.error is not None or len(lines) == 1 else []
        yield f"  - {head}: {''.join(beside)}".removesuffix(": ")
        yield from (f"    - {line}" for line in lines[len(beside) :])


def _pipes(*lines: Iterable[str]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _folded(title: str, inner: str) -> str:
    return f"<details><summary>{escape.markdown(title)}</summary>\n\n{inner}\n\n</details>"
