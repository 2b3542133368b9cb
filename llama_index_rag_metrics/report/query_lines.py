"""What was wanted and what came, in one line each: for every output of text."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.model import Answer, Item, QueryAnswers, ReportedItem

_TEXT_CHARACTERS = 300
_PASSAGE_CHARACTERS = 60
_ITEMS = 10


def wanted_line(query: QueryAnswers) -> str:
    """What is relevant, best grade first; what is recognised by its text, with the text.

    >>> wanted_line(QueryAnswers("q1", "", wanted=[[Item("a1", 1), Item("a2", 1)], [Item("b", 2)]]))
    'a1 or a2, b'
    """
    return _shortened(wanted_names(query))


def wanted_names(query: QueryAnswers) -> list[str]:
    return [" or ".join(map(_wanted, need)) for need in query.wanted]


def retrieved_line(answer: Answer, most: int = 1) -> str:
    """The first items with their grades, or with what they stand for; of one item the text, too.

    >>> retrieved_line(Answer("bm25", score=None, retrieved=[ReportedItem("c1", 2.0, "Io.")]))
    'c1 [2]  Io.'
    """
    if answer.error is not None:
        return f"failed: {plain(answer.error)}"
    if answer.retrieved is None:
        return ""
    if not answer.retrieved:
        return "nothing retrieved"
    if most > 1:
        return _shortened([retrieved_name(item) for item in answer.retrieved], most)
    first = answer.retrieved[0]
    line = (first.text or "").strip().partition("\n")[0]
    return f"{retrieved_name(first)}  {plain(line[:_TEXT_CHARACTERS])}".rstrip()


def retrieved_name(item: ReportedItem) -> str:
    """An item that came, with its grade, or with what it stands for."""
    if item.stands_for:
        names = ", ".join(
            f"{plain(str(wanted.id))} [{wanted.grade:g}]" for wanted in item.stands_for
        )
        return f"{plain(str(item.id))} = {names}"
    grade = "" if item.grade is None else f" [{item.grade:g}]"
    return plain(str(item.id)) + grade


def call_lines(answer: Answer) -> list[str]:
    """One line a call: who asked what, and what came, new or known.

    >>> from llama_index_rag_metrics.report.model import CallAnswer
    >>> items = [ReportedItem("a", 1.0), ReportedItem("b", None)]
    >>> call = CallAnswer("moons", "search", items, [True, False])
    >>> call_lines(Answer("agent", score=None, calls=[call]))
    ['1. search “moons”: a [1], b (known)']
    """
    lines = []
    for number, call in enumerate(answer.calls or (), 1):
        names = [
            retrieved_name(item) + ("" if is_new else " (known)")
            for item, is_new in zip(call.retrieved, call.is_new, strict=True)
        ]
        items = _shortened(names) or "nothing retrieved"
        outcome = items if call.error is None else f"failed: {plain(call.error)}"
        asked = f"{number}. {plain(call.asked_by)} {_quoted(' '.join(call.query.split()))}"
        lines.append(f"{' '.join(asked.split())}: {outcome}")
    return lines


def place_of(span: Span) -> str:
    return f"{plain(span.source)}, characters {span.start} to {span.end}"


def _wanted(item: Item) -> str:
    return plain(str(item.id)) + ("" if item.passage is None else f" {_quoted(item.passage)}")


def _quoted(passage: str | Span) -> str:
    if isinstance(passage, Span):
        return f"({place_of(passage)})"
    text = plain(passage[:_TEXT_CHARACTERS])
    is_cut = len(text) > _PASSAGE_CHARACTERS
    return f"“{text[: _PASSAGE_CHARACTERS - 1]}…”" if is_cut else f"“{text}”"


def _shortened(parts: Sequence[str], most: int = _ITEMS) -> str:
    more = len(parts) - most
    return ", ".join(parts[:most]) + (f", and {more} more" if more > 0 else "")
