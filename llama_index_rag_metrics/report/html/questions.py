"""Questions in HTML: a line that unfolds into why it failed, and the rank of each passage."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import isnan, nan
from typing import NamedTuple

from llama_index_rag_metrics.report import model
from llama_index_rag_metrics.report.numbers import NO_VALUE, shown
from llama_index_rag_metrics.report.text import by_holder, escape_html, titled
from llama_index_rag_metrics.statistics.resampling import NOISE

_LINE = 90  # characters
_ROW = "<tr{look}>{ranks}<td><code>{name}</code>{text}"


class Size(NamedTuple):
    """How much of a question a page shows, by how many questions it has at most."""

    questions: float
    items: int  # passages of each system
    short: int  # characters of a passage that isn't relevant
    is_late: bool = False  # whether a browser that runs the script reads it when it unfolds
    characters: int = sys.maxsize  # of a relevant passage


SIZES = (
    Size(20, 10, 400),
    Size(100, 5, 90),
    Size(1_000, 3, 70),
    Size(float("inf"), 1, 24, is_late=True),
)


def repeated(template: str, texts: Iterable[str]) -> str:
    """The template with each of the texts, escaped."""
    return "".join(template.format(escape_html(text)) for text in texts)


def question(
    query: model.QueryAnswers, size: Size = SIZES[0], queries: model.Queries | None = None
) -> str:
    """One question, folded; its attributes are what the page's script filters and sorts by."""
    scores = list(map(_number, query.answers))
    gains = []
    if queries and queries.compared:
        sign = -1 if queries.lower_is_better else 1
        baselines = scores if queries.stages else scores[:1] * len(scores)
        gains = [sign * (score - base) for base, score in zip(baselines, scores[1:], strict=False)]
    numbers = [score for score in scores if not isnan(score)]
    losses, changes = _losses(query), list(map(_change_name, gains))
    if query.left_out and not numbers:
        losses[query.left_out] = 0
    data = {"change": " ".join(changes), "loss": "|".join(losses), "gains": "", "score": ""}
    if numbers:
        data["gains"] = " ".join(f"{gain:g}" for gain in gains if not isnan(gain))
        data["score"] = f"{sum(numbers) / len(numbers):g}"
    if queries and queries.places:
        data["asked"] = str(queries.places[query.query_id])
    attributes = f' id="{escape_html(query.query_id)}"'
    for name, value in data.items():
        if value:
            attributes += f' data-{name}="{escape_html(value)}"'
    inner = "".join(_unfolded(query, size))
    if size.is_late:
        inner = f"<noscript>{inner}</noscript>"
    return f"<details class=q{attributes}>{_summary(query, losses, changes)}{inner}</details>\n"


def _number(answer: model.ReportedAnswer) -> float:
    """The number of an answer's score, NaN where there is none; of a change, what it became."""
    value = answer.score.value
    if isinstance(value, tuple):
        value = value[-1]
    if isinstance(value, (int, float)):
        return float(value)
    return nan


def _change_name(change: float) -> str:
    if isnan(change):
        return "unknown"
    if abs(change) <= NOISE:
        return "same"
    if change > 0:
        return "better"
    return "worse"


def _losses(query: model.QueryAnswers) -> Counter[str]:
    """Whatever went wrong with a question, and how often with a relevant passage."""
    losses = Counter[str]()
    for answer in query.answers:
        if answer.error is not None:
            losses["failed"] = 0
        elif answer.retrieved is not None and not answer.retrieved:
            losses["nothing retrieved"] = 0
    for passage in query.wanted:
        losses.update(filter(None, passage.losses))
    return losses


def _summary(query: model.QueryAnswers, losses: Counter[str], changes: Sequence[str]) -> str:
    """The question, what was lost, and its scores; of many systems the lowest and the highest."""
    text = escape_html(query.text or query.query_id)
    if query.text:
        text += f" <code>{escape_html(query.query_id)}</code>"
    failures = [loss for loss, n in losses.items() if not n]
    text += repeated(" <small>{}</small>", [*failures, *query.summary])
    if len(query.answers) > model.MOST_ABREAST:
        answers = [answer for answer in query.answers if not isnan(_number(answer))]
        answers.sort(key=_number)
        ends = dict.fromkeys(map(_score, answers[:1] + answers[-1:]))
        scores = f"<b class=range>{' to '.join(ends)}</b>"
    else:
        tags = ["b"] * (len(query.answers) - len(changes)) + list(map("b class={}".format, changes))
        scores = "".join(map("<{}>{}</b>".format, tags, map(_score, query.answers)))
    return f"<summary><span>{text}</span>{scores}</summary>"


def _score(answer: model.ReportedAnswer) -> str:
    return escape_html(shown(answer.score, interval=False))


def _unfolded(query: model.QueryAnswers, size: Size) -> Iterator[str]:
    yield repeated("<p class=why>{}</p>", query.why)
    is_alone = len(query.answers) == 1
    searchers: dict[tuple[str, ...], list[str]] = {}
    outcomes = [(answer.outcome, answer.system) for answer in query.answers if answer.outcome]
    yield repeated("<p class=lost>{}</p>", by_holder(outcomes, len(query.answers)))
    for answer in query.answers:
        if answer.searches:
            searchers.setdefault(tuple(answer.searches), []).append(answer.system)
    searches = ""
    for lines, systems in searchers.items():
        title = "Searches"
        if not is_alone:
            title += f" of {', '.join(systems)}"
        items = repeated("<li>{}", lines)
        searches += f"<div><h4>{escape_html(title)}</h4><ol>{items}</ol></div>"
    if searches:
        yield f"<div class=searches>{searches}</div>"
    columns = [n for n, answer in enumerate(query.answers) if answer.retrieved is not None]
    columns = columns or list(range(len(query.answers)))
    rows = "".join([*_relevant(query, columns, size), *_others(query, columns, size)])
    if rows:
        heads = ""
        for column in columns:
            answer = query.answers[column]
            head = f"{escape_html(answer.system)} <b>{_score(answer)}</b>"
            heads += f"<th>{'rank' if is_alone else head}"
        yield f"<table class=ranks><thead><tr>{heads}<th>passage<tbody>{rows}</table>"
    yield repeated("<p class=quiet>{}</p>", query.remarks)


def _relevant(query: model.QueryAnswers, columns: Sequence[int], size: Size) -> Iterator[str]:
    """A row for each relevant passage, with its ranks and how it was lost."""
    for passage in query.wanted:
        look, remark = " class=hit", ""
        if passage.is_missed:
            look = " class=missed"
        if passage.remark:
            tone = "lost" if any(passage.losses) else "quiet"
            remark = f" <span class={tone}>{escape_html(passage.remark)}</span>"
        ranks = [passage.ranks[column] for column in columns]
        text = f"{remark} {_text(passage.text, size.characters)}"
        yield _row(look, ranks, passage.name, text)


def _others(query: model.QueryAnswers, columns: Sequence[int], size: Size) -> Iterator[str]:
    """A row for each other passage, with its ranks, the best first; beside labels one line each."""
    characters = size.short
    if query.wanted:
        characters = min(characters, _LINE)
    ranks: dict[str, list[int | None]] = {}
    items: dict[str, model.ReportedItem] = {}
    for position, column in enumerate(columns):
        for item in query.answers[column].retrieved or ():
            if item.rank is None or item.is_hit or item.rank > size.items:
                continue
            ranks.setdefault(item.id, [None] * len(columns))[position] = item.rank
            items.setdefault(item.id, item)
    for item_id in sorted(ranks, key=lambda item_id: min(filter(None, ranks[item_id]))):
        item = items[item_id]
        yield _row("", ranks[item_id], item.name, f" {_text(item.text or '', characters)}")


def _row(look: str, ranks: Iterable[int | None], name: str, text: str) -> str:
    cells = ""
    for rank in ranks:
        cells += f"<td>{NO_VALUE if rank is None else f'{rank:,}'}"
    return _ROW.format(look=look, ranks=cells, name=escape_html(name), text=text)


def _text(text: str, most: int) -> str:
    title, body = titled(text, most)
    if title:
        return f"<b>{escape_html(title)}</b> {escape_html(body)}"
    return escape_html(body)
