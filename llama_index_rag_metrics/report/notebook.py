"""Reports in a notebook, in the colours of its page, light or dark; data is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report import query_lines
from llama_index_rag_metrics.report.escape import html as escape
from llama_index_rag_metrics.report.excerpts import EXCERPT_CHARACTERS, excerpt, titled
from llama_index_rag_metrics.report.failures import failure_lines, failures_title
from llama_index_rag_metrics.report.numbers import interval_of, shown
from llama_index_rag_metrics.report.whereabouts import most_wanted
from llama_index_rag_metrics.report.why import why_lines

_STYLES: dict[m.Tone, str] = {
    "normal": "",
    "best": "font-weight:bold",
    "leading": "font-weight:bold",
    "quiet": "opacity:.55",
    "alarm": "font-weight:bold;color:#d6403b",
    "open": "font-weight:bold;font-style:italic",
}
_PAGE = "background:transparent;color:inherit"
_RULE = ' style="border-top:1px solid rgba(128,128,128,.5)"'
_ITEMS = 5
_MISSED_CHARACTERS = 400


def to_notebook(report: m.Report) -> str:
    """The decision and the main tables; everything else is folded below them."""
    outcome = "" if report.outcome is None else f": {escape(shown(report.outcome))}"
    title = f"<p><b>{escape(report.title)}{outcome}</b></p>" if report.decision else ""
    in_sight = [section for section in report.sections if not _is_folded(section)]
    further = [part for section in report.sections for part in _further(section)]
    failures = [escape(str(line)) for line in failure_lines(report.failures)]
    asides = [*report.notes, *(note for section in report.sections for note in section.notes)]
    notes = _list(map(escape, asides))
    parts = [
        title,
        *map(_paragraph, report.decision),
        *(_in_sight(table, report.title) for table in report.tables("summary")),
        *map(_explained, in_sight),
        *further,
        *map(_listed, report.listings),
        _folded(failures_title(report.failures), _list(failures)),
        _folded("Notes", notes) if further else notes,
    ]
    return f"<div>{''.join(parts)}</div>"


def _is_folded(section: m.Section) -> bool:
    return bool(section.tables) and all(table.place != "summary" for table in section.tables)


def _further(section: m.Section) -> Iterator[str]:
    """The tables of a section that are folded, with its text where none is in sight."""
    folded = [table for table in section.tables if table.place != "summary"]
    text = _explained(section) if _is_folded(section) else ""
    for table in folded:
        title = section.heading if len(section.tables) == 1 else table.title
        yield _folded(title, set_table(table) + (text if table is folded[-1] else ""))


def _explained(section: m.Section) -> str:
    return f'<p style="opacity:.7">{escape(section.text)}</p>' if section.text else ""


def _paragraph(statement: m.Statement) -> str:
    """A sentence; of one that begins with its label, the label alone stands out."""
    label, text = statement.label, statement.text
    bold = label if label and text.startswith(f"{label}: ") else text
    sentence = _styled(bold, statement.tone) + escape(text.removeprefix(bold))
    command = f"<pre>{escape(statement.command)}</pre>" if statement.command else ""
    return f"<p>{sentence}</p>{command}"


def _styled(text: str, tone: m.Tone) -> str:
    style = _STYLES[tone]
    return f'<span style="{style}">{escape(text)}</span>' if style and text else escape(text)


def _in_sight(table: m.Table, title_above: str) -> str:
    """A table with a title of its own; of one that folds, the first part."""
    title = "" if table.title == title_above else _titled(table)
    if not table.fold or len(table.parts) < 2:
        return title + set_table(table)
    first, others = (replace(table, parts=parts) for parts in (table.parts[:1], table.parts[1:]))
    return title + set_table(first) + _folded(table.fold, set_table(others))


def _titled(part: m.Table | m.Listing) -> str:
    remark = _styled(part.remark, "quiet")
    title = f"<p><b>{escape(part.title)}</b> {remark}</p>" if part.title else ""
    if isinstance(part, m.Table):
        return title
    lead = f"<p>{escape(part.lead)}</p>" if part.lead else ""
    return title + lead + (f"<p>{_styled(part.legend, 'quiet')}</p>" if part.legend else "")


def set_table(table: m.Table) -> str:
    """A table as HTML; a rule goes above each of its parts."""
    first = "" if table.by_system and table.first == "metric" else table.first
    sides = ["left" if n < table.text_columns else "right" for n in range(len(table.head))]
    names = zip([first, *table.head], ["left", *sides], strict=True)
    head = "".join(_cell("th", name, side, "font-weight:bold") for name, side in names)
    head = f"<thead><tr>{head}</tr></thead>" if any((first, *table.head)) else ""
    numbered = (pair for part in table.parts for pair in enumerate(part))
    rows = "".join(f"<tr{'' if n else _RULE}>{_row(row, sides)}</tr>" for n, row in numbered)
    return (
        f'<div style="overflow-x:auto"><table style="border-collapse:collapse;{_PAGE}">'
        f"{head}<tbody>{rows}</tbody></table></div>"
    )


def _row(row: m.Row, sides: Iterable[str]) -> str:
    texts = [_cell("th", row.label, "left", "font-weight:normal")]
    for cell, side in zip(row.cells, sides, strict=True):
        # a number isn't broken; a text may be
        whole = "" if cell.form == "text" else "white-space:nowrap;"
        text, interval = shown(cell, interval=False), interval_of(cell)
        texts.append(_cell("td", text, side, whole + _STYLES[cell.tone], interval))
    return "".join(texts)


def _cell(tag: str, text: str, side: str, style: str, interval: str = "") -> str:
    base = f"text-align:{side};padding:.15em .8em;{_PAGE}"
    ends = f'<small style="font-weight:normal"> {escape(interval)}</small>' if interval else ""
    return f'<{tag} style="{base};{style}">{escape(text)}{ends}</{tag}>'


def _listed(listing: m.Listing) -> str:
    """Questions that unfold; without what was wanted and what came, a list that does."""
    more = f"<p>{listing.more_in_words}</p>" if listing.more_in_words else ""
    if any(query.answers or query.wanted for query in listing.queries):
        questions = "".join(map(_unfolding, listing.queries))
        return f"{_titled(listing)}{questions}{more}"
    lines = [_asked(query) + _list(map(escape, query.remarks)) for query in listing.queries]
    return _folded(listing.title, _list(lines) + more)


def _unfolding(query: m.QueryAnswers) -> str:
    """A question with its scores; unfolded, what is relevant and what each system returned."""
    names = query_lines.short_ids_of(query)
    lines = list(map(_relevant, query_lines.wanted_lines(query, len(query.wanted) or None)))
    first = most_wanted(query)
    further = [*lines[first:], *([f"and {query.more:,} more"] if query.more else [])]
    more = _folded(f"{len(lines[first:]) + query.more:,} more", _list(further)) if further else ""
    relevant = f"<p>Relevant</p>{_list(lines[:first])}{more}" if lines else ""
    scores, came = [], []
    for answer in query.answers:
        score = f"<b>{escape(shown(answer.score))}</b>"
        scores.append(f"{escape(answer.system)} {score}" if len(query.answers) > 1 else score)
        came.append(f"<p>{escape(answer.system)} {score}</p>{_came(query, answer, names)}")
    why = (f"<p>{escape(line)}</p>" for line in why_lines(query))
    parts = [*why, *chain(*query_lines.in_order(query, [relevant], came))]
    parts.append(_list(map(escape, query.remarks)))
    summary = f"{_asked(query)} &nbsp;{' · '.join(scores)}"
    inner = f'<div style="padding-left:1.5em">{"".join(parts)}</div>'
    return f"<details><summary>{summary}</summary>{inner}</details>"


def _relevant(line: query_lines.WantedLine) -> str:
    """A relevant passage, with more of its text where a system lost it."""
    most = _MISSED_CHARACTERS if line.is_missed else EXCERPT_CHARACTERS
    where = _styled(line.where, "alarm" if line.is_missed else "quiet")
    return f"<code>{escape(line.name)}</code> {where} {_passage(line.passage, most)}"


def _passage(text: str | None, most: int = EXCERPT_CHARACTERS) -> str:
    title, rest = titled(text, most)
    return f"<b>{escape(title)}</b> {escape(rest)}" if title else escape(rest)


def _came(query: m.QueryAnswers, answer: m.Answer, names: Mapping[str, str]) -> str:
    """The calls; the first items with the beginnings of their texts, unless the calls show them."""
    calls = "".join(
        f"<li>“{escape(excerpt(call.query))}” → {escape(query_lines.call_outcome(call))}"
        f"{_items(call.retrieved, answer, names)}</li>"
        for call in answer.calls or ()
    )
    calls = f"<ol>{calls}</ol>" if calls else ""
    if answer.error is not None or not answer.retrieved:
        lines = query_lines.came_lines(query, answer, 1, names)
        return "".join(f"<p>{escape(line.text)}</p>" for line in lines[-1:]) + calls
    if calls and query_lines.is_sum(answer):
        return calls
    together = "<p>together:</p>" if calls else ""
    return calls + together + _items(answer.retrieved, answer, names, answer.more)


def _items(
    items: Sequence[m.ReportedItem], answer: m.Answer, names: Mapping[str, str], more: int = 0
) -> str:
    """The first items and hits, and how many more there are; names of hits are bold."""
    lines, last = [], -1
    ranks: Sequence[int | None] = range(1, len(items) + 1)
    positions: Sequence[int] = range(min(_ITEMS, len(items)))
    if items is answer.retrieved:
        ranks, positions = answer.all_ranks, query_lines.shown_positions(answer, _ITEMS)
    for last in positions:
        item, rank = items[last], ranks[last]
        name = query_lines.retrieved_name(item, names, answer)
        name = _styled(name, "best" if item.is_hit else "normal")
        place = '<li style="list-style:none">again:' if rank is None else f'<li value="{rank}">'
        lines.append(f"{place}<code>{name}</code> {_passage(item.text)}</li>")
    n = len(items) - last - 1 + more
    listed = f"<ol>{''.join(lines)}</ol>" if lines else ""
    return listed + (f"<p>and {n:,} more</p>" if n else "")


def _asked(query: m.QueryAnswers) -> str:
    return f"<code>{escape(query.query_id)}</code> {escape(query.text)}"


def _folded(title: str, inner: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{inner}</details>" if inner else ""


def _list(items: Iterable[str]) -> str:
    inner = "".join(f"<li>{item}</li>" for item in items)
    return f"<ul>{inner}</ul>" if inner else ""
