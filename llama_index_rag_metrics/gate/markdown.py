"""The verdicts as Markdown for a pull request; what came from data stays text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from llama_index_rag_metrics.gate.rendering import HEAD, cells, got_of, score_of
from llama_index_rag_metrics.gate.verdicts import GateReport, Outcome, Verdict
from llama_index_rag_metrics.report.escape import terminal as plain

_SIGNS: dict[Outcome, str] = {"pass": "✅", "fail": "❌", "inconclusive": "⚠️"}
_MOST_TEXT = 200
_MARKUP = re.compile(
    r"""[^\w\s,;'"?%=.:-]|_|^-|^\d(?=\d*[.](?:\s|$))|[.](?=[^\s\d])|:(?! )""", re.ASCII
)
"""What could be markup; a stop within a number, a dash within a line and the like can't."""


def to_markdown(report: GateReport) -> str:
    """A heading, the table, a sentence on each rule that isn't kept, its worst queries folded."""
    name = f" of {escaped(report.name)}" if report.name else ""
    lines = [f"### Retrieval gate{name}: {_SIGNS[report.outcome]} {report.outcome}", ""]
    lines += [f"| {' | '.join(HEAD)} |", "| --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    for verdict in report:
        outcome, rule, *numbers = cells(verdict)
        row = [f"{_SIGNS[verdict.outcome]} {outcome}", escaped(rule), *numbers]
        lines.append(f"| {' | '.join(row)} |")
    lines.append("")
    for verdict in report.broken(strict=True):
        lines += [f"- {_SIGNS[verdict.outcome]} {escaped(verdict.sentence)}"]
    lines += [f"- {escaped(note)}" for note in report.notes]
    for verdict in report.with_worst():
        lines += ["", *_worst(verdict)]
    return "\n".join(lines).rstrip("\n") + "\n"


def escaped(text: str) -> str:
    """Text in one line that Markdown, GitHub's mentions and links, and HTML leave as it is.

    Punctuation that could be markup becomes a character reference, except in numbers.

    >>> escaped("<b> @someone | 0.5")
    '&#60;b&#62; &#64;someone &#124; 0.5'
    """
    shown = plain(text)
    return _MARKUP.sub(_reference, shown)


def _reference(found: re.Match[str]) -> str:
    sign = ord(found[0])
    return f"&#{sign};" if sign < 128 else found[0]


def _worst(verdict: Verdict) -> Iterator[str]:
    yield f"<details><summary>Worst queries by {escaped(verdict.metric)}</summary>"
    yield ""
    yield "| query | score | question | wanted | got |"
    yield "| --- | --- | --- | --- | --- |"
    for query in verdict.worst:
        row = (
            escaped(query.query_id),
            score_of(query),
            escaped(plain(query.question)[:_MOST_TEXT]),
            escaped(", ".join(query.wanted)),
            escaped(got_of(query)),
        )
        yield f"| {' | '.join(row)} |"
    yield ""
    yield "</details>"
