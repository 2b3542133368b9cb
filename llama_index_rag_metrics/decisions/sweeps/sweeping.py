"""sweep(): every configuration of a grid built, evaluated and compared."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import product, starmap
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

from llama_index_rag_metrics.decisions.comparison.difference import margin_of
from llama_index_rag_metrics.evaluation.as_ask import Answer, Question, Source, retrieval_depth
from llama_index_rag_metrics.evaluation.ask_all import Attempt, answers_to, read_answer
from llama_index_rag_metrics.evaluation.evaluation_results import EvaluationResults, system_of
from llama_index_rag_metrics.evaluation.evaluator import aevaluate
from llama_index_rag_metrics.evaluation.plan import CONTEXT, Plan
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.metrics import metric_names
from llama_index_rag_metrics.metrics.metric_names import DEFAULT_METRICS
from llama_index_rag_metrics.rankings.judging.beside import TokenCounter
from llama_index_rag_metrics.rankings.judging.judged import TokenBudget
from llama_index_rag_metrics.rankings.run import first_of_each
from llama_index_rag_metrics.runtime.cache import Cache
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput, JournalMismatch
from llama_index_rag_metrics.runtime.journal import read_journal
from llama_index_rag_metrics.runtime.masking import describe_error, register_secrets_of
from llama_index_rag_metrics.runtime.sync import in_thread, synchronous
from llama_index_rag_metrics.scores.batches import Metrics
from llama_index_rag_metrics.statistics.intervals import check_confidence

from .grid import Configuration, Grid, configurations_of
from .sweep_result import Sweep

Build: TypeAlias = "Callable[..., Any]"
"""Makes a retriever, an index, a query engine or a callable; may be asynchronous."""

_LONGEST_NAME = 80
_MIN_SCORE = "min_score"  # the parameter that `evaluate` gets, and `build` doesn't


async def asweep(
    build: Build,
    grid: Grid,
    dataset: Any,
    metrics: Metrics = DEFAULT_METRICS,
    *,
    confidence: float = 0.95,
    tolerance: float | None = None,
    journal: str | Path | None = None,
    cache: Cache | str | Path | None = None,
    **options: Any,
) -> Sweep:
    """Evaluate every configuration of a grid, and recommend one if these questions can.

    One that fails is listed with its error, and then there is no winner.

    Args:
        build: makes what is evaluated, `build(chunk_size=128, top_k=5)`: a retriever, an index, a
            query engine or a callable; it may be asynchronous.
        grid: parameter to its values, of which every combination is evaluated. Values are texts,
            numbers, True, False or None; objects have names: {"embed": {"small": model, ...}}.
            Secrets are refused: `build` reads them. A `min_score` is that of `evaluate`.
        dataset, metrics: as of `evaluate`; the first metric decides. Labels have to fit every
            configuration: ids of chunks change with the size, spans and texts don't.
        confidence: 1 - this is how often, at most, a winner is named though there is none.
        tolerance: how much worse than the best one, on the first metric, a recommended
            configuration may be, in the metric's unit; None is 0.02 for metrics from 0 to 1, and 0
            for others: then only what is shown to be the best is recommended.
        journal: a folder with a journal for each configuration: a second call asks what is missing.
        cache: of what is paid, for all configurations; None is a file beside the journal's folder.
        options: those of `evaluate`, such as `matcher`, `workers` and `tokenizer`.

    Raises:
        InvalidInput: the grid or an option can't be used.
        JournalMismatch: a journal is of another `run` or option, or being written by another run.

    Examples:
        >>> swept = sweep(
        ...     lambda top_k: lambda query: ["d2", "d1"][:top_k],
        ...     {"top_k": [1, 2]},
        ...     {"queries": {"q1": "x?"}, "corpus": {}, "relevant_docs": {"q1": ["d1"]}},
        ...     ["recall"],
        ... )
        >>> [configuration.mean("recall") for configuration in swept]
        [0.0, 1.0]
    """
    if not callable(build):
        expected = "a function of the parameters, which returns a retriever or an index"
        raise InvalidInput("build", build, expected)
    check_confidence(confidence)
    configurations = configurations_of(grid)
    resolved = metric_names.metrics(metrics)
    names = [metric.metric_name for metric in resolved]
    tolerance = margin_of(names[0], tolerance, "tolerance")
    questions = RetrievalDataset.load(dataset)
    options["cache"] = Cache.of(cache, journal)
    if "name" in options:
        raise TypeError("sweep() gives each configuration its own name")
    options["tokenizer"] = TokenCounter.of(options.get("tokenizer"))
    try:
        inspect.signature(aevaluate).bind(None, questions, **options)
    except TypeError as error:
        raise TypeError(f"sweep() {error}") from None
    for configuration in configurations.values():
        register_secrets_of(configuration.params, *configuration.params.values())
        min_score = configuration.params.get(_MIN_SCORE, options.get(_MIN_SCORE))
        Plan.of(questions, resolved, **{**options, _MIN_SCORE: min_score})
    run = options.pop("run", "")
    finished = []
    for name, configuration in configurations.items():
        arguments = {**options, "run": ", ".join(filter(None, (run, configuration.run)))}
        if journal is not None:
            arguments["journal"] = Path(journal, file_name(name))
        try:
            finished.append(await _evaluated(configuration, build, questions, resolved, arguments))
        except (JournalMismatch, FileFormatError):
            raise
        except Exception as error:  # noqa: BLE001 - any build, any error: it is listed
            finished.append(replace(configuration, error=describe_error(error)))
    return Sweep(finished, names, confidence, tolerance)


sweep = synchronous(asweep)


async def _evaluated(
    configuration: Configuration,
    build: Build,
    questions: RetrievalDataset,
    metrics: Sequence[BaseRetrievalMetric],
    options: dict[str, Any],
) -> Configuration:
    params = dict(configuration.params)
    if _MIN_SCORE in params:
        options[_MIN_SCORE] = params.pop(_MIN_SCORE)
    source: Any = None
    if "journal" in options:
        source = _answered(questions, retrieval_depth(metrics), options)
    if source is None:
        source = await in_thread(partial(build, **params))
    if inspect.isawaitable(source):
        source = await source
    results = await aevaluate(source, questions, metrics, name=configuration.name, **options)
    return replace(configuration, results=results, tokens=_mean_tokens(results, metrics[0]))


def file_name(name: str) -> str:
    """The file name of a configuration's journal: its name, made safe, and a hash."""
    readable = re.sub(r"[^\w.]+", "-", name).strip("-")[:_LONGEST_NAME]
    return f"{readable}.{sha256(name.encode()).hexdigest()[:8]}.jsonl"


def _answered(questions: RetrievalDataset, depth: int, options: Mapping[str, Any]) -> Source | None:
    """Return what stands for a source whose journal has every answer; None where it hasn't."""
    header, answers = read_journal(options["journal"], read_answer)
    rankings = answers_to(questions, header, answers)
    attempts = product(questions.queries, range(1, options.get("repeats", 1) + 1))
    if not all(attempt in rankings for attempt in starmap(Attempt, attempts)):
        return None

    async def fail(question: Question) -> Answer:
        raise AssertionError("the journal has every answer")

    source = Source(fail, context=header.get(CONTEXT, ""))
    if "depth" in header:
        source.depth = depth
    return source


def _mean_tokens(results: EvaluationResults, metric: BaseRetrievalMetric) -> float | None:
    """The mean tokens of a question that didn't fail, as deep as a metric reads, or None."""
    depth = getattr(metric, "cutoff", None)
    n_items, amounts, run = getattr(metric, "k", None), [], results.run
    if n_items is not None and getattr(metric, "recognises", False):
        # of the items that a matcher made, each with the cost of its chunks
        run = system_of(results).judged_by(metric.metric_name).run
    for ranking in run.every_ranking:
        if ranking.error is not None:
            continue
        if ranking.tokens is None:
            return None
        spent = np.cumsum(list(first_of_each(ranking.ids, ranking.tokens)))
        if isinstance(depth, TokenBudget):
            spent = spent[spent <= depth.tokens]
        amounts.append(max(spent[:n_items], default=0))
    return float(np.mean(amounts)) if amounts else None
