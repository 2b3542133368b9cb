"""The names of the metrics: a table, `name[(param=value, ...)][@k]` read, LlamaIndex's registry."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from traceback import walk_stack
from typing import Any

from llama_index.core.evaluation.retrieval.metrics import METRIC_REGISTRY
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

from llama_index_rag_metrics.runtime.errors import InvalidInput, UnknownMetric, warn

from . import gains, groups, ranks, sets, spans, texts
from .base import NamedMetric, unknown_parameter

ALIASES: Mapping[str, str] = {
    "success": "hit_rate",
    "rr": "mrr",
    "recip_rank": "mrr",
    "P": "precision",
    "set_P": "precision",
    "R": "recall",
    "set_recall": "recall",
    "map": "ap",
    "map_cut": "ap",
    "Rprec": "r_precision",
    "ndcg_cut": "ndcg",
    "strec": "facet_recall",
}
"""What trec_eval, ir_measures and ranx call them; case and dashes don't matter."""

ELSEWHERE = {  # what other libraries call metrics with a parameter, and how it is written here
    "exponential_ndcg": "ndcg(mode=exponential)",
    "ndcg_exp": "ndcg(mode=exponential)",
    "fbeta": "f(beta=2)",
    "fscore": "f(beta=2)",
}

_LONGEST_GUESSED = 100  # in characters: the search for similar names takes more than linear time

# words and single groups: nothing can be matched in two ways, so that any text takes linear time
_NAME = re.compile(
    r"(?P<name>[A-Za-z][\w\-]*(?: +[\w\-]+)*)"
    r"(?:\s*\((?P<parameters>[^()]*)\))?(?:\s*@\s*(?P<k>[^\s@]+))?"
)

USUAL_CUTOFFS = (1, 3, 5, 10, 20, 50, 100)  # those in LlamaIndex's registry from the start

_registry: dict[str, Any] = METRIC_REGISTRY

_MIXED = (
    "two definitions in one list of metrics: LlamaIndex's for {cores}, this package's for {ours}. "
    "Call register(replace=True) first to have this package's for all."
)
_LEFT_ALONE = (
    "LlamaIndex's registry has {names} already, which stays as it is: "
    "register(..., replace=True) replaces it."
)


@dataclass(frozen=True)
class MetricEntry:
    """One row of the table of metrics: a name, its class, and the parameters that it stands for."""

    name: str
    metric_class: type[NamedMetric]
    preset: Mapping[str, object]

    @property
    def definition(self) -> str:
        return " ".join((self.metric_class.__doc__ or "").strip().split("\n\n")[0].split())

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters that can still be given, by name: pydantic's field information."""
        fields = self.metric_class.model_fields.items()
        return {name: field for name, field in fields if not (name in self.preset or field.exclude)}


class MetricTable(dict[str, MetricEntry]):
    """Every metric by its bare name, in the order of reports.

    >>> METRICS["ndcg"].metric_class.__name__, "ngcd" in METRICS, list(METRICS)[:2]
    ('NDCG', False, ['hit_rate', 'granular_hit_rate'])
    """


METRICS = MetricTable()
# of metrics of stored scores, whose classes may not be known here
LESS_IS_BETTER: set[str] = set()
LIMITS: dict[str, tuple[float, float]] = {}


def _add(metric_class: type[NamedMetric]) -> None:
    presets = {getattr(metric_class, "name", ""): {}, **metric_class.variants}
    for name in presets:
        if not re.fullmatch(r"[A-Za-z][\w\-]*", name):
            expected = "letters, digits and underscores, such as name = 'my_metric'"
            raise InvalidInput(f"name of {metric_class.__name__}", name, expected)
        # a cell of a notebook that runs again defines the same class again
        if name in METRICS and METRICS[name].metric_class.__qualname__ != metric_class.__qualname__:
            raise InvalidInput(f"name of {metric_class.__name__}", name, "one that no metric has")
    for name, preset in presets.items():
        METRICS[name] = MetricEntry(name, metric_class, preset)


_HITS = sets.HitRate, ranks.MRR, sets.Precision, sets.Recall, sets.FScore
_RANKS = ranks.AveragePrecision, ranks.RPrecision, gains.NDCG, gains.DCG, ranks.RBP, gains.ERR
_POOLS = ranks.BPref, ranks.InfAP, sets.Judged, sets.Accuracy
_GROUPS = groups.GroupRecall, groups.GroupF1, groups.GroupMRR, groups.GroupAP
_FACETS = groups.Complete, groups.FacetRecall, groups.AlphaNDCG, groups.ERRIA
_SPANS = spans.SpanRecall, spans.SpanPrecision, spans.SpanF1, spans.SpanIoU
_UNANSWERABLE = sets.Abstained, sets.Returned
_SIMILARITIES = texts.EmbeddingSimilarity, texts.BM25Similarity
_RERANKERS = texts.RerankRelevancy, texts.CohereRerankRelevancy
_OF_IDS = *_HITS, *_RANKS, *_POOLS, *_GROUPS, *_FACETS, *_SPANS, *_UNANSWERABLE
for _metric_class in (*_OF_IDS, *_SIMILARITIES, *_RERANKERS, texts.LLMRelevancy):
    _add(_metric_class)

DEFAULT_METRICS = ("ndcg@10", "hit_rate@5", "recall@5", "precision@5", "mrr@10", "ap@10")
"""What `evaluate` computes unless told otherwise."""


def metric(name: str) -> NamedMetric:
    """The metric with that name.

    Args:
        name: `name[(param=value, ...)][@k]`, such as "ndcg(mode=exponential)@10". A dozen names of
            other tools are known, and shown as they are: "map", "success@5", "ndcg_cut_10", "P_5".

    Raises:
        UnknownMetric: no metric has that name or parameter; the message lists the nearest ones.
        InvalidInput: a value is out of range.

    Examples:
        >>> metric("nDCG@10").metric_name, metric("P_5").metric_name
        ('ndcg@10', 'P@5')
    """
    text = str(name).strip()
    match = _NAME.fullmatch(text)
    row = match and _find(match["name"])
    if match is None or row is None:
        raise UnknownMetric(text, _nearest(text))
    entry, alias, cutoff = row
    parts = list(map(str.strip, (match["parameters"] or "").split(",")))
    if cutoff:
        parts.append(f"k={cutoff}")
    if cutoff_text := match["k"]:
        unit = "tokens" if cutoff_text.endswith("tokens") else "k"
        parts.append(f"{unit}={cutoff_text.removesuffix('tokens')}")
    parameters: dict[str, object] = {}
    for part in filter(None, parts):
        key, _, value = part.partition("=")
        parameter = key.strip()
        if not value.strip() or parameter in parameters:
            raise InvalidInput("metric", name, "parameters written as name=value, each once")
        if parameter not in entry.parameters:
            raise unknown_parameter(entry.name, parameter, entry.parameters)
        parameters[parameter] = _literal(value.strip())
    built = entry.metric_class(**{**entry.preset, **parameters})
    return built.shown_as(alias, entry.name) if alias else built


def metrics(
    names: str | BaseRetrievalMetric | Iterable[str | BaseRetrievalMetric],
) -> list[BaseRetrievalMetric]:
    """The metrics with those names, in that order; metric objects are taken as they are.

    Raises:
        InvalidInput: two of them have the same name.

    Examples:
        >>> [m.metric_name for m in metrics(["hit_rate@5", "f1@5"])]
        ['hit_rate@5', 'f1@5']
    """
    is_single = isinstance(names, (str, BaseRetrievalMetric)) or not isinstance(names, Iterable)
    listed: list[Any] = [names] if is_single else list(names)
    if not listed:
        raise InvalidInput("metrics", listed, "at least one metric", "For example ['ndcg@10'].")
    resolved: dict[str, BaseRetrievalMetric] = {}
    for name in listed:  # no comprehension: a frame more in tracebacks of Python 3.11
        entry = metric(name) if isinstance(name, str) else name
        if not isinstance(entry, BaseRetrievalMetric):
            remedy = f"Write {name.__name__}()." if isinstance(name, type) else ""
            raise InvalidInput("metric", name, "a name such as 'ndcg@10' or a metric", remedy)
        # by its name alone, comparisons and stories know what is better and where it stops
        if isinstance(entry, NamedMetric) and not isinstance(entry, _class_of(entry.name) or ()):
            _add(type(entry))
        own_name = getattr(entry, "own_name", entry.metric_name)
        if own_name in resolved:
            remedy = "Drop one, or give it other parameters: they are part of the name."
            raise InvalidInput("metrics", own_name, "each name once", remedy)
        resolved[own_name] = entry
    return list(resolved.values())


def register(*metrics: type[NamedMetric] | str, replace: bool = False) -> None:
    """Add this package's names to LlamaIndex's registry: `f1`, `ndcg@10`, `granular_hit_rate`, …

    Importing the package does this once, with the cutoffs 1, 3, 5, 10, 20, 50 and 100. A name that
    exists already is left alone, so LlamaIndex's own `hit_rate` and `ndcg` stay LlamaIndex's
    unless `replace` is set; a warning says so of a name that is given.

    Args:
        metrics: classes of your own metrics, which the table then has, too; and names besides the
            usual ones.
        replace: replace LlamaIndex's own metrics of the names that are given, or all without any.

    Raises:
        InvalidInput: an argument is neither a metric class nor a name.
        UnknownMetric: no metric has that name.

    Examples:
        >>> from llama_index.core.evaluation import resolve_metrics
        >>> register("ndcg@7000")
        >>> resolve_metrics(["ndcg@7000"])[0]().metric_name
        'ndcg@7000'
    """
    names: list[str] = []
    for entry in metrics:
        if isinstance(entry, str):
            metric(entry)
            names.append(entry)
        elif isinstance(entry, type) and issubclass(entry, NamedMetric):
            _add(entry)
            names.append(entry.name)
        else:
            expected = "a metric class, such as a subclass of BinaryMetric, or the name of a metric"
            raise InvalidInput("register", entry, expected)
    left_alone = []
    for name in dict.fromkeys((*_usual_names(), *names)):
        replaces = replace and (not names or name in names)
        if name not in _registry or _is_ours(name) or replaces:
            _registry[name] = partial(_registered, name)
        elif name in names:
            left_alone.append(name)
    if left_alone:
        warn(UserWarning(_LEFT_ALONE.format(names=", ".join(left_alone))))


def _registered(name: str) -> NamedMetric:
    """The metric of a name in LlamaIndex's registry; a warning where a list mixes definitions."""
    names = _names_asked_for()
    ours = list(filter(_is_ours, names))
    cores = [core_name for core_name in names if core_name not in ours]
    if cores and ours[:1] == [name]:
        warn(UserWarning(_MIXED.format(cores=", ".join(cores), ours=", ".join(ours))))
    return metric(name)


def _names_asked_for() -> list[str]:
    """Return the names that LlamaIndex's `from_metric_names` was given; it makes one at a time."""
    for frame, _ in walk_stack(sys._getframe()):
        if frame.f_code.co_name == "from_metric_names":
            return list(frame.f_locals["metric_names"])
    return []


def _is_ours(name: str) -> bool:
    return getattr(_registry.get(name), "func", None) is _registered


def _usual_names() -> list[str]:
    names: list[str] = []
    for name in (*METRICS, *ALIASES):
        entry = METRICS[ALIASES.get(name, name)]
        if any(field.is_required() for field in entry.metric_class.model_fields.values()):
            continue
        names.append(name)
        if "k" in entry.parameters:
            names += [f"{name}@{k}" for k in USUAL_CUTOFFS]
    return names


def limits_of(name: str) -> tuple[float, float]:
    """The lowest and the highest score that a metric can give; infinite where unknown."""
    stored = LIMITS.get(name, (-math.inf, math.inf))
    bounds: tuple[float, float] = getattr(_class_of(name), "bounds", stored)
    return bounds


def lower_is_better(name: str) -> bool:
    return bool(getattr(_class_of(name), "lower_is_better", name in LESS_IS_BETTER))


def of_unanswerable(name: str) -> bool:
    return bool(getattr(_class_of(name), "of_unanswerable", False))


def worst_score(name: str) -> float | None:
    """The score of a question that goes wrong, by a metric from 0 to 1; None by others."""
    return float(lower_is_better(name)) if limits_of(name) == (0.0, 1.0) else None


def _class_of(name: str) -> type[NamedMetric] | None:
    match = _NAME.fullmatch(name.strip())
    row = match and _find(match["name"])
    return row and row[0].metric_class


def _find(name: str) -> tuple[MetricEntry, str, str] | None:
    """The metric of a name without parameters, the alias that the name is, and k of `P_10`."""
    bare = _bare(name)
    uncut, _, k = bare.rpartition("_")
    spellings = [(name, ""), (bare, "")]
    if k.isdecimal():
        spellings.append((uncut, k))
    for spelling, cutoff in spellings:
        if spelling in METRICS:
            return METRICS[spelling], "", cutoff
        for alias, target in ALIASES.items():
            if alias.lower() == spelling:
                return METRICS[target], alias, cutoff
    return None


def _bare(name: str) -> str:
    return re.sub(r"[\s\-]+", "_", name).lower()


def _literal(text: str) -> object:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text.strip("'\"")


def _nearest(name: str) -> list[str]:
    """The known names that are written most like one, with its cutoff where they take it."""
    joined = re.fullmatch(r"(\w+?)(?:_at)?[_-]?(\d+)", name[:_LONGEST_GUESSED])
    if joined and _bare(joined[1]) in METRICS:
        return [f"{_bare(joined[1])}@{joined[2]}"]
    base, _, k = name[:_LONGEST_GUESSED].partition("@")
    bare = _bare(base.partition("(")[0].strip())
    near = get_close_matches(bare, METRICS, n=2, cutoff=0.5)
    if bare in ELSEWHERE:
        near = [ELSEWHERE[bare]]
    if not k.isdecimal():
        return near
    takes_k = [row for row in METRICS if "k" in METRICS[row].parameters]
    return [f"{row}@{k}" if row.partition("(")[0] in takes_k else row for row in near]
