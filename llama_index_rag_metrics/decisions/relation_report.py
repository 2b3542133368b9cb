"""The report of what predicts the answers: the sentence that decides, a row a metric, a figure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, fields

from llama_index_rag_metrics.decisions.relation import MetricRelation, Relation
from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.figure import Axis, Figure, Series
from llama_index_rag_metrics.report.numbers import (
    carried,
    digits_of,
    ends,
    percent,
    questions,
    score,
    shown,
)
from llama_index_rag_metrics.scores.scores_report import glossary, listed
from llama_index_rag_metrics.statistics.intervals import excludes_0

_NAMES = {"auc": "AUC", "tau_b": "tau-b"}
_PREDICTIONS = "Predictions"
_EXPLAINED = {
    "auc": "AUC: how often the better answered one of two questions has the better score; 0.5 is "
    "chance.",
    "tau_b": "tau-b: how much more often the better answered one of two questions has the better "
    "score than the worse one (Kendall); 0 is chance. Spearman: the correlation of ranks.",
}
_READ = (
    "Best and worst: the answers' mean on the questions with a metric's best and worst scores, "
    "about a quarter each. What predicts needn't cause: easy questions are found and answered well."
)
_CLOSED_BOOK = (
    "Without any context answers score",
    "what was retrieved adds",
    "what was retrieved makes them worse, by",
    "what was retrieved isn't shown to help,",
)
_ORACLE = (
    "With every relevant passage they score",
    "better retrieval could add",
    "less than now, so that these aren't what limits them, by",
    "better retrieval isn't shown to be what they need,",
)


def describe(relation: MetricRelation) -> str:
    name = relation.metric
    if relation.value is None:
        return f"{name} has the same score on every question, or all answers have."
    number = _number(relation)
    if relation.predicts:
        return f"{name} predicts the answers ({number})."
    if relation.contradicts:
        scores = f"Lower scores on {name}, the better ones," if lower_is_better(name) else ""
        return f"{scores or f'Better scores on {name}'} go with worse answers ({number})."
    return f"{name} isn't shown to predict the answers ({number})."


def relation_report(relation: Relation) -> m.Report:
    of = f" ({relation.name})" if relation.name else ""
    return m.Report(
        title=f"What predicts the answers{of}",
        lead=f"{questions(relation.n)}, answers score {carried(relation.mean, relation.n)}",
        decision=[*_decision(relation), *_references(relation)],
        sections=[m.Section(_PREDICTIONS, [_table(relation)], _text(relation))],
        notes=relation.notes,
        glossary=glossary([each.metric for each in relation]),
        primary=relation.primary or "",
        figures={"predictions": lambda _: _figure(relation)},
        records=m.Records.of(
            [asdict(each) for each in relation], [field.name for field in fields(MetricRelation)]
        ),
    )


def _apart(relation: Relation) -> list[MetricRelation]:
    """The metrics that vary, one of those that order the questions alike."""
    return [each for each in relation if each.value is not None and not each.same_as]


def _decision(relation: Relation) -> Iterator[m.Statement]:
    if relation.reason:
        text = f"What predicts the answers can't be told: {relation.reason}."
        yield m.Statement(text, "open")
        return
    apart = _apart(relation)
    first = next((each for each in apart if each.predicts), apart[0])
    others = [each for each in apart if each is not first]
    alike = [each.metric for each in relation if each.same_as == first.metric]
    name, number = listed([first.metric, *alike]), _number(first)
    if first.predicts:
        is_highest = first is apart[0]
        best = " best" if relation.is_shown and is_highest else ""
        verb = "predict" if alike else "predicts"
        yield m.Statement(
            f"{name} {verb} your answers{best} ({number}){_silent(others)}.",
            "best",
            evidence=_PREDICTIONS,
            command=f'compare(..., primary="{first.metric}")',
        )
        level = [each for each in others if (each.behind_low or 0.0) <= 0 and not best]
        level = level if is_highest else apart[: apart.index(first)]
        if tied := [each.metric for each in level]:
            it = "they predict" if alike else "it predicts"
            text = f"These questions can't tell whether {it} better than {listed(tied)}."
            yield m.Statement(text, "open", evidence=_PREDICTIONS)
        if first.at_best is not None and first.at_worst is not None:
            at_best = f"{carried(first.at_best, first.n_at_best)} ({questions(first.n_at_best)})"
            at_worst = f"{carried(first.at_worst, first.n_at_worst)} ({first.n_at_worst:,})"
            text = f"answers score {at_best}; where it is worst, {at_worst}."
            yield m.Statement(f"Where {first.metric} is best, {text}", evidence=_PREDICTIONS)
    else:
        text = f"No metric is shown to predict your answers: the highest is {name} ({number})."
        yield m.Statement(text, "open", evidence=_PREDICTIONS)
    against = [each for each in (first, *others) if each.contradicts]
    for each in against:
        yield m.Statement(describe(each), "alarm", evidence=_PREDICTIONS)
    if not first.predicts and not all(lower_is_better(each.metric) for each in against):
        text = "Are low scores of your answers the good ones? Then turn them round."
        yield m.Statement(text, "open")


def _silent(others: list[MetricRelation]) -> str:
    silent = [each for each in others if not each.predicts and not each.contradicts]
    if not silent:
        return ""
    are, most = ("isn't", "") if len(silent) == 1 else ("aren't", " at most")
    highest = f"{score(silent[0].value or 0.0, digits=2)}{most}"
    return f"; {listed([each.metric for each in silent])} {are} shown to predict them ({highest})"


def _references(relation: Relation) -> Iterator[m.Statement]:
    """What answers score without any context, and with every relevant passage."""
    for reference, words in ((relation.closed_book, _CLOSED_BOOK), (relation.oracle, _ORACLE)):
        if reference is None:
            continue
        told, adds, takes, neither = words
        gap, is_told = reference.gap, excludes_0(reference.gap)
        sign = -1 if is_told and gap.mean < 0 else 1
        number = score(sign * gap.mean, 0.0, digits_of(gap.n))
        if gap.low is not None and gap.high is not None:
            low, high = sorted((sign * gap.low, sign * gap.high))
            number += f" ({ends(low, high)}) with {percent(relation.confidence)} confidence"
        what = neither if not is_told else adds if sign > 0 else takes
        text = f"{told} {carried(reference.mean, gap.n)}: {what} {number}."
        yield m.Statement(text, "normal" if is_told else "open")


def _number(relation: MetricRelation) -> str:
    """The value with its interval, whose ends have as many digits as tell them from chance."""
    value = f"{_NAMES[relation.measure]} {score(relation.value or 0.0, digits=2)}"
    if relation.low is None or relation.high is None:
        return value
    low, high = (score(end, relation.null, 2) for end in (relation.low, relation.high))
    return f"{value}, {low} to {high}"


def _text(relation: Relation) -> str:
    together = ""
    if len(_apart(relation)) > 1:
        behind = "those of differences each alone" if relation.is_shown else "as do all differences"
        level = f"with {percent(relation.confidence)} confidence"
        together = f" Intervals of all metrics hold together {level}, {behind}."
    return f"{_EXPLAINED[relation.measure]}{together} {_READ}"


def _table(relation: Relation) -> m.Table:
    first, is_graded = relation.metrics[0], relation.measure == "tau_b"
    form: m.Form = "signed" if is_graded else "score"
    rows = []
    for each in relation:
        like = f" (as {each.same_as})" if each.same_as else ""
        behind = None
        if first.metric not in (each.metric, each.same_as) and each.behind is not None:
            behind = score(each.behind, digits=2)
            if each.behind_low is not None and each.behind_high is not None:
                behind += f" ({ends(each.behind_low, each.behind_high)})"
        cells = [
            m.Cell(each.value, form, _tone(each, relation), digits=2),
            m.Cell(form, "bounds", "quiet", each.low, each.high, each.null, digits=2),
            *([m.Cell(each.spearman, "signed", digits=2)] if is_graded else []),
            _mean_at(relation, each.at_best, each.n_at_best),
            _mean_at(relation, each.at_worst, each.n_at_worst),
            m.Cell(behind),
        ]
        rows.append(m.Row(f"{each.metric}{like}", cells))
    level, graded = percent(relation.confidence), ["Spearman"] if is_graded else []
    headings = [_NAMES[relation.measure], f"{level} interval", *graded, "best", "worst", "behind"]
    return m.Table("", headings, [rows])


def _mean_at(relation: Relation, mean: float | None, n: int) -> m.Cell:
    """Of answers that are right or wrong how many are right, of others the mean."""
    if mean is None:
        return m.Cell.of(None, "share")
    if relation.is_share:
        return m.Cell((round(mean * n), n), "share")
    return m.Cell(f"{carried(mean, n)} (n = {n:,})")


def _tone(each: MetricRelation, relation: Relation) -> m.Tone:
    if each.contradicts:
        return "alarm"
    if not each.predicts:
        return "quiet"
    return "best" if each is relation.metrics[0] and relation.is_shown else "normal"


def _figure(relation: Relation) -> Figure | None:
    if not (known := _apart(relation)):
        return None
    name, chance = _NAMES[relation.measure], known[0].null
    cells = [m.Cell(each.value, "score", low=each.low, high=each.high) for each in known]
    series = Series(
        name,
        0,
        [each.value or 0.0 for each in known],
        [each.metric for each in known],
        [each.low for each in known],
        [each.high for each in known],
        [f"{each.metric}: {shown(cell)}" for each, cell in zip(known, cells, strict=True)],
        hollow=[not each.predicts for each in known],
    )
    seen = [chance, *series.x, *(end for end in (*series.low, *series.high) if end is not None)]
    span = math.floor(10 * min(map(float, seen))) / 10, math.ceil(10 * max(map(float, seen))) / 10
    return Figure("points", Axis(name, span), Axis(), [series], zero_line=True, zero=chance)
