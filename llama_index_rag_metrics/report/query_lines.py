"""A question's story in lines of text: what was wanted and where it was lost, and what came."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.model import (
    Answer,
    Cutoff,
    Found,
    Item,
    QueryAnswers,
    ReportedItem,
)

EXCERPT_CHARACTERS = 120
_TITLE_CHARACTERS = 8
"""A first line that is shorter is shown with what follows it."""

WANTED = 5
"""How many wanted passages are listed."""

_ITEMS = 10

_RANDOM = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{24,}", re.IGNORECASE)
"""A UUID or a digest."""

_LONG_ID = 24
_LEAST_PREFIX = 8
_BEFORE_CHANGE = 24


class WantedLine(NamedTuple):
    """A wanted passage: its name, an excerpt, and where the systems had it or lost it.

    Attributes:
        is_missed: whether any system lost it.
        passage: its whole text.
    """

    name: str
    text: str
    where: str
    is_missed: bool
    passage: str = ""

    def __str__(self) -> str:
        text = f" “{self.text}”" if self.text else ""
        return f"{self.name}{text}{f': {self.where}' if self.where else ''}"


def excerpt(text: str | None, most: int = EXCERPT_CHARACTERS) -> str:
    """A passage's title, which is its first line if that is short; else its first characters.

    >>> excerpt("Geysers of Enceladus\\nThey come from an ocean under the ice.")
    'Geysers of Enceladus'
    >>> excerpt("Enceladus has geysers, which come from an ocean.", most=30)
    'Enceladus has geysers, which…'
    """
    # what is beyond the excerpt isn't looked at: a text may be a book
    start = (text or "")[: 4 * most].lstrip()[: 2 * most]
    first = plain(start.partition("\n")[0])
    return _cut(first if len(first) >= _TITLE_CHARACTERS else plain(start), most)


def difference(old: str, new: str) -> tuple[str, str]:
    """Two texts from a few words before their first difference on.

    >>> difference("a " * 40 + "kiln at 980", "a " * 40 + "kiln at 1060")
    ('…a a a a a a a a kiln at 980', '…a a a a a a a a kiln at 1060')
    """
    old, new = plain(old), plain(new)
    pairs = enumerate(zip(old, new, strict=False))
    first = next((n for n, (one, other) in pairs if one != other), min(len(old), len(new)))
    start = old.rfind(" ", 0, max(0, first - _BEFORE_CHANGE)) + 1
    mark = "…" if start else ""
    return mark + _cut(old[start:], EXCERPT_CHARACTERS), mark + _cut(
        new[start:], EXCERPT_CHARACTERS
    )


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """Each id by the part in which it differs from the others: UUIDs, digests, common prefixes.

    >>> list(short_ids(["0b5cd3f1-9a53-4f0c-8a51-6f7f43ac0f39", "moons"]).values())
    ['0b5cd3f1…', 'moons']
    """
    distinct = list(dict.fromkeys(ids))
    for cut in (_beginning, _end):
        short = {name: plain(_RANDOM.sub(cut, str(name))) for name in distinct}
        if len(set(short.values())) == len(distinct):
            break
    else:
        short = {name: plain(str(name)) for name in distinct}
    long = [name for name in short.values() if len(name) > _LONG_ID]
    shared = _shared(long) if len(long) > 1 else ""
    if len(shared) < _LEAST_PREFIX:
        return short
    shorter = {name: f"…{name.removeprefix(shared)}" for name in long}
    return {name: shorter.get(known, known) for name, known in short.items()}


def wanted_line(query: QueryAnswers) -> str:
    """What is relevant, in one line, and where it was lost.

    >>> wanted_line(QueryAnswers("q1", "", wanted=[[Item("a1", 1), Item("a2", 1)], [Item("b", 2)]]))
    'a1 or a2; b [2]'
    """
    lines = list(map(str, wanted_lines(query)))
    if more := more_wanted(query):
        lines.append(f"{more} more")
    return "; ".join(lines)


def more_wanted(query: QueryAnswers) -> int:
    """How many needs there are beyond those that are listed."""
    return max(len(query.wanted) - WANTED, 0) + query.more


def wanted_lines(
    query: QueryAnswers, most: int = WANTED, names: Mapping[str, str] | None = None
) -> list[WantedLine]:
    """The first wanted passages, those that were lost before the others; `names` of ids.

    >>> found = {"io": Found(23)}
    >>> answer = Answer("bm25", score=None, retrieved=[], found=found)
    >>> wanted = [[Item("io", 1, text="Io has volcanoes.")], [Item("rhea", 1)]]
    >>> for line in wanted_lines(QueryAnswers("q1", "", wanted, [answer], cutoff=Cutoff(10))):
    ...     print(line)
    io “Io has volcanoes.”: rank 23, below the cutoff 10
    rhea: never retrieved
    """
    known = short_names(query) if names is None else names
    lines = [_wanted_line(query, need, known) for need in query.wanted]
    return sorted(lines, key=lambda line: not line.is_missed)[:most]


def wanted_item(query: QueryAnswers, item: Item, number: int) -> str:
    """One wanted passage, and where the system of this number had it or lost it."""
    where, is_missed = where_found(query, number, [item])
    name = _wanted_name(item, short_names(query))
    return str(WantedLine(name, excerpt(item.text), where, is_missed))


def found_line(query: QueryAnswers) -> str:
    """How much of what was wanted each system found, in one sentence.

    >>> answer = Answer("bm25", score=None, retrieved=[], found={"io": Found(2)})
    >>> found_line(QueryAnswers("q1", "", [[Item("io", 1)], [Item("rhea", 1)]], [answer]))
    'bm25 found 1 of 2 wanted passages.'
    """
    n = f"{len(query.wanted)} wanted passages{' that are stored' if query.more else ''}"
    parts = []
    for number, answer in enumerate(query.answers):
        places = [where_found(query, number, need) for need in query.wanted]
        known = [is_missed for where, is_missed in places if where]
        name = plain(answer.system)
        if answer.error is not None:
            parts.append(f"{name} failed: {plain(answer.error)}")
        elif known:
            parts.append(f"{name} found {known.count(False)} of {n}")
    if parts:
        return f"{'; '.join(parts)}."
    return "No ranking is known." if query.wanted else "Nothing is labelled as relevant."


def where_found(query: QueryAnswers, number: int, need: Sequence[Item]) -> tuple[str, bool]:
    """Where the system of this number had a wanted item, and whether it was lost.

    "" where nobody knows. Of alternatives, the best placed one counts.
    """
    answer = query.answers[number]
    if answer.found is None:
        return "", False
    if (best := _best(answer, need)) is not None:
        return _of_rank(best, query.cutoff)
    if query.stages:
        for earlier in range(number - 1, -1, -1):
            if (before := _best(query.answers[earlier], need)) is not None:
                stage = plain(query.answers[earlier + 1].system)
                return f"dropped by {stage} (was {before.rank})", True
    return "never retrieved", True


def retrieved_line(answer: Answer, most: int = 1, names: Mapping[str, str] | None = None) -> str:
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
        items = [retrieved_name(item, names) for item in answer.retrieved]
        return _shortened(items, most)
    return _with_text(answer.retrieved[0], names)


def retrieved_lines(
    query: QueryAnswers, answer: Answer, most: int, names: Mapping[str, str] | None = None
) -> list[str]:
    """One numbered line an item, with its text; one line in all where nothing was retrieved."""
    known = short_names(query) if names is None else names
    if answer.error is not None or not answer.retrieved or most == 1:
        return [line] if (line := retrieved_line(answer, 1, known)) else []
    shown = answer.retrieved[:most]
    return [f"{rank}. {_with_text(item, known)}" for rank, item in enumerate(shown, 1)]


def retrieved_name(item: ReportedItem, names: Mapping[str, str] | None = None) -> str:
    """An item that came, with its grade, or with what it stands for and by what that was seen."""
    known = _named(item.id, names)
    if item.stands_for:
        by = "" if item.why == "id" else f", by {item.why}"
        wanted = ", ".join(
            f"{_named(wanted.id, names)} [{wanted.grade:g}{by}]" for wanted in item.stands_for
        )
        return f"{known} = {wanted}"
    return known + ("" if item.grade is None else f" [{item.grade:g}]")


def call_lines(answer: Answer, most: int = 0, names: Mapping[str, str] | None = None) -> list[str]:
    """One line a call: who asked what, and what came, new or known; or the texts of what was new.

    With `most`, as many new items have a line each.

    >>> from llama_index_rag_metrics.report.model import CallAnswer
    >>> items = [ReportedItem("a", 1.0), ReportedItem("b", None)]
    >>> call = CallAnswer("moons", "search", items, [True, False])
    >>> call_lines(Answer("agent", score=None, calls=[call]))
    ['call 1, search: “moons”: a [1], b (known)']
    """
    lines = []
    for number, call in enumerate(answer.calls or (), 1):
        came = list(zip(call.retrieved, call.is_new, strict=True))
        new = [item for item, is_new in came if is_new]
        by = f", {plain(call.asked_by)}" if call.asked_by else ""
        asked = f"“{excerpt(call.query)}”"
        if call.error is not None:
            lines.append(f"call {number}{by}: {asked}: failed: {plain(call.error)}")
        elif most and came:
            lines.append(f"call {number}{by}: {len(came)} retrieved, {len(new)} new: {asked}")
        else:
            marks = {True: "", False: " (known)"}
            items = [retrieved_name(item, names) + marks[is_new] for item, is_new in came]
            outcome = _shortened(items) or "nothing retrieved"
            lines.append(f"call {number}{by}: {asked}: {outcome}")
        lines += [f"  {_with_text(item, names)}" for item in new[:most]]
    return lines


def short_names(query: QueryAnswers) -> dict[str, str]:
    """The ids of everything that a question's story names, shortened together."""
    ids = [item.id for need in query.wanted for item in need]
    for answer in query.answers:
        retrieved = [*(answer.retrieved or ())]
        retrieved += [item for call in answer.calls or () for item in call.retrieved]
        ids += [item.id for item in retrieved]
        ids += [wanted.id for item in retrieved for wanted in item.stands_for]
    return short_ids(ids)


def place_of(span: Span) -> str:
    return f"{plain(span.source)}, characters {span.start} to {span.end}"


def _wanted_line(query: QueryAnswers, need: Sequence[Item], names: Mapping[str, str]) -> WantedLine:
    name = " or ".join(_wanted_name(item, names) for item in need)
    passage = next((item.text for item in need if item.text), "")
    places = [where_found(query, number, need) for number in range(len(query.answers))]
    systems: dict[str, list[str]] = {}
    for (where, _), answer in zip(places, query.answers, strict=True):
        if where:
            systems.setdefault(where, []).append(plain(answer.system))
    if len(systems) > 1:
        words = "; ".join(f"{', '.join(of)}: {where}" for where, of in systems.items())
    else:
        words = next(iter(systems), "")
    is_missed = any(is_missed for _, is_missed in places)
    return WantedLine(name, excerpt(passage), words, is_missed, passage)


def _wanted_name(item: Item, names: Mapping[str, str]) -> str:
    place = f" ({place_of(item.passage)})" if isinstance(item.passage, Span) else ""
    grade = "" if item.grade == 1 else f" [{item.grade:g}]"
    return f"{_named(item.id, names)}{place}{grade}"


def _best(answer: Answer, need: Sequence[Item]) -> Found | None:
    known = answer.found or {}
    return min((known[item.id] for item in need if item.id in known), default=None)


def _of_rank(found: Found, cutoff: Cutoff | None) -> tuple[str, bool]:
    if cutoff is not None and cutoff.unit == "items" and found.rank > cutoff.at:
        return f"rank {found.rank:,}, below the cutoff {cutoff.at:,}", True
    is_budget = cutoff is not None and cutoff.unit == "tokens"
    if cutoff is not None and is_budget and found.tokens is not None and found.tokens > cutoff.at:
        return f"over the budget of {cutoff.at:,} tokens", True
    return f"rank {found.rank:,}", False


def _with_text(item: ReportedItem, names: Mapping[str, str] | None) -> str:
    return f"{retrieved_name(item, names)}  {excerpt(item.text)}".rstrip()


def _named(item: str, names: Mapping[str, str] | None) -> str:
    return (names or {}).get(item) or plain(str(item))


def _cut(line: str, most: int) -> str:
    """At most so many characters, ended between words where that keeps half of them."""
    if len(line) <= most:
        return line
    cut = line[: most - 1]
    whole = cut.rpartition(" ")[0] if line[most - 1] != " " else cut
    return f"{whole if len(whole) > most // 2 else cut}…".replace(" …", "…")


def _shared(names: Sequence[str]) -> str:
    """What all names begin with, up to a sign that parts them."""
    first, last = min(names), max(names)
    pairs = enumerate(zip(first, last, strict=False))
    n = next((n for n, (one, other) in pairs if one != other), len(first))
    return re.sub(r"[^/:#_.-]*$", "", first[:n])


def _beginning(match: re.Match[str]) -> str:
    return f"{match[0][:8]}…"


def _end(match: re.Match[str]) -> str:
    return f"…{match[0][-8:]}"


def _shortened(parts: Sequence[str], most: int = _ITEMS) -> str:
    more = len(parts) - most
    return ", ".join(parts[:most]) + (f", and {more} more" if more > 0 else "")
