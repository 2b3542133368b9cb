"""trec_eval's names of measures, the metric that each of them is, and its report.

Where a name means something else here, such as `ndcg` or `rbp`, trec_eval's meaning counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.metrics.metric_names import metric, split_names
from llama_index_rag_metrics.metrics.others import (
    InterpolatedPrecision,
    PrecisionAtMultiple,
    RelevantCount,
    RetrievedCount,
    Rounding,
)
from llama_index_rag_metrics.metrics.sets import FScore
from llama_index_rag_metrics.metrics.texts import TextMetric
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.runtime.arrays import FloatArray
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnknownMetric
from llama_index_rag_metrics.scores import Scores

if TYPE_CHECKING:
    from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

Summary: TypeAlias = Literal["mean", "sum", "geometric mean", "run id", "number of queries"]
Version: TypeAlias = Literal[9, 10]  # which trec_eval is followed: 9.0.8 or 10.0
_CUTOFFS = ("5", "10", "15", "20", "30", "100", "200", "500", "1000")
_LEVELS = tuple(f"{tenth / 10}" for tenth in range(11))
_MULTIPLES = tuple(f"{fifth / 5}" for fifth in range(1, 11))
_LEAST_OF_MEAN = 1e-5  # what a lower score counts as in a geometric mean, as in trec_eval


class Column(NamedTuple):
    """A measure of a report; `of_all_judged` is its summary's metric under -c, if another."""

    label: str
    metric: RankingMetric | None
    summary: Summary
    place: tuple[int, float]
    of_all_judged: RankingMetric | None = None


# a metric from a parameter's text, or from "" where none is given
Build: TypeAlias = "Callable[[str, Rounding], RankingMetric]"


@dataclass(frozen=True)
class _Measure:
    """A measure of trec_eval's; `since` this version it is among all_trec."""

    name: str
    build: Build | str | None  # or the name of one of ours, whose cutoff a parameter is
    defaults: tuple[str, ...] = ("",)  # the parameters that it has unless others are given
    summary: Summary = "mean"
    label: Callable[[str], str] = str  # writes a parameter behind the name
    takes: Literal["nothing", "several", "one"] = "nothing"  # "one" may hold commas
    since: Version = 9

    def column(self, parameter: str, version: Version) -> Column:
        label = f"{self.name}_{self.label(parameter)}" if parameter else self.name
        built = None
        if isinstance(self.build, str):
            built = _ranking(f"{self.build}@{parameter}" if parameter else self.build)
        elif self.build is not None:
            built = self.build(parameter, "up" if version == 9 else "nearest")
        place = list(_MEASURES).index(self.name), float(parameter if self.takes == "several" else 0)
        # trec_eval's -l doesn't reach this sum: it counts the grades above 0
        of_all_judged = RelevantCount(min_grade=1.0) if self.name == "num_rel" else None
        return Column(label, built, self.summary, place, of_all_judged)


def _cut(name: str, own_name: str, *defaults: str, since: Version = 9) -> _Measure:
    return _Measure(
        name,
        own_name,
        defaults or _CUTOFFS,
        label=lambda k: k.lstrip("0") or k,
        takes="several",
        since=since,
    )


def _hundredths(parameter: str) -> str:
    return f"{float(parameter):.2f}"


def _at_recall(parameter: str, rounding: Rounding) -> RankingMetric:
    recall = _number("iprec_at_recall", parameter, 0.0, 1.0)
    return InterpolatedPrecision(recall=recall, rounding=rounding)


def _at_multiple(parameter: str, rounding: Rounding) -> RankingMetric:
    return PrecisionAtMultiple(multiple=_number("Rprec_mult", parameter, 1e-300))


def _eleven_points(parameter: str, rounding: Rounding) -> RankingMetric:
    levels = f"levels={parameter.replace(',', ':')}, " if parameter else ""
    return _ranking(f"eleven_point_average({levels}rounding={rounding})")


def _f(parameter: str, rounding: Rounding) -> RankingMetric:
    # trec_eval's parameter is the square of van Rijsbergen's beta
    return FScore(beta=math.sqrt(_number("set_F", parameter or "1", 1e-300)))


def _ndcg(parameter: str, rounding: Rounding) -> RankingMetric:
    if not parameter:
        return _ranking("ndcg(ideal=all)")
    return _ranking(f"mapped_ndcg(gains={parameter.replace('=', ':').replace(',', ';')})")


def _utility(parameter: str, rounding: Rounding) -> RankingMetric:
    return _ranking(f"utility(weights={parameter.replace(',', ':')})" if parameter else "utility")


def _rbp(own_name: str, parameter: str, rounding: Rounding) -> RankingMetric:
    name, _, p = (parameter or "p=0.9").partition("=")
    if name != "p":
        raise InvalidInput("-m", parameter, "p and a number, as in rbp.p=0.8")
    return _ranking(f"{own_name}(p={p})")


# in the order in which trec_eval prints them
_MEASURES = {
    measure.name: measure
    for measure in (
        _Measure("runid", None, summary="run id"),
        _Measure("num_q", None, summary="number of queries"),
        _Measure("num_ret", "num_ret", summary="sum"),
        _Measure("num_rel", "num_rel", summary="sum"),
        _Measure("num_rel_ret", "num_rel_ret", summary="sum"),
        _Measure("map", "ap"),
        _Measure("gm_map", "ap", summary="geometric mean"),
        _Measure("Rprec", "r_precision"),
        _Measure("bpref", "bpref"),
        _Measure("recip_rank", "mrr"),
        _Measure("iprec_at_recall", _at_recall, _LEVELS, label=_hundredths, takes="several"),
        _cut("P", "precision"),
        _cut("recall", "recall"),
        _Measure("infAP", "infap"),
        _Measure("gm_bpref", "bpref", summary="geometric mean"),
        _Measure("Rprec_mult", _at_multiple, _MULTIPLES, label=_hundredths, takes="several"),
        _Measure("utility", _utility, takes="one"),
        _Measure("11pt_avg", _eleven_points, takes="one"),
        _Measure("binG", "bin_g"),
        _Measure("dcg", "dcg"),
        _Measure("ndcg", _ndcg, takes="one"),
        _cut("ndcg_cut", "ndcg"),
        _cut("map_cut", "ap"),
        _cut("relative_P", "relative_precision"),
        _cut("success", "hit_rate", "1", "5", "10"),
        _Measure("set_P", "precision"),
        _Measure("set_relative_P", "relative_precision"),
        _Measure("set_recall", "recall"),
        _Measure("set_map", "set_map"),
        _Measure("set_F", _f, takes="one"),
        _Measure("num_nonrel_judged_ret", "num_nonrel_judged_ret", summary="sum"),
        _Measure("rbp", partial(_rbp, "graded_rbp"), takes="one", since=10),
        _Measure("rbp_resid", partial(_rbp, "rbp_residual"), takes="one", since=10),
        _cut("unj", "unjudged", "5", "10", "20", since=10),
    )
}

# what trec_eval's all_trec has beside them: a string, and experiments of 2008
LEFT_OUT = ("relstring", "G", "ndcg_rel", "Rndcg")
_OFFICIAL = tuple(_MEASURES)[: tuple(_MEASURES).index("P") + 1]
# trec_eval's names of sets of measures
_SETS = {
    "official": _OFFICIAL,
    "set": (
        *_OFFICIAL[:5], "utility", "set_P", "set_recall", "set_relative_P", "set_map", "set_F",
    ),
    "all_trec": tuple(name for name in _MEASURES if name != "dcg"),
}  # fmt: skip


def columns(
    names: Iterable[str], min_grade: float | None = None, *, version: Version = 9
) -> list[Column]:
    """The columns of a report, in trec_eval's order; metrics that it doesn't know come last.

    `names` are trec_eval's as its -m takes them ("map", "P.5,10", "official"), with a cutoff as it
    prints them ("P_5"), or ours ("rbp(p=0.9)", "ndcg@10"); `min_grade` is its -l. Version 10 rounds
    levels of recall otherwise, and has more measures in all_trec.

    >>> [column.label for column in columns(["ndcg_cut.10,5,map", "judged"])]
    ['map', 'ndcg_cut_5', 'ndcg_cut_10', 'judged']
    >>> [column.metric.metric_name for column in columns(["ndcg", "ndcg@10"])]
    ['ndcg(ideal=all)', 'ndcg@10']
    """
    by_label: dict[str, Column] = {}
    for name in _single(names):
        for column in _columns_of(name, version):
            by_label.setdefault(column.label, column)
    at_level([column.metric for column in by_label.values() if column.metric], min_grade)
    return sorted(by_label.values(), key=lambda column: column.place)


def leaves_out(names: Iterable[str]) -> bool:
    """Whether trec_eval prints more measures by these names than `columns` has."""
    return "all_trec" in _single(names)


def metrics_behind(measures: Iterable[Column]) -> list[BaseRetrievalMetric]:
    """The metrics that compute them, each once; at least one, to have queries to count."""
    pairs = ((measure.metric, measure.of_all_judged) for measure in measures)
    by_name = {metric.metric_name: metric for pair in pairs for metric in pair if metric}
    return list(by_name.values()) or [RetrievedCount()]


def at_level(metrics: Iterable[BaseRetrievalMetric], min_grade: float | None) -> None:
    """Let the metrics of binary relevance that name no grade of their own count from this one."""
    if min_grade is None:
        return
    if not min_grade > 0:
        raise InvalidInput("--min-grade", min_grade, "a grade above 0")
    for counted in metrics:
        if hasattr(counted, "min_grade") and "min_grade" not in counted.model_fields_set:
            counted.min_grade = min_grade


def _single(names: Iterable[str]) -> list[str]:
    """One name each; a parameter after a comma belongs to the name before it."""
    single: list[str] = []
    for name in names:
        for number, part in enumerate(map(str.strip, split_names(name))):
            is_parameter = re.fullmatch(r"(?:\w+=)?[-+.\d][^(@]*|", part) and part not in _MEASURES
            if number and is_parameter:
                single[-1] += f",{part}"
            else:
                single.append(part)
    return single


def _columns_of(name: str, version: Version) -> Iterator[Column]:
    if name in _SETS:
        members = [_MEASURES[member] for member in _SETS[name]]
        parts = [(member, "") for member in members if member.since <= version]
    else:
        family, parameters = _split(name)
        if family not in _MEASURES:
            yield _own_column(name, version)
            return
        parts = [(_MEASURES[family], parameters)]
    for measure, parameters in parts:
        if parameters and measure.takes == "nothing":
            raise InvalidInput("-m", f"{measure.name}.{parameters}", f"{measure.name} alone")
        given = parameters.split(",") if measure.takes == "several" else [parameters]
        for parameter in given if parameters else measure.defaults:
            yield measure.column(parameter.strip(), version)


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


def _own_column(name: str, version: Version) -> Column:
    """The column of one of our metrics: trec_eval's where it has the same measure."""
    if name.partition(".")[0] in LEFT_OUT:
        raise InvalidInput("-m", name, f"a measure other than {', '.join(LEFT_OUT)}")
    try:
        own = _ranking(name)
    except UnknownMetric as error:
        near = get_close_matches(name, [*_MEASURES, *_SETS], n=2, cutoff=0.6)
        raise UnknownMetric(name, near or error.nearest) from error
    k = str(getattr(own, "k", None) or "")
    same = {"ndcg(ideal=all)": "ndcg", "f1": "set_F"}.get(own.metric_name)
    if same is not None:
        return _MEASURES[same].column("", version)
    for measure in _MEASURES.values():
        if isinstance(measure.build, str) and (measure.takes == "several") == bool(k):
            column = measure.column(k, version)
            if column.metric is not None and column.metric.metric_name == own.metric_name:
                return column
    return Column(own.metric_name, own, "mean", (len(_MEASURES), 0.0))


def _ranking(name: str) -> RankingMetric:
    ranking_metric = metric(name)
    if isinstance(ranking_metric, TextMetric) or not isinstance(ranking_metric, RankingMetric):
        raise InvalidInput("-m", name, "a metric of rankings")
    return ranking_metric


def _number(name: str, text: str, low: float, high: float = math.inf) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not low <= number <= high:
        raise InvalidInput("-m", f"{name}.{text}", f"{name} with a number from {low:g} to {high:g}")
    return number


def report_lines(
    scores: Scores,
    columns: Sequence[Column],
    *,
    per_query: bool = False,
    complete: bool = False,
    summary: bool = True,
    version: Version = 9,
) -> Iterator[str]:
    """The report of one run, from scores made with `no_relevant="zero"`.

    Averages are trec_eval's: over the judged queries that the run has a ranking of, those with
    nothing relevant included; added one after another in the order of the query ids. `per_query` is
    its -q, `complete` its -c (whose queries without a ranking version 10 prints, too), and
    `summary=False` its -n.
    """
    absent = set(scores.empty)
    ranked = sorted(query_id for query_id in scores.query_ids if query_id not in absent)
    if per_query:
        by_metric = {name: scores.by_query(name) for name in scores}
        for query_id in sorted(scores.query_ids) if complete and version == 10 else ranked:
            for column in columns:
                if column.metric is not None and column.summary in ("mean", "sum"):
                    value = by_metric[column.metric.metric_name][query_id]
                    yield _line(column, plain(query_id), value)
    if summary:
        n_queries = len(scores.query_ids) if complete else len(ranked)
        for column in columns:
            yield _line(column, "all", _summary(column, scores, ranked, n_queries, complete))


def _summary(
    column: Column, scores: Scores, ranked: Sequence[str], n_queries: int, complete: bool
) -> float | str:
    if column.summary == "run id":
        return plain(scores.name)
    if column.metric is None:
        return n_queries
    if complete and column.of_all_judged is not None:
        return _sum(scores[column.of_all_judged.metric_name])
    by_query = scores.by_query(column.metric.metric_name)
    values = np.array([by_query[query_id] for query_id in ranked], np.float64)
    if column.summary == "geometric mean":
        logs = _sum(np.array([math.log(max(value, _LEAST_OF_MEAN)) for value in values.tolist()]))
        logs += (n_queries - len(ranked)) * math.log(_LEAST_OF_MEAN)
        return math.exp(logs / n_queries) if n_queries else 0.0
    total = _sum(values)
    return total if column.summary == "sum" or not n_queries else total / n_queries


def _sum(values: FloatArray) -> float:
    """Added one after another: the last digit that is printed depends on it."""
    return float(np.cumsum(values)[-1]) if len(values) else 0.0


def _line(column: Column, query_id: str, value: float | str) -> str:
    is_whole = column.summary in ("sum", "number of queries")
    text = value if isinstance(value, str) else f"{value:.0f}" if is_whole else f"{value:6.4f}"
    return f"{column.label:<22}\t{query_id}\t{text}"
