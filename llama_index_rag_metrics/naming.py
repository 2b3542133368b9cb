"""The names of the metrics: one ordered table, and reading `name[(param=value, ...)][@k]`.

`METRICS` is the registry, the order of reports and the source of the command line's help in one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

from llama_index_rag_metrics import metrics as ranking
from llama_index_rag_metrics import text_metrics
from llama_index_rag_metrics.errors import (
    DuplicateMetric,
    InvalidInput,
    RagMetricsError,
    UnknownMetric,
)
from llama_index_rag_metrics.metrics import NamedMetric, trec_eval
from llama_index_rag_metrics.metrics.table import WRITTEN_NAME, MetricEntry, MetricTable

ALIASES: Mapping[str, str] = {
    "success": "hit_rate",
    "hit": "hit_rate",
    "hr": "hit_rate",
    "rr": "mrr",
    "recip_rank": "mrr",
    "reciprocal_rank": "mrr",
    "p": "precision",
    "set_p": "precision",
    "setp": "precision",
    "r": "recall",
    "set_recall": "recall",
    "setr": "recall",
    "set_f": "f",
    "setf": "f",
    "f1_score": "f1",
    "f_score": "f",
    "fbeta": "f",
    "map": "ap",
    "map_cut": "ap",
    "average_precision": "ap",
    "mean_average_precision": "ap",
    "rprec": "r_precision",
    "rprecision": "r_precision",
    "ndcg_cut": "ndcg",
    "11pt_avg": "eleven_point_average",
    "relative_p": "relative_precision",
    "set_relative_p": "relative_precision",
    "unj": "unjudged",
    "rbp_resid": "rbp_residual",
    "ndcg_burges": "ndcg(mode=exponential)",
    "dcg_burges": "dcg(mode=exponential)",
    "acc": "accuracy",
    "strec": "facet_recall",
    "s_recall": "facet_recall",
    "subtopic_recall": "facet_recall",
}
"""What trec_eval, ir_measures, ranx and others call them; case and dashes don't matter."""

PARAMETER_ALIASES: Mapping[str, str] = {"rel": "min_grade", "b": "beta", "dcg": "mode"}
VALUE_ALIASES: Mapping[str, str] = {"exp-log2": "exponential", "log2": "linear"}
"""What ir_measures calls the modes of its parameter `dcg`."""

_AMBIGUOUS: Mapping[str, str] = {
    "hits": "hit_rate, a share, or num_rel_ret, the count that ranx calls hits",
    "gm_map": "ap, whose geometric mean --format trec prints as gm_map",
    "gm_bpref": "bpref, whose geometric mean --format trec prints as gm_bpref",
}
"""Names that mean different numbers in other tools, or no number per query."""

_LONGEST_GUESSED = 100
"""In characters: the search for similar names takes more than linear time."""

_F_BETA = re.compile(r"f(?P<beta>[1-9]\d*)")


def split_names(text: str) -> list[str]:
    """The names between commas; a comma between the parameters of one doesn't divide.

    >>> split_names("ndcg(ideal=all,mode=linear)@5,mrr")
    ['ndcg(ideal=all,mode=linear)@5', 'mrr']
    """
    names: list[str] = []
    end, is_inside = len(text), False
    # from the end, since what counts is which bracket comes next; a pattern that looks ahead at
    # every comma would take quadratic time
    for place in range(len(text) - 1, -1, -1):
        if text[place] in "()":
            is_inside = text[place] == ")"
        elif text[place] == "," and not is_inside:
            names.append(text[place + 1 : end])
            end = place
    return [text[:end], *reversed(names)]


METRICS = MetricTable(
    [
        ranking.HitRate,
        ranking.MRR,
        ranking.Precision,
        ranking.Recall,
        ranking.FScore,
        ranking.AveragePrecision,
        ranking.RPrecision,
        ranking.NDCG,
        ranking.DCG,
        ranking.RBP,
        ranking.ERR,
        ranking.BPref,
        ranking.InfAP,
        ranking.Judged,
        ranking.Tokens,
        ranking.Accuracy,
        ranking.GroupRecall,
        ranking.GroupF1,
        ranking.GroupMRR,
        ranking.GroupAP,
        ranking.Complete,
        ranking.FacetRecall,
        ranking.AlphaNDCG,
        ranking.ERRIA,
        ranking.SpanRecall,
        ranking.SpanPrecision,
        ranking.SpanF1,
        ranking.SpanIoU,
        text_metrics.EmbeddingSimilarity,
        text_metrics.BM25Similarity,
        text_metrics.RerankRelevancy,
        text_metrics.CohereRerankRelevancy,
        text_metrics.LLMRelevancy,
    ]
)

TREC_EVAL = MetricTable(trec_eval.CLASSES)
"""What only trec_eval has: these can be called by name, but no list or registry has them."""


def metric(name: str) -> NamedMetric:
    """The metric of that name.

    Args:
        name: `name[(param=value, ...)][@k]`, such as "ndcg(mode=exponential)@10". Other tools'
            spellings are understood: "map", "success@5", "recip_rank", "ndcg_cut_10", "P_5".

    Raises:
        UnknownMetric: no metric has that name; the message lists the nearest ones.
        UnknownParameter: the metric has no such parameter.
        InvalidInput: a value is out of range.

    Examples:
        >>> metric("nDCG@10").metric_name
        'ndcg@10'
        >>> metric("P_5").metric_name
        'precision@5'
        >>> metric("ngcd@10")
        Traceback (most recent call last):
        ...
        llama_index_rag_metrics.errors.UnknownMetric: unknown metric 'ngcd@10'. Did you mean \
'ndcg@10'? `rag-metrics metrics` lists every metric with its parameters.
    """
    entry, parameters = _parse(name)
    return entry.build(parameters)


def metrics(
    names: str | BaseRetrievalMetric | Iterable[str | BaseRetrievalMetric],
) -> list[BaseRetrievalMetric]:
    """The metrics of those names, in that order; metric objects stay as they are.

    Raises:
        DuplicateMetric: two of them have the same name.

    Examples:
        >>> [m.metric_name for m in metrics(["hit_rate@5", "f1@5"])]
        ['hit_rate@5', 'f1@5']
    """
    is_one = isinstance(names, (str, BaseRetrievalMetric)) or not isinstance(names, Iterable)
    listed: list[Any] = [names] if is_one else list(names)
    if not listed:
        raise InvalidInput("metrics", listed, "at least one metric", "For example ['ndcg@10'].")
    chosen = [metric(name) if isinstance(name, str) else _ready(name) for name in listed]
    seen: set[str] = set()
    for named in chosen:
        if named.metric_name in seen:
            raise DuplicateMetric(named.metric_name)
        seen.add(named.metric_name)
    return chosen


def _ready(value: object) -> BaseRetrievalMetric:
    if isinstance(value, BaseRetrievalMetric):
        return value
    remedy = f"Write {value.__name__}()." if isinstance(value, type) else ""
    raise InvalidInput("metric", value, "a name such as 'ndcg@10' or a metric", remedy)


def limits_of(name: str) -> tuple[float, float]:
    """The lowest and the highest score that a metric can give; infinite where unknown.

    >>> limits_of("ndcg@10"), limits_of("dcg"), limits_of("helpfulness by hand")
    ((0.0, 1.0), (0.0, inf), (-inf, inf))
    """
    try:
        entry, _ = _parse(name)
    except RagMetricsError:
        return -math.inf, math.inf
    return entry.metric_class.bounds


def _parse(name: str) -> tuple[MetricEntry, dict[str, object]]:
    name = str(name)
    match = WRITTEN_NAME.fullmatch(name.strip())
    if match is None:
        raise UnknownMetric(name, ["ndcg@10", "ndcg(mode=exponential)@10"])
    entry_and_parameters = _find(match["name"]) or _find_with_cutoff(match["name"])
    if entry_and_parameters is None:
        raise UnknownMetric(name.strip(), _nearest(match))
    entry, parameters = entry_and_parameters
    cutoff = {} if match["k"] is None else _cutoff(match["k"])
    for more in (cutoff, _parameters(name, match["parameters"], entry)):
        if twice := parameters.keys() & more.keys():
            raise InvalidInput("metric", name, f"{twice.pop()} to be given once")
        parameters |= more
    return entry, parameters


def _find(name: str) -> tuple[MetricEntry, dict[str, object]] | None:
    """The metric that a name without parameters stands for, and the parameters that it implies."""
    bare = _bare(name)
    for known in (name, bare):
        for table in (METRICS, TREC_EVAL):
            if known in table:
                return table[known], {}
    if bare in _AMBIGUOUS:
        raise InvalidInput("metric", name, _AMBIGUOUS[bare])
    if bare in ALIASES:
        return _parse(ALIASES[bare])
    if beta := _F_BETA.fullmatch(bare):
        return METRICS["f"], {"beta": float(beta["beta"])}
    return None


def _bare(name: str) -> str:
    return re.sub(r"[\s\-]+", "_", name).lower()


def _find_with_cutoff(name: str) -> tuple[MetricEntry, dict[str, object]] | None:
    """The same for a name that ends in its cutoff, as trec_eval writes it."""
    uncut, _, k = _bare(name).rpartition("_")
    entry_and_parameters = _find(uncut) if k.isdecimal() else None
    return entry_and_parameters and (
        entry_and_parameters[0],
        {**entry_and_parameters[1], "k": _literal(k)},
    )


def _parameters(name: str, text: str | None, entry: MetricEntry) -> dict[str, object]:
    parameters: dict[str, object] = {}
    for part in filter(None, map(str.strip, (text or "").split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        key = key if key in entry.parameters else PARAMETER_ALIASES.get(key, key)
        if not equals or not value:
            raise InvalidInput("metric", name, "parameters written as name=value")
        if key in parameters:
            raise InvalidInput("metric", name, f"{key} to be given once")
        literal = _literal(value)
        parameters[key] = VALUE_ALIASES.get(str(literal), literal) if key == "mode" else literal
    return parameters


def _cutoff(text: str) -> dict[str, object]:
    """What stands behind the @: a rank, or tokens."""
    in_tokens = text.removesuffix("tokens")
    return {"k": _literal(text)} if in_tokens == text else {"tokens": _literal(in_tokens)}


def _literal(text: str) -> object:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text.strip("'\"")


def _nearest(match: re.Match[str]) -> list[str]:
    if len(match["name"]) > _LONGEST_GUESSED:
        return []
    near = get_close_matches(match["name"].lower(), [*METRICS, *ALIASES], n=2, cutoff=0.5)
    entries = {entry.name: entry for entry, _ in map(_parse, near)}
    cutoff = f"@{match['k']}" if match["k"] else ""
    return [name + cutoff if "k" in entry.parameters else name for name, entry in entries.items()]
