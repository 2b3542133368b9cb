"""Questions in HTML: a line that unfolds into why it failed, and the rank of each passage."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from math import isnan, nan
from operator import itemgetter
from typing import NamedTuple

from llama_index_rag_metrics.report import model
from llama_index_rag_metrics.report.numbers import NO_VALUE, shown, whole_percent
from llama_index_rag_metrics.report.text import by_holder, escape_html, listed, titled
from llama_index_rag_metrics.statistics.resampling import NOISE

NO_BREAK = "\u00a0"
_ARROW = f"{NO_BREAK}→{NO_BREAK}"
_ROW = "<tr>{}<td><code>{}</code>{}"
_CUT = "<tr class=cut><td colspan={}><td>below the cutoff {:,}"


class Size(NamedTuple):
    questions: float
    items: int  # passages of each system
    short: int  # characters of a passage that isn't relevant
    unlabelled: int  # and of one in a question without labels
    is_late: bool = False  # whether a browser that runs the script reads it when it unfolds
    characters: int = sys.maxsize  # of a relevant passage


SIZES = (
    Size(20, 10, 90, 400),
    Size(100, 5, 75, 400),
    Size(1_000, 3, 70, 70),
    Size(float("inf"), 1, 24, 24, is_late=True),
)


def repeated(template: str, texts: Iterable[str]) -> str:
    return "".join(map(template.format, map(escape_html, texts))).replace(" → ", _ARROW)


def question(
    query: model.QueryAnswers, size: Size = SIZES[0], queries: model.Queries | None = None
) -> str:
    scores = list(map(_number, query.answers))
    gains = []
    if queries and queries.compared:
        sign = -1 if queries.lower_is_better else 1
        baselines = scores if queries.stages else scores[:1] * len(scores)
        for base, score in zip(baselines, scores[1:], strict=False):
            gains.append(sign * (score - base))
    numbers, losses = [score for score in scores if not isnan(score)], _losses(query)
    of_runs = queries is not None and queries.of_runs
    if of_runs and len(set(numbers)) > 1:
        losses[model.VARIES] = 0
    data = {"loss": "|".join(losses)}
    if numbers:
        data["gains"] = " ".join(map("{:g}".format, gains))
        data["score"] = f"{sum(numbers) / len(numbers):g}"
    if queries and queries.places:
        data["asked"] = str(queries.places[query.query_id])
    attributes = f' id="{escape_html(query.query_id)}"'
    for name, value in data.items():
        if value:
            attributes += f' data-{name}="{escape_html(value)}"'
    looks = [""] * (len(scores) - len(gains)) + list(map(_look, gains))
    for number, answer in enumerate(query.answers):
        if answer.score.tone == "alarm":
            looks[number] = " class=worse"
    inner = "".join(_unfolded(query, size, looks))
    if size.is_late:
        inner = f"<noscript>{inner}</noscript>"
    summary = _summary(query, losses, looks, of_runs=of_runs)
    return f"<details class=q{attributes}>{summary}{inner}</details>\n"


def _number(answer: model.ReportedAnswer) -> float:
    value = answer.score.value
    return float(value) if isinstance(value, (int, float)) else nan


def _look(gain: float) -> str:
    if gain > NOISE:
        return " class=better"
    if gain < -NOISE:
        return " class=worse"
    return " class=same" * (not isnan(gain))


def _losses(query: model.QueryAnswers) -> Counter[str]:
    losses = Counter[str]()
    for answer in query.answers:
        if answer.error is not None:
            losses["failed"] = 0
        elif answer.retrieved is not None and not answer.retrieved:
            losses["nothing retrieved"] = 0
    for passage in query.wanted:
        losses.update(filter(None, passage.losses))
    if query.left_out:
        losses[query.left_out] = 0
    return losses


def _summary(
    query: model.QueryAnswers, losses: Counter[str], looks: Sequence[str], *, of_runs: bool
) -> str:
    text = escape_html(query.text or query.query_id)
    if query.text:
        text += f" <code>{escape_html(query.query_id)}</code>"
    outcomes = [(item.outcome.split(":")[0], item.system) for item in query.answers if item.outcome]
    failures = [*by_holder(outcomes, len(query.answers)), query.left_out]
    reasons = [*failures, model.VARIES * (model.VARIES in losses), *query.summary]
    if any(reasons):
        text += f"<br>{repeated(' <small>{}</small>', filter(None, reasons))}"
    texts = list(map(_score, query.answers))
    scores = "".join(map("<b{}>{}</b>".format, looks, texts))
    answers = sorted((item for item in query.answers if not isnan(_number(item))), key=_number)
    ends = " to ".join(dict.fromkeys(map(_score, answers[:1] + answers[-1:])))
    if of_runs:
        spread = f"<small>{ends}</small> " * (model.VARIES in losses)
        scores = f"<b>{spread}{texts[-1]}</b>"
    elif query.is_of_many:
        scores = f'<b data-each="{"|".join(texts)}">{ends}</b>'
    return f"<summary><span>{text}</span>{scores * bool(answers)}</summary>"


def _score(answer: model.ReportedAnswer) -> str:
    return escape_html(shown(answer.score, interval=False))


def _unfolded(query: model.QueryAnswers, size: Size, looks: Sequence[str]) -> Iterator[str]:
    yield repeated("<p class=why>{}</p>", query.why)
    searchers: dict[tuple[str, ...], list[str]] = {}
    outcomes = [(answer.outcome, answer.system) for answer in query.answers if answer.outcome]
    yield repeated("<p class=lost>{}</p>", by_holder(outcomes, len(query.answers)))
    for answer in query.answers:
        if answer.searches:
            searchers.setdefault(tuple(answer.searches), []).append(answer.system)
    searches = ""
    for lines, systems in searchers.items():
        title = "Searches"
        if len(query.answers) > 1:
            title += f" of {listed(systems)}"
        items = repeated("<li>{}", lines)
        searches += f"<div><h4>{escape_html(title)}</h4><ol>{items}</ol></div>"
    if searches:
        yield f"<div class=searches>{searches}</div>"
    names = [answer.system for answer in query.answers if answer.retrieved is not None]
    if query.is_of_many:
        scores = ""
        for answer, look in zip(query.answers, looks, strict=True):
            scores += f"<li>{escape_html(answer.system)} <b{look}>{_score(answer)}</b>"
        yield f"<ul class=scores>{scores}</ul>"
    elif len(query.answers) == 1:
        names = ["rank"] * len(names)
    rows = "".join([*_relevant(query, size), *_others(query, size)])
    if rows:
        extent = f" (of others the first {size.items})" * bool(query.wanted and not size.is_late)
        look, template = "ranks", "<th>{}"
        if query.is_of_many:
            look, template = '"ranks many"', "<th><span>{}</span>"
        heads = repeated(template, filter(None, [*names, query.measure, f"passage{extent}"]))
        yield f"<table class={look}><thead><tr>{heads}<tbody>{rows}</table>"
    yield repeated("<p class=quiet>{}</p>", query.remarks)


def _relevant(query: model.QueryAnswers, size: Size) -> Iterator[str]:
    for passage in query.wanted:
        remark, look = "", ("quiet", "lost")[passage.is_missed]
        if passage.remark and not query.is_of_many:  # whose names would be a paragraph
            remark = f" <span class={look}>{escape_html(passage.remark)}</span>"
        remark += f" {_text(passage.text, size.characters)}"
        cells = _cells(query, passage.ranks, passage.places) + _grade(query, passage.grade)
        name = passage.name.removesuffix(f" [{passage.grade}]")
        yield _ROW.format(cells, escape_html(name), remark)


def _others(query: model.QueryAnswers, size: Size) -> Iterator[str]:
    """A row for each other passage, with its ranks, the best first; beside labels one line each."""
    characters = size.short if query.wanted or query.left_out else size.unlabelled
    places = []
    for column, answer in enumerate(query.answers):
        for item in answer.retrieved or ():
            if item.rank is not None and not item.is_hit:
                places.append((item.rank, column, item))
    ranks: dict[str, list[int | None]] = {}
    items: dict[str, model.ReportedItem] = {}
    for rank, column, item in sorted(places, key=itemgetter(0)):
        if rank <= size.items or item.id in items:
            ranks.setdefault(item.id, [None] * len(query.answers))[column] = rank
            items.setdefault(item.id, item)
    cutoff = query.cutoff
    for item in items.values():
        cells = _cells(query, ranks[item.id]) + _grade(query, item.grade)
        if cutoff is not None and (item.rank or 0) > cutoff:
            yield _CUT.format(cells.count("<td"), cutoff)
            cutoff, characters = None, size.short
        text = f" {_text(item.text or '', characters)}"
        name = item.name.removesuffix(f" [{item.grade}]")
        yield _ROW.format(cells, escape_html(name), text)


def _grade(query: model.QueryAnswers, grade: str) -> str:
    """A cell; scores of texts are tinted by their share of 3, or of the highest if that is more."""
    if query.wanted or not grade:
        return f"<td>{grade}" * bool(query.measure)
    items = chain.from_iterable(answer.retrieved or () for answer in query.answers)
    scores = [float(item.grade.replace(",", "") or 0) for item in items]
    share = float(grade.replace(",", "")) / max(3.0, *scores)
    return f'<td style="--share:{whole_percent(share)}">{grade}'


def _cells(
    query: model.QueryAnswers, ranks: Sequence[int | None], looks: Sequence[str] = ()
) -> str:
    cells = ""
    for answer, rank, look in zip_longest(query.answers, ranks, looks):
        if answer is not None and answer.retrieved is not None:
            cells += f"<td{f' class={look}' * bool(look)}>{rank or NO_VALUE}"
    return cells


def _text(text: str, most: int) -> str:
    title, body = titled(text, most)
    if title:
        return f"<b>{escape_html(title)}</b> {escape_html(body)}"
    return escape_html(body)
