"""The names of the metrics: one ordered table, and reading `name[(param=value, ...)][@k]`."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

from llama_index_rag_metrics.runtime.errors import InvalidInput, UnknownMetric

from . import gains, groups, ranks, sets, spans
from . import texts as text_metrics
from .base import NamedMetric, Variants

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

ELSEWHERE = {
    "exponential_ndcg": "ndcg(mode=exponential)",
    "ndcg_exp": "ndcg(mode=exponential)",
    "fbeta": "f(beta=2)",
    "fscore": "f(beta=2)",
}
"""What other libraries call metrics with a parameter, and how it is written here."""

_LONGEST_GUESSED = 100  # in characters: the search for similar names takes more than linear time

# words and single groups: nothing can be matched in two ways, so that any text takes linear time
_NAME = re.compile(
    r"(?P<name>[A-Za-z][\w\-]*(?: +[\w\-]+)*)"
    r"(?:\s*\((?P<parameters>[^()]*)\))?(?:\s*@\s*(?P<k>[^\s@]+))?"
)

AnyMetric = TypeVar("AnyMetric", bound=NamedMetric)


@dataclass(frozen=True)
class MetricEntry:
    """One row of the table of metrics: a name, its class, and the parameters that it stands for."""

    name: str
    metric_class: type[NamedMetric]
    preset: Mapping[str, object]

    @property
    def definition(self) -> str:
        """What the name means; a docstring with a variant is "what is plain; name: what varies"."""
        paragraph = (self.metric_class.__doc__ or "").strip().split("\n\n")[0]
        definition, *variant = re.split(r"; (?:granular|f1): ", " ".join(paragraph.split()))
        if variant and self.preset:
            definition = variant[0]
        return f"{definition[0].upper()}{definition[1:].rstrip('.')}."

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters that can still be given, by name: pydantic's field information."""
        fields = self.metric_class.model_fields.items()
        return {name: field for name, field in fields if not (name in self.preset or field.exclude)}

    @property
    def needs(self) -> list[str]:
        fields = self.metric_class.model_fields.items()
        return [name for name, field in fields if field.is_required()]


class MetricTable(dict[str, MetricEntry]):
    """Every metric by its bare name, in the order of reports.

    Examples:
        >>> from llama_index_rag_metrics import METRICS
        >>> METRICS["ndcg"].metric_class.__name__, "ngcd" in METRICS, list(METRICS)[:2]
        ('NDCG', False, ['hit_rate', 'granular_hit_rate'])
    """

    def __init__(self, classes: Iterable[type[NamedMetric]]) -> None:
        super().__init__()
        for metric_class in classes:
            self.add(metric_class)

    def add(self, metric_class: type[AnyMetric]) -> type[AnyMetric]:
        """Put a metric class into the table, with its variants; it can then be called by name."""
        presets: Variants = {getattr(metric_class, "name", ""): {}, **metric_class.variants}
        for name in presets:
            match = _NAME.fullmatch(name.strip())
            if match is None or match["name"] != name:
                expected = "letters, digits and underscores, such as name = 'my_metric'"
                raise InvalidInput(f"name of {metric_class.__name__}", name, expected)
            entry = self.get(name)
            if entry is not None and _identity(entry.metric_class) != _identity(metric_class):
                raise _duplicate(name)
        for name, preset in presets.items():
            self[name] = MetricEntry(name, metric_class, dict(preset))
        return metric_class


def _identity(metric_class: type) -> tuple[str, str]:
    return metric_class.__module__, metric_class.__qualname__


def _duplicate(name: str) -> InvalidInput:
    remedy = "Drop one, or give it other parameters: they are part of the name."
    return InvalidInput("metrics", name, "each name once", remedy)


METRICS = MetricTable(
    [
        sets.HitRate,
        ranks.MRR,
        sets.Precision,
        sets.Recall,
        sets.FScore,
        ranks.AveragePrecision,
        ranks.RPrecision,
        gains.NDCG,
        gains.DCG,
        ranks.RBP,
        gains.ERR,
        ranks.BPref,
        ranks.InfAP,
        sets.Judged,
        sets.Accuracy,
        groups.GroupRecall,
        groups.GroupF1,
        groups.GroupMRR,
        groups.GroupAP,
        groups.Complete,
        groups.FacetRecall,
        groups.AlphaNDCG,
        groups.ERRIA,
        spans.SpanRecall,
        spans.SpanPrecision,
        spans.SpanF1,
        spans.SpanIoU,
        sets.Abstained,
        sets.Returned,
        text_metrics.EmbeddingSimilarity,
        text_metrics.BM25Similarity,
        text_metrics.RerankRelevancy,
        text_metrics.CohereRerankRelevancy,
        text_metrics.LLMRelevancy,
    ]
)

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
        >>> metric("ngcd@10")
        Traceback (most recent call last):
        ...
        llama_index_rag_metrics.runtime.errors.UnknownMetric: unknown metric 'ngcd@10'. Did you \
mean 'ndcg@10'? `rag-metrics metrics` lists every metric with its parameters.
    """
    text = str(name).strip()
    match = _NAME.fullmatch(text)
    row = None
    if match is not None:
        row = _find(match["name"])
    elif len(parts := [part.strip() for part in split_names(text) if part.strip()]) > 1:
        raise InvalidInput("metric", name, "one name", f"Give several as a list: {parts}.")
    if match is None or row is None:
        raise UnknownMetric(text, _nearest(text))
    entry, alias, cutoff = row
    parameters: list[tuple[str, object]] = []
    if cutoff:
        parameters.append(("k", _literal(cutoff)))
    if at := match["k"]:
        unit = "tokens" if at.endswith("tokens") else "k"
        parameters.append((unit, _literal(at.removesuffix("tokens"))))
    for part in filter(None, map(str.strip, (match["parameters"] or "").split(","))):
        key, _, value = part.partition("=")
        if not value.strip():
            raise InvalidInput("metric", name, "parameters written as name=value")
        parameters.append((key.strip(), _literal(value.strip())))
    for parameter, n in Counter(parameter for parameter, _ in parameters).items():
        if n > 1:
            sentence = f"metric {name!r} gives {parameter} twice."
            raise InvalidInput("metric", name, sentence=sentence)
        if parameter not in entry.parameters:
            near = get_close_matches(parameter, entry.parameters, n=3, cutoff=0.5)
            near = near or list(entry.parameters)
            raise UnknownMetric(f"{entry.name}({parameter})", near, kind="metric parameter")
    built = entry.metric_class(**{**entry.preset, **dict(parameters)})
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
    resolved: list[BaseRetrievalMetric] = []
    for name in listed:  # no comprehension: a frame more in tracebacks of Python 3.11
        resolved.append(metric(name) if isinstance(name, str) else name)
        if not isinstance(resolved[-1], BaseRetrievalMetric):
            remedy = f"Write {name.__name__}()." if isinstance(name, type) else ""
            raise InvalidInput("metric", name, "a name such as 'ndcg@10' or a metric", remedy)
    own_names = [getattr(entry, "own_name", entry.metric_name) for entry in resolved]
    for name, n in Counter(own_names).items():
        if n > 1:
            raise _duplicate(name)
    return resolved


def split_names(text: str) -> list[str]:
    """The names between commas; a comma between the parameters of one doesn't divide."""
    names = [""]
    is_inside = False
    for part in re.split(r"([(),])", text):
        if part == "," and not is_inside:
            names.append("")
            continue
        if part in ("(", ")"):
            is_inside = part == "("
        names[-1] += part
    return names


def limits_of(name: str) -> tuple[float, float]:
    """The lowest and the highest score that a metric can give; infinite where unknown."""
    bounds: tuple[float, float] = getattr(_class_of(name), "bounds", (-math.inf, math.inf))
    return bounds


def lower_is_better(name: str) -> bool:
    return bool(getattr(_class_of(name), "lower_is_better", False))


def is_of_unanswerable(name: str) -> bool:
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
    for spelling, cutoff in ((name, ""), (bare, ""), (uncut, k)):
        if cutoff and not cutoff.isdecimal():
            continue
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
    base, _, k = name[:_LONGEST_GUESSED].partition("@")
    bare = _bare(base.partition("(")[0].strip())
    near = get_close_matches(bare, METRICS, n=2, cutoff=0.5)
    if bare in ELSEWHERE:
        near = [ELSEWHERE[bare]]
    if not k.isdecimal():
        return near
    takes_k = [row for row in METRICS if "k" in METRICS[row].parameters]
    return [f"{row}@{k}" if row.partition("(")[0] in takes_k else row for row in near]
