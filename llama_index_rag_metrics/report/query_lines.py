"""A question's story in lines of text: what is relevant and where it was lost, and what came."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from llama_index_rag_metrics.rankings.span import Span

from . import model as m
from .escape import terminal as plain
from .excerpts import excerpt, named, passage_line, short_ids
from .numbers import counted
from .whereabouts import has_calls, most_wanted, standings, where_found

T = TypeVar("T")

_FURTHER_HITS = 3  # how many relevant passages are shown beyond the first items


class WantedLine(NamedTuple):
    """A relevant passage: its name, its text, and where the systems had it or lost it."""

    name: str
    passage: str
    where: str
    is_missed: bool

    def __str__(self) -> str:
        line = self.name
        passage = excerpt(self.passage)
        if passage:
            line += f" “{passage}”"
        if self.where:
            line += f": {self.where}"
        return line


class Line(NamedTuple):
    """A line about what came."""

    text: str
    is_hit: bool = False


def more_wanted(query: m.QueryAnswers) -> str:
    """How many needs there are beyond those that are listed, in words; "" for none."""
    n = len(query.wanted) - most_wanted(query)
    if n <= 0:
        return ""
    return f"and {n:,} more relevant"


def in_order(query: m.QueryAnswers, relevant: T, came: T) -> tuple[T, T]:
    """What is relevant and what came; the calls of agents come first."""
    if has_calls(query):
        return came, relevant
    return relevant, came


def wanted_lines(query: m.QueryAnswers, names: Mapping[str, str] | None = None) -> list[WantedLine]:
    """The first relevant passages, in the order of `standings`; `names` of ids."""
    if names is None:
        names = short_ids_of(query)
    systems = [plain(answer.system) for answer in query.answers]
    lines = []
    for standing in standings(query, names)[: most_wanted(query)]:
        need = query.wanted[standing.need]
        name = " or ".join(_wanted_name(item, names) for item in need)
        passage = next((item.text for item in need if item.text), "")
        places = []
        for words, holder in standing.words(systems):
            places.append(f"{holder}: {words}" if holder else words)
        lines.append(WantedLine(name, passage, "; ".join(places), standing.is_missed))
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
            passages = counted(len(is_lost), "relevant passage", "relevant passages")
            parts.append(f"{name} found {is_lost.count(False)} of {passages}")
    if parts:
        return f"{'; '.join(parts)}."
    if query.wanted:
        return "No ranking is known."
    return "Nothing is labelled as relevant."


def came_lines(
    query: m.QueryAnswers, answer: m.Answer, most: int, names: Mapping[str, str] | None = None
) -> list[Line]:
    """What came, one line an item or a call, and how many more; with `most` 1, the first alone."""
    if names is None:
        names = short_ids_of(query)
    is_listed = most > 1
    lines = call_lines(answer, most if is_listed else 0, names)
    items, ranks = answer.retrieved or (), answer.all_ranks
    if answer.error is None and answer.calls is not None and _is_sum(answer):
        return lines or [Line("no search was made")]
    if answer.error is not None or not items:
        return [*lines, *map(Line, retrieved_lines(query, answer, most, names))]
    if lines:
        lines.append(Line("together:"))
    positions = list(range(min(most, len(items))))
    if is_listed:
        beyond = range(most, len(items))
        hits = [n for n in beyond if items[n].is_hit and ranks[n] is not None]
        positions += hits[:_FURTHER_HITS]
    last = -1
    for position in positions:
        skipped = [rank for rank in ranks[last + 1 : position] if rank is not None]
        if skipped:
            ends = dict.fromkeys([f"{skipped[0]}.", f"{skipped[-1]}."])
            lines.append(Line(f"{' to '.join(ends)} none labelled relevant"))
        text = _item_line(answer, position, names, is_numbered=is_listed)
        lines.append(Line(text, items[position].is_hit))
        last = position
    n_unlisted = len(items) - last - 1
    if n_unlisted and is_listed:
        lines.append(Line(f"and {n_unlisted:,} more"))
    return lines


def retrieved_lines(
    query: m.QueryAnswers, answer: m.Answer, most: int, names: Mapping[str, str] | None = None
) -> list[str]:
    """One numbered line an item, with its text; one line in all where nothing was retrieved."""
    if answer.error is not None:
        return [f"failed: {plain(answer.error)}"]
    if answer.retrieved is None:
        return []
    if not answer.retrieved:
        return ["nothing retrieved"]
    if names is None:
        names = short_ids_of(query)
    positions = range(min(most, len(answer.retrieved)))
    return [_item_line(answer, n, names, is_numbered=most > 1) for n in positions]


def _item_line(
    answer: m.Answer, position: int, names: Mapping[str, str], *, is_numbered: bool
) -> str:
    item, rank = (answer.retrieved or ())[position], answer.all_ranks[position]
    line = f"{retrieved_name(item, names, answer)}  {passage_line(item.text)}".rstrip()
    if not is_numbered:
        return line
    if rank is None:
        return f"again: {line}"
    return f"{rank}. {line}"


def retrieved_name(
    item: m.ReportedItem, names: Mapping[str, str] | None = None, answer: m.Answer | None = None
) -> str:
    """An item with its grade, or with what it stands for or, of an `answer`, has the text of."""
    name = named(item.id, names)
    if item.stands_for:
        labels = [f"{named(label.id, names)} [{label.grade:g}]" for label in item.stands_for]
        name += f" is {', '.join(labels)}"
        if item.why != "id":
            name += f", by {item.why}"
        return name
    if item.grade is not None:
        name += f" [{item.grade:g}]"
    if answer is not None:
        matches = answer.same_text.items()
        labels = [named(label, names) for label, match in matches if match.id == item.id]
        if labels:
            name += f" (same text as {', '.join(labels)})"
    return name


def call_lines(
    answer: m.Answer, most: int = 0, names: Mapping[str, str] | None = None
) -> list[Line]:
    """One line a call: what was asked, and how much of what came is relevant; its items."""
    lines = []
    for number, call in enumerate(answer.calls or (), 1):
        head = f"{number}. “{excerpt(call.query)}” → {call_outcome(call)}"
        if call.asked_by:
            head += f" ({plain(call.asked_by)})"
        lines.append(Line(head))
        for item, is_new in list(zip(call.retrieved, call.is_new, strict=True))[:most]:
            name = retrieved_name(item, names, answer)
            if item.is_hit and not is_new:
                name += ", again"
            lines.append(Line(f"   {name}  {passage_line(item.text)}".rstrip(), item.is_hit))
        n_unlisted = len(call.retrieved) - most
        if most and n_unlisted > 0:
            lines.append(Line(f"   and {n_unlisted:,} more"))
    return lines


def call_outcome(call: m.CallAnswer) -> str:
    """How many passages a call returned, and how many of them are relevant."""
    if call.error is not None:
        return f"failed: {plain(call.error)}"
    if not call.retrieved:
        return "nothing retrieved"
    parts = [counted(len(call.retrieved), "passage", "passages")]
    hits = [new for item, new in zip(call.retrieved, call.is_new, strict=True) if item.is_hit]
    if True in hits:
        parts.append(f"{hits.count(True)} relevant and new")
    if False in hits:
        parts.append(f"{hits.count(False)} relevant again")
    if not hits:
        parts.append("none labelled relevant")
    return ", ".join(parts)


def _is_sum(answer: m.Answer) -> bool:
    """Whether the ranking is that of the calls one after another, and so says nothing new."""
    ids: dict[str, None] = {}
    for call in answer.calls or ():
        ids |= dict.fromkeys(item.id for item in call.retrieved)
    return [item.id for item in answer.retrieved or ()] == list(ids)


def short_ids_of(query: m.QueryAnswers) -> dict[str, str]:
    """The ids of everything that a question's story names, shortened together."""
    ids = []
    for need in query.wanted:
        ids += [item.id for item in need]
    for answer in query.answers:
        retrieved = [*(answer.retrieved or ())]
        for call in answer.calls or ():
            retrieved += call.retrieved
        for item in retrieved:
            ids += [item.id, *(label.id for label in item.stands_for)]
    return short_ids(ids)


def place_of(span: Span) -> str:
    return f"{plain(span.source)}, characters {span.start} to {span.end}"


def _wanted_name(item: m.Item, names: Mapping[str, str]) -> str:
    name = named(item.id, names)
    if isinstance(item.passage, Span):
        name += f" ({place_of(item.passage)})"
    if item.grade:
        name += f" [{item.grade:g}]"
    return name
