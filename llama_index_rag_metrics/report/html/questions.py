"""Questions in HTML: a line that unfolds into why it failed, and the rank of each passage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from math import isnan, nan
from typing import NamedTuple

from llama_index_rag_metrics.report.escape import html as escape
from llama_index_rag_metrics.report.escape import terminal as one_line
from llama_index_rag_metrics.report.excerpts import cut_line, titled
from llama_index_rag_metrics.report.model import Answer, QueryAnswers
from llama_index_rag_metrics.report.numbers import shown
from llama_index_rag_metrics.statistics.resampling import NOISE

# characters of markup around a passage, of a rank, and of a question without its passages
_ROW, _RANK, _REST = 75, 6, 420
# how many passages of each system are listed, and how many characters of a relevant and of another
# one are shown: the first of these for which a page has room
_SIZES = ((10, 4_000, 400), (10, 600, 120), (5, 500, 70), (3, 250, 70), (1, 100, 40))
_MOST_IN_LINE = 4  # the scores of more systems are shown as their range
FAILED, EMPTY, UNLABELLED = "failed", "nothing retrieved", "nothing relevant"
NO_RANK = "–"


class Row(NamedTuple):
    """A passage, and the rank that each system gave it, in words."""

    name: str
    text: str
    ranks: Sequence[str]
    where: str = ""  # how a relevant one was lost
    where_look: str = ""
    look: str = ""
    characters: int = 0  # of its text, that are shown


class Context(NamedTuple):
    """What is the same for all questions of a page."""

    room: float = 3_000  # how many characters a question may take
    compared: bool = False
    lower_is_better: bool = False


def question(query: QueryAnswers, context: Context) -> str:
    """One question, folded; its attributes are what the page's script filters and sorts by."""
    changes = changes_of(query, context)
    scores = [score for score in map(score_of, query.answers) if not isnan(score)]
    data = {
        "change": " ".join(map(_change_name, changes)),
        "loss": "|".join(losses_of(query)),
        "gains": " ".join(f"{gain:g}" for gain in changes if not isnan(gain)),
    }
    if scores:
        data["score"] = f"{sum(scores) / len(scores):g}"
    attributes = "".join(f' data-{name}="{value}"' for name, value in data.items() if value)
    return (
        f'<details class=q id="{escape(query.query_id)}"{attributes}>{_summary(query, changes)}'
        f"{''.join(_unfolded(query, context))}</details>\n"
    )


def score_of(answer: Answer) -> float:
    """The number of an answer's score, NaN where there is none; of a change, what it became."""
    value = answer.score.value
    if isinstance(value, tuple):
        value = value[-1]
    return float(value) if isinstance(value, (int, float)) else nan


def changes_of(query: QueryAnswers, context: Context) -> list[float]:
    """By how much each other system is better than the first; NaN where that is unknown."""
    if not context.compared:
        return []
    sign = -1 if context.lower_is_better else 1
    baseline, *scores = map(score_of, query.answers)
    return [sign * (score - baseline) for score in scores]


def _change_name(change: float) -> str:
    if isnan(change):
        return "unknown"
    if abs(change) <= NOISE:
        return "same"
    return "better" if change > 0 else "worse"


def losses_of(query: QueryAnswers) -> list[str]:
    """Whatever went wrong with a question, by any system."""
    reasons = []
    for answer in query.answers:
        if answer.error is not None:
            reasons.append(FAILED)
        elif answer.retrieved is not None and not answer.retrieved:
            reasons.append(EMPTY)
    reasons += chain(*(passage.losses for passage in query.wanted))
    if query.answers and not query.wanted:
        reasons.append(UNLABELLED)
    return [reason for reason in dict.fromkeys(reasons) if reason]


def _summary(query: QueryAnswers, changes: Sequence[float]) -> str:
    """The question's text, and its scores; of many systems the lowest and the highest."""
    text = escape(query.text or query.query_id)
    if query.text:
        text += f" <code>{escape(query.query_id)}</code>"
    if len(query.answers) > _MOST_IN_LINE:
        answers = [answer for answer in query.answers if not isnan(score_of(answer))]
        answers.sort(key=score_of)
        ends = dict.fromkeys(map(_score, answers[:1] + answers[-1:]))
        scores = f"<b class=range>{' to '.join(ends)}</b>"
    else:
        looks = [" class=" + _change_name(change) for change in changes]
        looks = [""] * (len(query.answers) - len(looks)) + looks
        pairs = zip(query.answers, looks, strict=True)
        scores = "".join(f"<b{look}>{_score(answer)}</b>" for answer, look in pairs)
    return f"<summary><span dir=auto>{text}</span>{scores}</summary>"


def _score(answer: Answer) -> str:
    return escape(shown(answer.score, interval=False))


def _unfolded(query: QueryAnswers, context: Context) -> Iterator[str]:
    for line in query.why:
        yield f"<p class=why>{escape(line)}</p>"
    writer = _Writer(query, context)
    for answer in query.answers:
        yield writer.outcome(answer)
    for answer in query.answers:
        yield writer.searches(answer)
    yield writer.passages()
    for remark in query.remarks:
        yield f"<p class=quiet>{escape(remark)}</p>"


class _Writer:
    """What systems returned for one question."""

    def __init__(self, query: QueryAnswers, context: Context) -> None:
        self.query, self.context = query, context
        self.is_alone = len(query.answers) == 1
        columns = [n for n, answer in enumerate(query.answers) if answer.retrieved is not None]
        self.columns = columns or [*range(len(query.answers))]

    def outcome(self, answer: Answer) -> str:
        """A line where a system failed or retrieved nothing."""
        if not answer.outcome:
            return ""
        line = answer.outcome if self.is_alone else f"{answer.system}: {answer.outcome}"
        return f"<p class=lost>{escape(line)}</p>"

    def searches(self, answer: Answer) -> str:
        """The searches of an agent."""
        if not answer.searches:
            return ""
        title = "Searches"
        if not self.is_alone:
            title += f" of {answer.system}"
        lines = "".join(f"<li>{escape(line)}" for line in answer.searches)
        return f"<h4>{escape(title)}</h4><ol>{lines}</ol>"

    def passages(self) -> str:
        """A row a passage, the relevant ones first; a column a system with its ranks."""
        relevant, unlabelled = self._relevant(), self._others()
        if not relevant and not unlabelled:
            return ""
        rows: list[Row] = []
        for n_items, length, short_length in _SIZES:
            rows = [row._replace(characters=length) for row in relevant]
            rows += [
                row._replace(characters=short_length) for rank, row in unlabelled if rank <= n_items
            ]
            size = sum(min(len(row.text), row.characters) for row in rows)
            size += _REST + len(rows) * (_ROW + _RANK * len(self.columns))
            if size <= self.context.room:
                break
        heads = "<th scope=col>rank"
        if not self.is_alone:
            heads = "".join(_head(self.query.answers[column]) for column in self.columns)
        return (
            f'<div class=wide tabindex=0 role=group aria-label="Passages"><table class=ranks>'
            f"<thead><tr>{heads}<th scope=col>passage<tbody>{''.join(map(_line, rows))}</table>"
            "</div>"
        )

    def _relevant(self) -> list[Row]:
        rows = []
        for passage in self.query.wanted:
            ranks = [_rank(passage.ranks[column]) for column in self.columns]
            look = "missed" if passage.is_missed else "hit"
            where_look = "lost" if any(passage.losses) else "quiet"
            rows.append(Row(passage.name, passage.text, ranks, passage.remark, where_look, look))
        return rows

    def _others(self) -> list[tuple[int, Row]]:
        """What came and isn't relevant, with its best rank, the best first."""
        rows: dict[str, tuple[int, Row]] = {}
        for position, column in enumerate(self.columns):
            for item in self.query.answers[column].retrieved or ():
                if item.rank is None or item.is_hit:
                    continue
                row = Row(item.name, item.text or "", [NO_RANK] * len(self.columns))
                rank, row = rows.get(item.id, (item.rank, row))
                ranks = [*row.ranks]
                ranks[position] = _rank(item.rank)
                rows[item.id] = min(rank, item.rank), row._replace(ranks=ranks)
        return sorted(rows.values(), key=lambda pair: pair[0])


def _rank(rank: int | None) -> str:
    return NO_RANK if rank is None else f"{rank:,}"


def _head(answer: Answer) -> str:
    return f"<th scope=col>{escape(answer.system)} <b>{escape(shown(answer.score))}</b>"


def _line(row: Row) -> str:
    title, text = titled(row.text, row.characters)
    if not title:
        text = cut_line(one_line(row.text[: 4 * row.characters]), row.characters)
    passage = f"<code>{escape(row.name)}</code> "
    if row.where:
        passage += f"<span class={row.where_look}>{escape(row.where)}</span> "
    if title:
        passage += f"<b>{escape(title)}</b> "
    look = f" class={row.look}" if row.look else ""
    ranks = "".join(f"<td>{rank}" for rank in row.ranks)
    return f"<tr{look}>{ranks}<td dir=auto>{passage}{escape(text)}"
