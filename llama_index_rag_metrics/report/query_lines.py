"""A question's story in lines of text: what is relevant and where it was lost, and what came."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rich.cells import cell_len

from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.model import (
    Answer,
    CallAnswer,
    Cutoff,
    Found,
    Item,
    QueryAnswers,
    ReportedItem,
)
from llama_index_rag_metrics.report.words import is_unspaced, where_most, words_of

EXCERPT_CHARACTERS = 120
_TITLE_CELLS = 4
"""A first line that is narrower is no title; a Chinese or Korean sign is two cells wide."""

_REST_CHARACTERS = 20
"""With less room, a title stands alone."""

WANTED = 5
"""How many relevant passages are listed."""

_WANTED_OF_CALLS = 3
"""How many are listed below the calls of an agent."""

_FIRST_MISSED = 2
"""So many of those that were missed are listed, whatever else was found."""

_FURTHER_HITS = 3
"""How many relevant passages are shown beyond the first items."""

_WINDOW, _BEFORE_WORD = 60, 8
_LOOKED_THROUGH = 4_000
"""How many characters are in sight, come before the first word sought, and are looked through."""

_RANDOM = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{24,}", re.IGNORECASE)
"""A UUID or a digest."""

_LONG_ID = 24
_LEAST_PREFIX = 8
_BEFORE_CHANGE = 24


NEVER = "never retrieved"
BELOW = "below the cutoff"
OVER = "over the token budget"
OTHER_ID = "under another id"
DROPPED = "dropped by a later stage"
IN_CALL = "in a call, not in the result"
LOSSES = (NEVER, BELOW, OVER, OTHER_ID, DROPPED, IN_CALL)
"""The ways in which a relevant passage is lost."""

UNMET = "no relevant passage meets it"
"""What is said of a group, or a facet, that nothing can meet."""


class Place(NamedTuple):
    """Where a system has a relevant passage, in words, "" where nobody knows; `loss` is how it was
    lost, "" where it wasn't.
    """

    words: str
    loss: str = ""


class Standing(NamedTuple):
    """A need, by its position among those of a query, and where each system met it or didn't.

    Attributes:
        is_missed: whether every system lost it; of stages, whether the last one has lost it.
    """

    need: int
    places: Sequence[Place]
    is_missed: bool

    def words(self, names: Iterable[str]) -> list[tuple[str, str]]:
        """Each place in words, with the systems for which it holds: "" for all of them."""
        systems: dict[str, list[str]] = {}
        for place, name in zip(self.places, names, strict=True):
            if place.words:
                systems.setdefault(place.words, []).append(name)
        return [
            (words, "" if len(of) == len(self.places) else ", ".join(of))
            for words, of in systems.items()
        ]


class WantedLine(NamedTuple):
    """A relevant passage: its name, an excerpt, and where the systems had it or lost it.

    Attributes:
        is_missed: as of its `Standing`.
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
    title, rest = titled(text, most)
    return title or rest


def titled(text: str | None, most: int = EXCERPT_CHARACTERS) -> tuple[str, str]:
    r"""A passage's title, "" without one, and the beginning of what follows it.

    >>> titled("送燒須知\n素燒排在星期二晚上")
    ('送燒須知', '素燒排在星期二晚上')
    """
    # what is beyond the excerpt isn't looked at: a text may be a book
    start = (text or "")[: 4 * most].lstrip()[: 2 * most]
    line, _, further = start.partition("\n")
    title, rest = plain(re.sub(r"^#+\s+", "", line)), plain(further)
    if not rest or len(title) > most or cell_len(title) < _TITLE_CELLS:
        return "", cut(plain(start), most)
    room = most - len(title) - 1
    return title, cut(rest, room) if room >= _REST_CHARACTERS else ""


def beginning(text: str | None, most: int = EXCERPT_CHARACTERS) -> str:
    """A passage cut to about so many characters, its title in a line of its own."""
    return "\n".join(filter(None, titled(text, most)))


def passage_line(text: str | None, question: str = "") -> str:
    r"""A passage in one line, its title in quotation marks.

    It begins where it has most words of a question.

    >>> passage_line("Geysers of Enceladus\nThey come from an ocean under the ice.")
    '“Geysers of Enceladus” They come from an ocean under the ice.'
    """
    title, rest = titled(text)
    body = (text or "")[:_LOOKED_THROUGH]
    body = plain(body.lstrip().partition("\n")[2] if title else body)
    if start := where_most(body, {word.stem for word in words_of(question)}, _WINDOW):
        word = body.find(" ", max(0, start - _BEFORE_WORD), start) + 1
        rest = f"…{cut(body[word or start :])}"
    return f"“{title}” {rest}".rstrip() if title else rest


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
    return mark + cut(old[start:]), mark + cut(new[start:])


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


def more_wanted(query: QueryAnswers) -> str:
    """How many needs there are beyond those that are listed, in words; "" for none."""
    n = max(len(query.wanted) - most_wanted(query), 0) + query.more
    return f"and {n:,} more relevant" if n else ""


def most_wanted(query: QueryAnswers) -> int:
    """How many relevant passages are listed: fewer where calls are."""
    return _WANTED_OF_CALLS if has_calls(query) else WANTED


def has_calls(query: QueryAnswers) -> bool:
    """Whether any system called its retrievers itself; then calls come before what is relevant."""
    return any(answer.calls is not None for answer in query.answers)


def standings(query: QueryAnswers, names: Mapping[str, str] | None = None) -> list[Standing]:
    """Where each need was met or lost, those first that the fewest systems met; `names` of ids.

    Those that are listed (`most_wanted`) come before the others, whatever was met among them.
    """
    found = []
    for number, need in enumerate(query.wanted):
        places = [where_found(query, system, need, names) for system in range(len(query.answers))]
        known = [place for place in places if place.words]
        deciding = known[-1:] if query.stages else known
        is_missed = bool(known) and all(place.loss for place in deciding)
        found.append(Standing(number, places, is_missed))
    found.sort(key=_n_meeting)
    n_missed = sum(standing.is_missed for standing in found)
    missed, met = found[:n_missed], found[n_missed:]
    n_first = max(_FIRST_MISSED, most_wanted(query) - len(met))
    n_met = max(0, most_wanted(query) - n_first)
    return [*missed[:n_first], *met[:n_met], *missed[n_first:], *met[n_met:]]


def _n_meeting(standing: Standing) -> tuple[bool, int]:
    n_met = sum(bool(place.words) and not place.loss for place in standing.places)
    return not standing.is_missed, n_met


def wanted_lines(
    query: QueryAnswers, most: int | None = None, names: Mapping[str, str] | None = None
) -> list[WantedLine]:
    """The first relevant passages, in the order of `standings`; `names` of ids.

    >>> found = {"io": Found(23)}
    >>> answer = Answer("bm25", score=None, retrieved=[], found=found)
    >>> wanted = [[Item("io", 1, text="Io has volcanoes.")], [Item("rhea", 1)]]
    >>> for line in wanted_lines(QueryAnswers("q1", "", wanted, [answer], cutoff=Cutoff(10))):
    ...     print(line)
    io [1] “Io has volcanoes.”: rank 23, below the cutoff 10
    rhea [1]: never retrieved
    """
    known = short_names(query) if names is None else names
    shown = standings(query, known)[: most or most_wanted(query)]
    return [_wanted_line(query, standing, known) for standing in shown]


def wanted_item(query: QueryAnswers, item: Item, number: int) -> str:
    """One relevant passage, and where the system of this number had it or lost it."""
    names = short_names(query)
    place = where_found(query, number, [item], names)
    name = _wanted_name(item, names)
    return str(WantedLine(name, excerpt(item.text), place.words, bool(place.loss)))


def found_line(query: QueryAnswers) -> str:
    """How many of the relevant passages each system found, in one sentence.

    >>> answer = Answer("bm25", score=None, retrieved=[], found={"io": Found(2)})
    >>> found_line(QueryAnswers("q1", "", [[Item("io", 1)], [Item("rhea", 1)]], [answer]))
    'bm25 found 1 of 2 relevant passages.'
    """
    parts = []
    for answer, places in zip(query.answers, _places_by_system(query), strict=True):
        known = [bool(place.loss) for place in places if place.words]
        name = plain(answer.system)
        if answer.error is not None:
            parts.append(f"{name} failed: {plain(answer.error)}")
        elif known:
            n = f"{len(known)} relevant passage{'' if len(known) == 1 else 's'}"
            stored = " that are stored" if query.more or len(known) < len(places) else ""
            parts.append(f"{name} found {known.count(False)} of {n}{stored}")
    if parts:
        return f"{'; '.join(parts)}."
    return "No ranking is known." if query.wanted else "Nothing is labelled as relevant."


def _places_by_system(query: QueryAnswers) -> list[list[Place]]:
    return [
        [where_found(query, number, need) for need in query.wanted]
        for number in range(len(query.answers))
    ]


def where_found(
    query: QueryAnswers, number: int, need: Sequence[Item], names: Mapping[str, str] | None = None
) -> Place:
    """Where the system of this number met a need, or lost what would.

    Of alternatives, the best placed one counts.
    """
    answer = query.answers[number]
    known = answer.known is None or any(item.id in answer.known for item in need)
    if answer.found is None or not known:
        return Place("")
    if not any(item.grade for item in need):
        return Place(UNMET, UNMET)
    if (best := best_place(answer, need)) is not None:
        return _of_rank(best, query.cutoff)
    if query.stages:
        for earlier in range(number - 1, -1, -1):
            if (before := best_place(query.answers[earlier], need)) is not None:
                stage = plain(query.answers[earlier + 1].system)
                return Place(f"dropped by {stage} (was {before.rank})", DROPPED)
    ids = [item.id for item in need]
    if call := min((answer.in_call[item] for item in ids if item in answer.in_call), default=0):
        return Place(f"call {call} had it, the result doesn't", IN_CALL)
    if same := min((answer.same_text[i] for i in ids if i in answer.same_text), default=None):
        return Place(f"rank {same.rank:,}, {OTHER_ID} ({_named(same.id, names)})", OTHER_ID)
    return Place(NEVER, NEVER)


def best_place(answer: Answer, need: Sequence[Item]) -> Found | None:
    """The first place of what meets a need, wherever the metric stops reading."""
    known = answer.found or {}
    return min((known[item.id] for item in need if item.id in known), default=None)


class Line(NamedTuple):
    """A line about what came."""

    text: str
    is_hit: bool = False


def came_lines(
    query: QueryAnswers, answer: Answer, most: int, names: Mapping[str, str] | None = None
) -> list[Line]:
    """What came: one numbered line an item, or the calls, and how many more there are.

    With `most` 1, the first item in one line, or one line a call.
    """
    known = short_names(query) if names is None else names
    calls = call_lines(answer, 0 if most == 1 else most, known)
    if answer.error is None and answer.calls is not None and is_sum(answer):
        return calls or [Line("no search was made")]
    items, ranks = answer.retrieved or (), answer.all_ranks
    if not items or answer.error is not None:
        return [*calls, *map(Line, retrieved_lines(query, answer, most, known))]
    lines, last = [], -1
    for position in shown_positions(answer, most):
        if between := [rank for rank in ranks[last + 1 : position] if rank is not None]:
            ends = dict.fromkeys((between[0], between[-1]))
            lines.append(Line(f"{' to '.join(f'{rank}.' for rank in ends)} none relevant"))
        text = _item_line(answer, position, known, is_numbered=most > 1)
        lines.append(Line(text, items[position].is_hit))
        last = position
    n = len(items) - last - 1 + answer.more
    more = [Line(f"and {n:,} more")] if n and most > 1 else []
    return [*calls, *([Line("together:")] if calls else []), *lines, *more]


def shown_positions(answer: Answer, most: int) -> list[int]:
    """Positions of the first items, and of more than one also of the first hits beyond them."""
    items, ranks = answer.retrieved or (), answer.all_ranks
    further = range(most, len(items) if most > 1 else 0)
    hits = [n for n in further if items[n].is_hit and ranks[n] is not None]
    return [*range(min(most, len(items))), *hits[:_FURTHER_HITS]]


def retrieved_lines(
    query: QueryAnswers, answer: Answer, most: int, names: Mapping[str, str] | None = None
) -> list[str]:
    """One numbered line an item, with its text; one line in all where nothing was retrieved.

    >>> answer = Answer("bm25", score=None, retrieved=[ReportedItem("c1", 2.0, "Io.")])
    >>> retrieved_lines(QueryAnswers("q1", "", answers=[answer]), answer, 3)
    ['1. c1 [2]  Io.']
    """
    if answer.error is not None:
        return [f"failed: {plain(answer.error)}"]
    if not answer.retrieved:
        return [] if answer.retrieved is None else ["nothing retrieved"]
    known = short_names(query) if names is None else names
    positions = range(min(most, len(answer.retrieved)))
    return [_item_line(answer, n, known, is_numbered=most > 1) for n in positions]


def _item_line(
    answer: Answer, position: int, names: Mapping[str, str], *, is_numbered: bool
) -> str:
    item, rank = (answer.retrieved or ())[position], answer.all_ranks[position]
    line = f"{retrieved_name(item, names, answer)}  {passage_line(item.text)}".rstrip()
    if not is_numbered:
        return line
    return f"{'again:' if rank is None else f'{rank}.'} {line}"


def retrieved_name(
    item: ReportedItem, names: Mapping[str, str] | None = None, answer: Answer | None = None
) -> str:
    """An item that came, with its grade, or with what it stands for and by what that was seen.

    Of an `answer`, it says whose text it has under another id.
    """
    known = _named(item.id, names)
    if item.stands_for:
        by = "" if item.why == "id" else f", by {item.why}"
        wanted = ", ".join(
            f"{_named(wanted.id, names)} [{wanted.grade:g}]" for wanted in item.stands_for
        )
        return f"{known} is {wanted}{by}"
    same_text = answer.same_text if answer else {}
    same = [_named(wanted, names) for wanted, came in same_text.items() if came.id == item.id]
    grade = "" if item.grade is None else f" [{item.grade:g}]"
    return known + grade + (f" (same text as {', '.join(same)})" if same else "")


def call_lines(answer: Answer, most: int = 0, names: Mapping[str, str] | None = None) -> list[Line]:
    """One line a call: what was asked, and how much of what came is relevant; then its first items.

    >>> from llama_index_rag_metrics.report.model import CallAnswer
    >>> items = [ReportedItem("a", 1.0), ReportedItem("b", None)]
    >>> call = CallAnswer("moons", "search", items, [True, False])
    >>> call_lines(Answer("agent", score=None, calls=[call]))[0].text
    '1. “moons” → 2 passages, 1 relevant and new (search)'
    """
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


def call_outcome(call: CallAnswer) -> str:
    """How many passages a call returned, and how many of them are relevant."""
    if call.error is not None:
        return f"failed: {plain(call.error)}"
    if not call.retrieved:
        return "nothing retrieved"
    hits = [new for item, new in zip(call.retrieved, call.is_new, strict=True) if item.is_hit]
    words = {"relevant and new": hits.count(True), "relevant again": hits.count(False)}
    known = ", ".join(f"{n} {word}" for word, n in words.items() if n) or "none relevant"
    n = len(call.retrieved)
    return f"{n} passage{'' if n == 1 else 's'}, {known}"


def is_sum(answer: Answer) -> bool:
    """Whether the ranking is that of the calls one after another, and so says nothing new."""
    came = [item.id for call in answer.calls or () for item in call.retrieved]
    return [item.id for item in answer.retrieved or ()] == list(dict.fromkeys(came))


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


def _wanted_line(query: QueryAnswers, standing: Standing, names: Mapping[str, str]) -> WantedLine:
    need = query.wanted[standing.need]
    name = " or ".join(_wanted_name(item, names) for item in need)
    passage = next((item.text for item in need if item.text), "")
    places = standing.words(plain(answer.system) for answer in query.answers)
    where = "; ".join(f"{of}: {words}" if of else words for words, of in places)
    return WantedLine(name, excerpt(passage), where, standing.is_missed, passage)


def _wanted_name(item: Item, names: Mapping[str, str]) -> str:
    place = f" ({place_of(item.passage)})" if isinstance(item.passage, Span) else ""
    grade = f" [{item.grade:g}]" if item.grade else ""
    return f"{_named(item.id, names)}{place}{grade}"


def _of_rank(found: Found, cutoff: Cutoff | None) -> Place:
    if cutoff is not None and cutoff.unit == "items" and found.rank > cutoff.at:
        return Place(f"rank {found.rank:,}, {BELOW} {cutoff.at:,}", BELOW)
    is_budget = cutoff is not None and cutoff.unit == "tokens"
    if cutoff is not None and is_budget and found.tokens is not None and found.tokens > cutoff.at:
        return Place(f"over the budget of {cutoff.at:,} tokens", OVER)
    return Place(f"rank {found.rank:,}")


def _named(item: str, names: Mapping[str, str] | None) -> str:
    return (names or {}).get(item) or plain(str(item))


def cut(line: str, most: int = EXCERPT_CHARACTERS) -> str:
    """At most so many characters, ended between words where that keeps half of them.

    Where no blanks part words, any character may be the last.
    """
    if len(line) <= most:
        return line
    start = line[: most - 1]
    if is_unspaced(start[-1:]):
        return f"{start}…"
    whole = start.rpartition(" ")[0] if line[most - 1] != " " else start
    return f"{(whole if len(whole) > most // 2 else start).rstrip()}…"


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
