"""Questions in HTML: a line that unfolds into why it failed, and the rank of each passage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from math import isnan, nan
from typing import NamedTuple

from llama_index_rag_metrics.report.escape import html as escape
from llama_index_rag_metrics.report.escape import terminal as one_line
from llama_index_rag_metrics.report.excerpts import cut_line, titled
from llama_index_rag_metrics.report.figure import MOST_ABREAST
from llama_index_rag_metrics.report.model import Answer, QueryAnswers, ReportedItem
from llama_index_rag_metrics.report.numbers import NO_VALUE, shown
from llama_index_rag_metrics.statistics.resampling import NOISE

FAILED, EMPTY, UNLABELLED = "failed", "nothing retrieved", "nothing relevant"


class Size(NamedTuple):
    """How much of a question a page shows, by how many questions it has at most."""

    questions: float
    items: int  # passages of each system
    characters: int  # of a relevant passage
    short: int  # characters of another one


SIZES = (
    Size(20, 10, 4_000, 400),
    Size(100, 5, 2_000, 60),
    Size(1_000, 3, 1_500, 70),
    Size(float("inf"), 1, 400, 40),
)


class Context(NamedTuple):
    """What is the same for all questions of a page."""

    size: Size = SIZES[0]
    compared: bool = False
    lower_is_better: bool = False


def question(query: QueryAnswers, context: Context) -> str:
    """One question, folded; its attributes are what the page's script filters and sorts by."""
    changes = _changes(query, context)
    scores = [score for score in map(_number, query.answers) if not isnan(score)]
    data = {
        "change": " ".join(map(_change_name, changes)),
        "loss": "|".join(_losses(query)),
        "gains": " ".join(f"{gain:g}" for gain in changes if not isnan(gain)),
    }
    if scores:
        data["score"] = f"{sum(scores) / len(scores):g}"
    attributes = "".join(f' data-{name}="{value}"' for name, value in data.items() if value)
    return (
        f'<details class=q id="{escape(query.query_id)}"{attributes}>{_summary(query, changes)}'
        f"{''.join(_unfolded(query, context.size))}</details>\n"
    )


def _number(answer: Answer) -> float:
    """The number of an answer's score, NaN where there is none; of a change, what it became."""
    value = answer.score.value
    if isinstance(value, tuple):
        value = value[-1]
    if isinstance(value, (int, float)):
        return float(value)
    return nan


def _changes(query: QueryAnswers, context: Context) -> list[float]:
    """By how much each other system is better than the first; NaN where that is unknown."""
    if not context.compared:
        return []
    sign = -1 if context.lower_is_better else 1
    baseline, *scores = map(_number, query.answers)
    return [sign * (score - baseline) for score in scores]


def _change_name(change: float) -> str:
    if isnan(change):
        return "unknown"
    if abs(change) <= NOISE:
        return "same"
    if change > 0:
        return "better"
    return "worse"


def _losses(query: QueryAnswers) -> list[str]:
    """Whatever went wrong with a question, by any system."""
    reasons = []
    for answer in query.answers:
        if answer.error is not None:
            reasons.append(FAILED)
        elif answer.retrieved is not None and not answer.retrieved:
            reasons.append(EMPTY)
    reasons += chain(*(passage.losses for passage in query.wanted))
    if not query.wanted and any(answer.retrieved is not None for answer in query.answers):
        reasons.append(UNLABELLED)
    return [*filter(None, dict.fromkeys(reasons))]


def _summary(query: QueryAnswers, changes: Sequence[float]) -> str:
    """The question's text, and its scores; of many systems the lowest and the highest."""
    text = escape(query.text or query.query_id)
    if query.text:
        text += f" <code>{escape(query.query_id)}</code>"
    if len(query.answers) > MOST_ABREAST:
        answers = [answer for answer in query.answers if not isnan(_number(answer))]
        answers.sort(key=_number)
        ends = dict.fromkeys(map(_score, answers[:1] + answers[-1:]))
        scores = f"<b class=range>{' to '.join(ends)}</b>"
    else:
        n_before = len(query.answers) - len(changes)
        looks = [""] * n_before + [" class=" + _change_name(change) for change in changes]
        scores = "".join(map("<b{}>{}</b>".format, looks, map(_score, query.answers)))
    return f"<summary><span dir=auto>{text}</span>{scores}</summary>"


def _score(answer: Answer) -> str:
    return escape(shown(answer.score, interval=False))


def _unfolded(query: QueryAnswers, size: Size) -> Iterator[str]:
    for line in query.why:
        yield f"<p class=why>{escape(line)}</p>"
    is_alone = len(query.answers) == 1
    searchers: dict[tuple[str, ...], list[str]] = {}
    for answer in query.answers:
        line = answer.outcome
        if not is_alone:
            line = f"{answer.system}: {line}"
        if answer.outcome:
            yield f"<p class=lost>{escape(line)}</p>"
        if answer.searches:
            searchers.setdefault(tuple(answer.searches), []).append(answer.system)
    for searches, systems in searchers.items():
        title = "Searches"
        if not is_alone:
            title += f" of {', '.join(systems)}"
        lines = "".join(f"<li>{escape(line)}" for line in searches)
        yield f"<h4>{escape(title)}</h4><ol>{lines}</ol>"
    columns = [n for n, answer in enumerate(query.answers) if answer.retrieved is not None]
    columns = columns or [*range(len(query.answers))]
    rows = "".join([*_relevant(query, columns, size), *_others(query, columns, size)])
    if rows:
        heads = "<th scope=col>rank"
        if not is_alone:
            heads = "".join(_head(query.answers[column]) for column in columns)
        yield (
            '<div class=wide tabindex=0 role=group aria-label="Passages"><table class=ranks>'
            f"<thead><tr>{heads}<th scope=col>passage<tbody>{rows}</table></div>"
        )
    for remark in query.remarks:
        yield f"<p class=quiet>{escape(remark)}</p>"


def _head(answer: Answer) -> str:
    return f"<th scope=col>{escape(answer.system)} <b>{escape(shown(answer.score))}</b>"


def _relevant(query: QueryAnswers, columns: Sequence[int], size: Size) -> Iterator[str]:
    """A row for each relevant passage, with its ranks and how it was lost."""
    for passage in query.wanted:
        ranks = [_rank(passage.ranks[column]) for column in columns]
        name = f"<code>{escape(passage.name)}</code>"
        if passage.remark:
            look = "lost" if any(passage.losses) else "quiet"
            name += f" <span class={look}>{escape(passage.remark)}</span>"
        look = " class=missed" if passage.is_missed else " class=hit"
        yield _row(ranks, name, _text(passage.text, size.characters), look)


def _others(query: QueryAnswers, columns: Sequence[int], size: Size) -> list[str]:
    """A row for each other passage, with its ranks, the best first."""
    ranks: dict[str, list[str]] = {}
    highest: dict[str, int] = {}
    items: dict[str, ReportedItem] = {}
    for position, column in enumerate(columns):
        for item in query.answers[column].retrieved or ():
            if item.rank is None or item.is_hit or item.rank > size.items:
                continue
            ranks.setdefault(item.id, [NO_VALUE] * len(columns))[position] = _rank(item.rank)
            highest[item.id] = min(item.rank, highest.get(item.id, item.rank))
            items.setdefault(item.id, item)
    rows = []
    for item_id in sorted(highest, key=highest.__getitem__):
        item = items[item_id]
        name, text = f"<code>{escape(item.name)}</code>", _text(item.text or "", size.short)
        rows.append(_row(ranks[item_id], name, text))
    return rows


def _rank(rank: int | None) -> str:
    return NO_VALUE if rank is None else f"{rank:,}"


def _row(ranks: Sequence[str], name: str, text: str, look: str = "") -> str:
    return f"<tr{look}>{''.join(f'<td>{rank}' for rank in ranks)}<td dir=auto>{name} {text}"


def _text(text: str, most: int) -> str:
    """The beginning of a passage, with its title in bold."""
    title, body = titled(text, most)
    if title:
        return f"<b>{escape(title)}</b> {escape(body)}"
    return escape(cut_line(one_line(text[: 4 * most]), most))
