"""Questions in HTML: a line that unfolds into why it failed, and the rank of each passage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import html as escape
from llama_index_rag_metrics.report.escape import terminal
from llama_index_rag_metrics.report.excerpts import cut_line, named, titled
from llama_index_rag_metrics.report.numbers import kept_score, shown
from llama_index_rag_metrics.report.query_lines import (
    call_outcome,
    is_sum,
    place_of,
    retrieved_name,
    short_ids_of,
)
from llama_index_rag_metrics.report.whereabouts import best_place, standings, where_found
from llama_index_rag_metrics.report.wording import why_lines
from llama_index_rag_metrics.statistics.resampling import NOISE

# characters of markup around a passage, and of a question without its passages
_ROW, _REST = 75, 420
_MOST, _FEWEST, _LONGEST = 400, 70, 4_000
# how many passages of each system are listed: the first of these for which there is room
_ITEMS = (10, 5, 3)
_MOST_IN_LINE = 4  # the scores of more systems are shown as their range
FAILED, EMPTY, UNLABELLED = "failed", "nothing retrieved", "nothing relevant"


class Row(NamedTuple):
    """A passage, and the rank that each system gave it, in words; "" for none."""

    name: str
    text: str | None
    ranks: Sequence[str]
    where: str = ""  # how a relevant one was lost
    look: str = ""


class Asking(NamedTuple):
    """What is the same of all questions of a page."""

    room: float = 3_000  # how many characters a question may take
    compared: bool = False
    lower_is_better: bool = False


def question(query: m.QueryAnswers, asking: Asking) -> str:
    """One question, folded; its attributes are what the page's script filters and sorts by."""
    changes = changes_of(query, asking)
    scores = map(score_of, query.answers)
    values = [score for score in scores if score is not None]
    gains = [change for change in changes if change is not None]
    data = {
        "score": str(kept_score(sum(values) / len(values))) if values else "",
        "change": " ".join(map(_change_name, changes)),
        "loss": "|".join(losses_of(query)),
        "gains": " ".join(str(kept_score(gain)) for gain in gains),
    }
    attributes = "".join(f' data-{name}="{value}"' for name, value in data.items() if value)
    return (
        f'<details class=q id="{escape(query.query_id)}"{attributes}>{_summary(query, changes)}'
        f"{''.join(_unfolded(query, asking))}</details>\n"
    )


def score_of(answer: m.Answer) -> float | None:
    """The number of an answer's score; of a change, what it became."""
    value = answer.score.value
    if isinstance(value, tuple):
        value = value[-1]
    return float(value) if isinstance(value, (int, float)) else None


def changes_of(query: m.QueryAnswers, asking: Asking) -> list[float | None]:
    """By how much each other system is better than the first; None where that is unknown."""
    if not asking.compared:
        return []
    sign = -1 if asking.lower_is_better else 1
    first, *others = map(score_of, query.answers)
    changes: list[float | None] = []
    for score in others:
        known = first is not None and score is not None
        changes.append(sign * (score - first) if known else None)  # type: ignore[operator]
    return changes


def _change_name(change: float | None) -> str:
    if change is None:
        return "unknown"
    if abs(change) <= NOISE:
        return "same"
    return "better" if change > 0 else "worse"


def losses_of(query: m.QueryAnswers) -> list[str]:
    """Whatever went wrong with a question, by any system."""
    reasons: dict[str, None] = {}
    for number, answer in enumerate(query.answers):
        if answer.error is not None:
            reasons[FAILED] = None
        elif answer.retrieved is not None and not answer.retrieved:
            reasons[EMPTY] = None
        for need in query.wanted:
            reasons[where_found(query, number, need).loss] = None
    if query.answers and not query.wanted:
        reasons[UNLABELLED] = None
    return [reason for reason in reasons if reason]


def _summary(query: m.QueryAnswers, changes: Sequence[float | None]) -> str:
    text = query.text or query.query_id
    name = f" <code>{escape(query.query_id)}</code>" if query.text else ""
    scores = "".join(_scores(query, changes))
    return f"<summary><span dir=auto>{escape(text)}{name}</span>{scores}</summary>"


def _scores(query: m.QueryAnswers, changes: Sequence[float | None]) -> Iterator[str]:
    answers = [answer for answer in query.answers if answer.score.value is not None]
    if len(query.answers) > _MOST_IN_LINE:
        if answers:
            ordered = sorted(answers, key=lambda answer: score_of(answer) or 0.0)
            low, high = (shown(end.score, interval=False) for end in (ordered[0], ordered[-1]))
            yield f"<b class=wide-score>{low if low == high else f'{low} to {high}'}</b>"
        return
    offset = len(query.answers) - len(changes)
    for number, answer in enumerate(query.answers):
        look = _change_name(changes[number - offset]) if changes and number else ""
        yield f"<b class={look}>" if look in ("better", "worse") else "<b>"
        yield f"{escape(shown(answer.score, interval=False))}</b>"


def _unfolded(query: m.QueryAnswers, asking: Asking) -> Iterator[str]:
    for line in why_lines(query):
        yield f"<p class=why>{escape(line)}</p>"
    for answer in query.answers:
        yield from _outcome(answer, len(query.answers) > 1)
    names = short_ids_of(query)
    for answer in query.answers:
        yield from _calls(answer, names, len(query.answers) > 1)
    yield _passages(query, asking, names)
    for remark in query.remarks:
        yield f"<p class=quiet>{escape(remark)}</p>"


def _outcome(answer: m.Answer, is_named: bool) -> Iterator[str]:
    """A line where a system failed or retrieved nothing."""
    name = f"{escape(answer.system)}: " if is_named else ""
    if answer.error is not None:
        yield f"<p class=lost>{name}failed: {escape(answer.error)}</p>"
    elif answer.retrieved is not None and not answer.retrieved:
        yield f"<p class=lost>{name}nothing retrieved</p>"


def _calls(answer: m.Answer, names: Mapping[str, str], is_named: bool) -> Iterator[str]:
    """The searches of an agent."""
    if answer.calls is None:
        return
    lines = []
    for call in answer.calls:
        asked_by = f" ({escape(call.asked_by)})" if call.asked_by else ""
        asked = f"<li>“{escape(call.query)}” → {escape(call_outcome(call))}{asked_by}"
        if not is_sum(answer):
            ids = ", ".join(escape(retrieved_name(item, names)) for item in call.retrieved)
            asked += f" <small>{ids}</small>"
        lines.append(asked)
    title = f"Searches of {escape(answer.system)}" if is_named else "Searches"
    searches = f"<ol>{''.join(lines)}</ol>" if lines else "<p>No search was made.</p>"
    yield f"<h4>{title}</h4>{searches}"


def _passages(query: m.QueryAnswers, asking: Asking, names: Mapping[str, str]) -> str:
    """A row a passage, the relevant ones first; a column a system with its ranks."""
    columns = [n for n, answer in enumerate(query.answers) if answer.retrieved is not None]
    columns = columns or [n for n, answer in enumerate(query.answers) if answer.found]
    relevant = _relevant_rows(query, columns, names)
    texts = sum(min(len(row.text or ""), _MOST) + _ROW for row in relevant)
    others = _other_rows(query, columns, names, asking.room - _REST - texts)
    if not relevant and not others:
        return ""
    own, other = _characters(query, relevant, others, asking.room)
    lines = [_line(row, own) for row in relevant] + [_line(row, other) for row in others]
    heads = "".join(_head(query.answers[n], len(query.answers) > 1) for n in columns)
    return (
        f'<div class=wide tabindex=0 role=group aria-label="Passages"><table class=ranks><thead>'
        f"<tr>{heads}<th scope=col>passage<tbody>{''.join(lines)}</table></div>"
    )


def _head(answer: m.Answer, is_named: bool) -> str:
    if not is_named:
        return "<th scope=col>rank"
    return f"<th scope=col>{escape(answer.system)} <b>{escape(shown(answer.score))}</b>"


def _relevant_rows(
    query: m.QueryAnswers, columns: Sequence[int], names: Mapping[str, str]
) -> list[Row]:
    rows = []
    systems = [answer.system for answer in query.answers]
    for standing in standings(query, names):
        need = query.wanted[standing.need]
        places = [best_place(query.answers[n], need) for n in columns]
        ranks = ["–" if place is None else f"{place.rank:,}" for place in places]
        lost = [(words, of) for words, of in standing.words(systems) if not _is_a_rank(words)]
        where = "; ".join(f"{of}: {words}" if of else words for words, of in lost)
        look = "missed" if standing.is_missed else "hit"
        text = next((item.text for item in need if item.text), None)
        name = " or ".join(_wanted_name(item, names) for item in need)
        rows.append(Row(name + _came_as(query, need, names), text, ranks, where, look))
    return rows


def _is_a_rank(words: str) -> bool:
    return words.startswith("rank ") and words.removeprefix("rank ").replace(",", "").isdecimal()


def _wanted_name(item: m.Item, names: Mapping[str, str]) -> str:
    grade = f" [{item.grade:g}]" if item.grade else ""
    if isinstance(item.passage, Span):
        return f"{named(item.id, names)} ({place_of(item.passage)}){grade}"
    return f"{named(item.id, names)}{grade}"


def _came_as(query: m.QueryAnswers, need: Sequence[m.Item], names: Mapping[str, str]) -> str:
    """Under which id a relevant passage came, where it was recognised by its text or place."""
    ids = {item.id for item in need}
    for answer in query.answers:
        for item in answer.retrieved or ():
            if item.why != "id" and any(wanted.id in ids for wanted in item.stands_for):
                return f" came as {named(item.id, names)}, by {item.why}"
    return ""


def _other_rows(
    query: m.QueryAnswers, columns: Sequence[int], names: Mapping[str, str], room: float
) -> list[Row]:
    """What came and isn't relevant: the first of each system, by the best rank."""
    needs = {item.id for need in query.wanted for item in need}
    ranks: dict[str, list[str]] = {}
    first: dict[str, tuple[int, m.ReportedItem]] = {}
    for column, number in enumerate(columns):
        answer = query.answers[number]
        for rank, item in zip(answer.all_ranks, answer.retrieved or (), strict=False):
            is_wanted = item.id in needs or any(each.id in needs for each in item.stands_for)
            if rank is None or is_wanted:
                continue
            row = ranks.setdefault(item.id, ["–"] * len(columns))
            row[column] = f"{rank:,}"
            first[item.id] = min(first.get(item.id, (rank, item)), (rank, item), key=_rank)
    ranked = sorted(first.values(), key=_rank)
    for most in _ITEMS:
        listed = [item for rank, item in ranked if rank <= most]
        if len(listed) * (_ROW + _FEWEST + 6 * len(columns)) <= room:
            break
    return [Row(retrieved_name(item, names), item.text, ranks[item.id]) for item in listed]


def _rank(pair: tuple[int, m.ReportedItem]) -> int:
    return pair[0]


def _characters(
    query: m.QueryAnswers, relevant: Sequence[Row], others: Sequence[Row], room: float
) -> tuple[int, int]:
    """How long the texts of relevant and of other passages may be: whole and 400, or what fits."""
    columns = max((len(row.ranks) for row in (*relevant, *others)), default=0)
    markup = (_ROW + 6 * columns) * (len(relevant) + len(others))
    left = max(0.0, room - _REST - len(query.text) - markup)
    wanted = sum(len(row.text or "") for row in relevant)
    own = _LONGEST if wanted < left else int(left / 2 / max(1, len(relevant)))
    own = max(own, _MOST // 4)
    used = sum(min(len(row.text or ""), own) for row in relevant)
    other = int((left - used) / max(1, len(others)))
    return own, min(_MOST, max(_FEWEST, other))


def _line(row: Row, characters: int) -> str:
    ranks = "".join(f"<td>{rank}" for rank in row.ranks)
    title, rest = titled(row.text, characters)
    if len(row.text or "") <= characters and not title:
        rest = cut_line(terminal(row.text or ""), characters)
    heading = f"<b>{escape(title)}</b> " if title else ""
    where = f"<span class=lost>{escape(row.where)}</span> " if row.where else ""
    look = f" class={row.look}" if row.look else ""
    passage = f"<code>{escape(row.name)}</code> {where}{heading}{escape(rest)}"
    return f"<tr{look}>{ranks}<td dir=auto>{passage}"
