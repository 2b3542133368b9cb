"""Scores in an experiment tracker: means, intervals and counts, and every score as an artifact."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from hashlib import sha256
from importlib import import_module
from typing import Any, TypeAlias

from llama_index_rag_metrics.runtime.errors import InvalidInput, MissingExtra
from llama_index_rag_metrics.runtime.open_table import OpenTable
from llama_index_rag_metrics.scores.scores import Scores

_VALUE = r"(?:\w+(?:>=\d*\.?\d+)?|\d*\.\d+)"
_PARAMETERS = rf"[A-Za-z]\w*={_VALUE}(?:, ?[A-Za-z]\w*={_VALUE})*"
_USUAL = re.compile(
    rf"(?P<name>[A-Za-z]\w*)(?:\((?P<parameters>{_PARAMETERS})\))?(?:@(?P<k>\d+))?", re.ASCII
)
_RESERVED = re.compile(r"_at_\d|_(low|high|n)$")
_NAME_CHARACTERS = 200


def log_to(
    scores: Scores,
    tracker: str | Callable[..., object],
    *,
    prefix: str = "",
    step: int | None = None,
    confidence: float = 0.95,
) -> dict[str, float]:
    """Hand scores to an experiment tracker; returns the numbers by the names that were logged.

    For each metric it logs the mean, `_n` (over how many queries) and, where there is an interval,
    `_low` and `_high`; also the counts, such as `counts/failed`. MLflow gets all scores as the
    artifact `scores.json`, which `Scores.from_json` reads, and Weights & Biases as a table.

    Args:
        scores: what to log.
        tracker: "mlflow" logs to the active run, or starts one as MLflow does; "wandb" to the run
            of `wandb.init()`; further names are those of `register_tracker`; a callable gets the
            numbers: `tracker(numbers, step=step)`.
        prefix: goes before each name, such as "hybrid/".
        step: the step of the run.
        confidence: of the intervals.

    Examples:
        >>> scores = Scores(["q1", "q2"], {"ndcg@10": [1.0, 0.5]})
        >>> log_to(scores, lambda numbers, step: None, prefix="bm25/")
        {'bm25/ndcg_at_10': 0.75, ...}
    """
    numbers = {f"{prefix}{name}": value for name, value in _numbers(scores, confidence).items()}
    if callable(tracker):
        tracker(numbers, step=step)
    elif tracker in TRACKERS:
        TRACKERS[tracker](scores, numbers, prefix, step)
    else:
        known = ", ".join(map(repr, TRACKERS))
        raise InvalidInput("tracker", tracker, f"{known} or a callable")
    return numbers


def _log_to_mlflow(
    scores: Scores, numbers: dict[str, float], prefix: str, step: int | None
) -> None:
    mlflow = _import("mlflow")
    mlflow.log_metrics(numbers, step=step)
    mlflow.log_text(scores.to_json(), f"{prefix}scores.json")


def _log_to_wandb(scores: Scores, numbers: dict[str, float], prefix: str, step: int | None) -> None:
    wandb = _import("wandb")
    if wandb.run is None:
        raise InvalidInput("tracker", "wandb", "an active run", "Call wandb.init() first.")
    columns = [scores.by_query(metric) for metric in scores]
    rows = [
        [query_id, scores.queries.get(query_id, ""), *(column.get(query_id) for column in columns)]
        for query_id in scores.query_ids
    ]
    table = wandb.Table(columns=["query_id", "query", *scores], data=rows)
    wandb.log({**numbers, f"{prefix}scores": table}, step=step)


# logs scores: gets them, the numbers by name, the prefix of the names, and the step
LogScores: TypeAlias = Callable[[Scores, dict[str, float], str, "int | None"], object]
TRACKERS: OpenTable[LogScores] = OpenTable(
    "name", "trackers", {"mlflow": _log_to_mlflow, "wandb": _log_to_wandb}
)


def register_tracker(name: str, log: LogScores) -> None:
    """Let `scores.log_to(name)` reach a tracker of your own.

    Args:
        name: the tracker's name.
        log: called as `log(scores, numbers, prefix, step)`; `numbers` are by name, prefix included.

    Raises:
        InvalidInput: the name is taken.

    Examples:
        >>> logged = {}
        >>> register_tracker("memory", lambda scores, numbers, prefix, step: logged.update(numbers))
        >>> _ = Scores(["q1"], {"mrr": [0.5]}).log_to("memory")
        >>> logged["mrr"]
        0.5
        >>> unregister_tracker("memory")
    """
    TRACKERS.add(name, log)


def unregister_tracker(name: str) -> None:
    """Forget a tracker that `register_tracker` added.

    Raises:
        InvalidInput: none of that name was added.

    Examples:
        >>> from llama_index_rag_metrics import register_tracker, unregister_tracker
        >>> register_tracker("print", lambda run: print(run))
        >>> unregister_tracker("print")
    """
    TRACKERS.remove(name)


def tracked_name(metric: str) -> str:
    """The name of a metric in letters that every tracker accepts; an unusual one with a digest.

    >>> tracked_name("ndcg(mode=exponential)@10")
    'ndcg.mode-exponential_at_10'
    >>> tracked_name("recall(match=text>=0.6, min_grade=2)@5")
    'recall.match-text-ge-0.6.min_grade-2_at_5'
    >>> tracked_name("命中")
    'metric-...'
    """
    usual = _USUAL.fullmatch(metric)
    if usual and len(metric) <= _NAME_CHARACTERS:
        parameters = re.sub(", ?", ".", usual["parameters"] or "")
        parts = [usual["name"], parameters.replace(">=", "-ge-").replace("=", "-")]
        body = ".".join(filter(None, parts))
        if not _RESERVED.search(body):
            return f"{body}_at_{usual['k']}" if usual["k"] else body
    readable = re.sub(r"[^\w.-]+", "-", metric, flags=re.ASCII).strip("-")[:_NAME_CHARACTERS]
    return f"{readable or 'metric'}-{sha256(metric.encode()).hexdigest()[:8]}"


def _numbers(scores: Scores, confidence: float) -> dict[str, float]:
    numbers = {}
    for metric, interval in scores.intervals(confidence=confidence).items():
        if interval.n:
            name = tracked_name(metric)
            numbers[name] = interval.mean
            if interval.low is not None and interval.high is not None:
                numbers[f"{name}_low"], numbers[f"{name}_high"] = interval.low, interval.high
            numbers[f"{name}_n"] = float(interval.n)
    counts = {f"counts/{name}": float(n) for name, n in asdict(scores.counts).items()}
    return {**numbers, **counts}


def _import(tracker: str) -> Any:
    try:
        return import_module(tracker)
    except ImportError as error:
        raise MissingExtra(f"log_to({tracker!r})", "trackers") from error
