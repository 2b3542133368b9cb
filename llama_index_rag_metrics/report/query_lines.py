"""A question's story in lines of text: what is relevant and where it was lost, and what came."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.excerpts import excerpt, named, passage_line, short_ids
from llama_index_rag_metrics.report.whereabouts import (
    has_calls,
    most_wanted,
    standings,
    where_found,
)

T = TypeVar("T")

_FURTHER_HITS = 3  # how many relevant passages are shown beyond the first items


class WantedLine(NamedTuple):
    """A relevant passage: its name, its text, and where the systems had it or lost it."""

    name: str
    passage: str
    where: str
    is_missed: bool

    def __str__(self) -> str:
        text = f" “{text_shown}”" if (text_shown := excerpt(self.passage)) else ""
        return f"{self.name}{text}{f': {self.where}' if self.where else ''}"


def more_wanted(query: m.QueryAnswers) -> str:
    """How many needs there are beyond those that are listed, in words; "" for none."""
    n = max(len(query.wanted) - most_wanted(query), 0)
    return f"and {n:,} more relevant" if n else ""


def in_order(query: m.QueryAnswers, relevant: T, came: T) -> tuple[T, T]:
    """What is relevant and what came; the calls of agents come first."""
    return (came, relevant) if has_calls(query) else (relevant, came)


def wanted_lines(
    query: m.QueryAnswers, most: int | None = None, names: Mapping[str, str] | None = None
) -> list[WantedLine]:
    """The first relevant passages, in the order of `standings`; `names` of ids."""
    short_names = short_ids_of(query) if names is None else names
    systems = [plain(answer.system) for answer in query.answers]
    lines = []
    for standing in standings(query, short_names)[: most or most_wanted(query)]:
        need = query.wanted[standing.need]
        name = " or ".join(_wanted_name(item, short_names) for item in need)
        passage = next((item.text for item in need if item.text), "")
        places = standing.words(systems)
        whereabouts = "; ".join(
            f"{holder}: {words}" if holder else words for words, holder in places
        )
        lines.append(WantedLine(name, passage, whereabouts, standing.is_missed))
    return lines


def wanted_item(query: m.QueryAnswers, item: m.Item, number: int) -> str:
    """One relevant passage, and where the system of this number had it or lost it."""
    names = short_ids_of(query)
    place = where_found(query, number, [item], names)
    name = _wanted_name(item, names)
    return str(WantedLine(name, item.text or "", place.words, bool(place.loss)))


def found_line(query: m.QueryAnswers) -> str:
    """How many of the relevant passages each system found, in one sentence."""
    parts = []
    for number, answer in enumerate(query.answers):
        places = [where_found(query, number, need) for need in query.wanted]
        is_lost = [bool(place.loss) for place in places if place.words]
        name = plain(answer.system)
        if answer.error is not None:
            parts.append(f"{name} failed: {plain(answer.error)}")
        elif is_lost:
            n = f"{len(is_lost)} relevant passage{'' if len(is_lost) == 1 else 's'}"
            parts.append(f"{name} found {is_lost.count(False)} of {n}")
    if parts:
        return f"{'; '.join(parts)}."
    return "No ranking is known." if query.wanted else "Nothing is labelled as relevant."


class Line(NamedTuple):
    """A line about what came."""

    text: str
    is_hit: bool = False


def came_lines(
    query: m.QueryAnswers, answer: m.Answer, most: int, names: Mapping[str, str] | None = None
) -> list[Line]:
    """What came, one line an item or a call, and how many more; with `most` 1, the first alone."""
    short_names = short_ids_of(query) if names is None else names
    calls = call_lines(answer, 0 if most == 1 else most, short_names)
    if answer.error is None and answer.calls is not None and is_sum(answer):
        return calls or [Line("no search was made")]
    items, ranks = answer.retrieved or (), answer.all_ranks
    if not items or answer.error is not None:
        return [*calls, *map(Line, retrieved_lines(query, answer, most, short_names))]
    lines, last = [], -1
    for position in shown_positions(answer, most):
        if between := [rank for rank in ranks[last + 1 : position] if rank is not None]:
            ends = dict.fromkeys((between[0], between[-1]))
            lines.append(Line(f"{' to '.join(f'{rank}.' for rank in ends)} none labelled relevant"))
        text = _item_line(answer, position, short_names, is_numbered=most > 1)
        lines.append(Line(text, items[position].is_hit))
        last = position
    n = len(items) - last - 1
    last_line = [Line(f"and {n:,} more")] if n and most > 1 else []
    return [*calls, *([Line("together:")] if calls else []), *lines, *last_line]


def shown_positions(answer: m.Answer, most: int) -> list[int]:
    """Positions of the first items, and of more than one also of the first hits beyond them."""
    items, ranks = answer.retrieved or (), answer.all_ranks
    positions = range(most, len(items) if most > 1 else 0)
    hits = [n for n in positions if items[n].is_hit and ranks[n] is not None]
    return [*range(min(most, len(items))), *hits[:_FURTHER_HITS]]


def retrieved_lines(
    query: m.QueryAnswers, answer: m.Answer, most: int, names: Mapping[str, str] | None = None
) -> list[str]:
    """One numbered line an item, with its text; one line in all where nothing was retrieved."""
    if answer.error is not None:
        return [f"failed: {plain(answer.error)}"]
    if not answer.retrieved:
        return [] if answer.retrieved is None else ["nothing retrieved"]
    short_names = short_ids_of(query) if names is None else names
    positions = range(min(most, len(answer.retrieved)))
    return [_item_line(answer, n, short_names, is_numbered=most > 1) for n in positions]


def _item_line(
    answer: m.Answer, position: int, names: Mapping[str, str], *, is_numbered: bool
) -> str:
    item, rank = (answer.retrieved or ())[position], answer.all_ranks[position]
    line = f"{retrieved_name(item, names, answer)}  {passage_line(item.text)}".rstrip()
    if not is_numbered:
        return line
    return f"{'again:' if rank is None else f'{rank}.'} {line}"


def retrieved_name(
    item: m.ReportedItem, names: Mapping[str, str] | None = None, answer: m.Answer | None = None
) -> str:
    """An item with its grade, or with what it stands for or, of an `answer`, has the text of."""
    short_name = named(item.id, names)
    if item.stands_for:
        by = "" if item.why == "id" else f", by {item.why}"
        labels = [f"{named(label.id, names)} [{label.grade:g}]" for label in item.stands_for]
        return f"{short_name} is {', '.join(labels)}{by}"
    same_text = answer.same_text if answer else {}
    names_of_text = [
        named(labels, names) for labels, match in same_text.items() if match.id == item.id
    ]
    grade = "" if item.grade is None else f" [{item.grade:g}]"
    return (
        short_name
        + grade
        + (f" (same text as {', '.join(names_of_text)})" if names_of_text else "")
    )


def call_lines(
    answer: m.Answer, most: int = 0, names: Mapping[str, str] | None = None
) -> list[Line]:
    """One line a call: what was asked, and how much of what came is relevant; its items."""
    lines = []
    for number, call in enumerate(answer.calls or (), 1):
        by = f" ({plain(call.asked_by)})" if call.asked_by else ""
        lines.append(Line(f"{number}. “{excerpt(call.query)}” → {call_outcome(call)}{by}"))
        for item, new in list(zip(call.retrieved, call.is_new, strict=True))[:most]:
            again = ", again" if item.is_hit and not new else ""
            text = f"   {retrieved_name(item, names, answer)}{again}  {passage_line(item.text)}"
            lines.append(Line(text.rstrip(), item.is_hit))
        if most and (n := len(call.retrieved) - most) > 0:
            lines.append(Line(f"   and {n:,} more"))
    return lines


def call_outcome(call: m.CallAnswer) -> str:
    """How many passages a call returned, and how many of them are relevant."""
    if call.error is not None:
        return f"failed: {plain(call.error)}"
    if not call.retrieved:
        return "nothing retrieved"
    hits = [new for item, new in zip(call.retrieved, call.is_new, strict=True) if item.is_hit]
    words = {"relevant and new": hits.count(True), "relevant again": hits.count(False)}
    counts = ", ".join(f"{n} {word}" for word, n in words.items() if n) or "none labelled relevant"
    n = len(call.retrieved)
    return f"{n} passage{'' if n == 1 else 's'}, {counts}"


def is_sum(answer: m.Answer) -> bool:
    """Whether the ranking is that of the calls one after another, and so says nothing new."""
    ids = [item.id for call in answer.calls or () for item in call.retrieved]
    return [item.id for item in answer.retrieved or ()] == list(dict.fromkeys(ids))


def short_ids_of(query: m.QueryAnswers) -> dict[str, str]:
    """The ids of everything that a question's story names, shortened together."""
    ids = [item.id for need in query.wanted for item in need]
    for answer in query.answers:
        retrieved = [*(answer.retrieved or ())]
        retrieved += [item for call in answer.calls or () for item in call.retrieved]
        ids += [item.id for item in retrieved]
        ids += [label.id for item in retrieved for label in item.stands_for]
    return short_ids(ids)


def place_of(span: Span) -> str:
    return f"{plain(span.source)}, characters {span.start} to {span.end}"


def _wanted_name(item: m.Item, names: Mapping[str, str]) -> str:
    place = f" ({place_of(item.passage)})" if isinstance(item.passage, Span) else ""
    grade = f" [{item.grade:g}]" if item.grade else ""
    return f"{named(item.id, names)}{place}{grade}"
