"""trec_eval's names of measures, and which of our metrics each of them is.

Where a name means something else here, such as `ndcg`, it is trec_eval's meaning that counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from math import sqrt
from typing import Any, Literal, NamedTuple, TypeAlias

from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

from llama_index_rag_metrics.errors import InvalidInput, UnknownMetric
from llama_index_rag_metrics.metrics import FScore, RankingMetric
from llama_index_rag_metrics.metrics.trec_eval import (
    HitCount,
    InterpolatedPrecision,
    RelevantCount,
    RetrievedCount,
)
from llama_index_rag_metrics.naming import metric
from llama_index_rag_metrics.text_metrics import TextMetric

Summary: TypeAlias = Literal["mean", "sum", "geometric mean", "run id", "number of queries"]

_CUTOFFS = ("5", "10", "15", "20", "30", "100", "200", "500", "1000")
_LEVELS = tuple(f"{tenth / 10}" for tenth in range(11))


class Column(NamedTuple):
    """One measure of a report.

    Attributes:
        label: trec_eval's name, such as P_5, or ours where trec_eval has no such measure.
        metric: what computes it by query; None where it isn't computed.
        summary: what stands for all queries.
    """

    label: str
    metric: RankingMetric | None
    summary: Summary


@dataclass(frozen=True)
class _Measure:
    """A measure of trec_eval's.

    Attributes:
        name: its name.
        build: our metric, from a parameter's text, or from "" where none is given.
        defaults: the parameters that it has unless others are given.
        summary: what stands for all queries.
        label: the name with a parameter.
        several: whether each parameter is a measure of its own.
    """

    name: str
    build: Callable[[str], RankingMetric] | None
    defaults: tuple[str, ...] = ("",)
    summary: Summary = "mean"
    label: Callable[[str], str] = str
    several: bool = False

    def column(self, parameter: str) -> Column:
        """The measure with that parameter."""
        label = f"{self.name}_{self.label(parameter)}" if parameter else self.name
        return Column(label, self.build(parameter) if self.build else None, self.summary)


def _made(metric_class: type[RankingMetric], **parameters: Any) -> RankingMetric:
    return metric_class(**parameters)


def _ours(name: str) -> Callable[[str], RankingMetric]:
    """Our metric of that name; a parameter is the cutoff."""

    def build(parameter: str) -> RankingMetric:
        return _ranking(f"{name}@{parameter}" if parameter else name)

    return build


def _plain(name: str, ours: str) -> _Measure:
    return _Measure(name, _ours(ours))


def _cut(name: str, ours: str, defaults: tuple[str, ...] = _CUTOFFS) -> _Measure:
    return _Measure(name, _ours(ours), defaults, several=True)


def _at_recall(parameter: str) -> RankingMetric:
    return _made(InterpolatedPrecision, recall=_number("iprec_at_recall", parameter, 0.0, 1.0))


def _f(parameter: str) -> RankingMetric:
    # trec_eval's parameter is the square of van Rijsbergen's beta
    return _made(FScore, beta=sqrt(_number("set_F", parameter or "1", 1e-300)))


_MEASURES = {
    one.name: one
    for one in (
        _Measure("runid", None, summary="run id"),
        _Measure("num_q", None, summary="number of queries"),
        _Measure("num_ret", lambda _: _made(RetrievedCount), summary="sum"),
        _Measure("num_rel", lambda _: _made(RelevantCount), summary="sum"),
        _Measure("num_rel_ret", lambda _: _made(HitCount), summary="sum"),
        _plain("map", "ap"),
        _Measure("gm_map", _ours("ap"), summary="geometric mean"),
        _plain("Rprec", "r_precision"),
        _plain("bpref", "bpref"),
        _plain("recip_rank", "mrr"),
        _Measure(
            "iprec_at_recall",
            _at_recall,
            _LEVELS,
            label=lambda level: f"{float(level):.2f}",
            several=True,
        ),
        _cut("P", "precision"),
        _cut("recall", "recall"),
        _plain("infAP", "infap"),
        _Measure("gm_bpref", _ours("bpref"), summary="geometric mean"),
        _plain("ndcg", "ndcg(ideal=all)"),
        _cut("ndcg_cut", "ndcg"),
        _cut("map_cut", "ap"),
        _cut("success", "hit_rate", ("1", "5", "10")),
        _plain("set_P", "precision"),
        _plain("set_recall", "recall"),
        _Measure("set_F", _f),
    )
}
"""In the order in which trec_eval prints them."""

_OFFICIAL = tuple(_MEASURES)[: tuple(_MEASURES).index("P") + 1]
_SETS = {
    "official": _OFFICIAL,
    "set": (*_OFFICIAL[:5], "set_P", "set_recall", "set_F"),
    "all_trec": tuple(_MEASURES),
}
"""trec_eval's names of sets of measures: those of each that we have."""


def columns(names: Iterable[str], min_grade: float | None = None) -> list[Column]:
    """The columns of a report, in trec_eval's order; metrics that it doesn't know come last.

    Args:
        names: trec_eval's names as its -m takes them ("map", "P.5,10", "official"), with a cutoff
            as it prints them ("P_5"), or ours ("rbp(p=0.9)", "ndcg@10").
        min_grade: the grade from which an item is relevant, trec_eval's -l.

    Raises:
        UnknownMetric: no measure has that name.
        InvalidInput: a parameter can't be used.

    Examples:
        >>> [one.label for one in columns(["ndcg_cut.10,5", "map", "rbp"])]
        ['map', 'ndcg_cut_5', 'ndcg_cut_10', 'rbp']
        >>> [one.metric.metric_name for one in columns(["ndcg", "ndcg@10"])]
        ['ndcg(ideal=all)', 'ndcg@10']
    """
    found: dict[str, Column] = {}
    for name in names:
        for column in _columns_of(name.strip()):
            found.setdefault(column.label, column)
    order = {name: at for at, name in enumerate(_MEASURES)}

    def place(column: Column) -> tuple[int, float]:
        name, parameter = _split(column.label)
        return order.get(name, len(order)), float(parameter or 0)

    made = sorted(found.values(), key=place)
    at_level([one.metric for one in made if one.metric is not None], min_grade)
    return made


def metrics_of(measures: Iterable[Column]) -> list[BaseRetrievalMetric]:
    """The metrics that compute them, each once; at least one, to have queries to count."""
    found = {one.metric.metric_name: one.metric for one in measures if one.metric is not None}
    return list(found.values()) or [_made(RetrievedCount)]


def at_level(metrics: Iterable[BaseRetrievalMetric], min_grade: float | None) -> None:
    """Let the metrics of binary relevance that name no grade of their own count from this one.

    Raises:
        InvalidInput: the grade isn't above 0, or two metrics become the same.
    """
    if min_grade is None:
        return
    if not min_grade > 0:
        raise InvalidInput("--min-grade", min_grade, "a grade above 0")
    for one in metrics:
        if hasattr(one, "min_grade") and "min_grade" not in one.model_fields_set:
            one.min_grade = min_grade


def _columns_of(name: str) -> Iterator[Column]:
    if name in _SETS:
        for one in _SETS[name]:
            yield from _columns_of(one)
        return
    family, parameters = _split(name)
    if family in _MEASURES:
        yield from _of_family(_MEASURES[family], parameters)
        return
    try:
        ours = _ranking(name)
    except UnknownMetric as error:
        near = get_close_matches(name, [*_MEASURES, *_SETS], n=2, cutoff=0.6)
        raise UnknownMetric(name, near or error.nearest) from error
    yield _same(ours) or Column(ours.metric_name, ours, "mean")


def _of_family(measure: _Measure, parameters: str) -> Iterator[Column]:
    if not parameters:
        given = list(measure.defaults)
    elif measure.several:
        given = parameters.split(",")
    elif measure.build is _f:
        given = [parameters]
    else:
        raise InvalidInput("-m", f"{measure.name}.{parameters}", f"{measure.name} as it is")
    for parameter in given:
        yield measure.column(parameter.strip())


def _split(name: str) -> tuple[str, str]:
    """Name and parameters of a measure as trec_eval's -m takes it, or as it prints it."""
    if name in _MEASURES:
        return name, ""
    family, dot, parameters = name.partition(".")
    if dot and family in _MEASURES:
        return family, parameters
    for family in _MEASURES:
        parameters = name.removeprefix(f"{family}_")
        if parameters != name and parameters[:1].isdigit():
            return family, parameters
    return name, ""


def _same(ours: RankingMetric) -> Column | None:
    """The measure of trec_eval's that one of our metrics is."""
    k = str(getattr(ours, "k", None) or "")
    for measure in _MEASURES.values():
        if measure.build is None or measure.build is _at_recall or measure.several != bool(k):
            continue
        if measure.build(k).metric_name == ours.metric_name:
            return measure.column(k)
    return None


def _ranking(name: str) -> RankingMetric:
    found = metric(name)
    if isinstance(found, TextMetric) or not isinstance(found, RankingMetric):
        raise InvalidInput("-m", name, "a metric of rankings")
    return found


def _number(name: str, text: str, low: float, high: float = float("inf")) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not low <= number <= high:
        raise InvalidInput("-m", f"{name}.{text}", f"{name} with a number from {low:g} to {high:g}")
    return number
