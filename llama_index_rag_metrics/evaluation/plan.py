"""All that is known of an evaluation before anything is asked, checked; and how it is described."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
from llama_index.core.postprocessor.types import BaseNodePostprocessor

from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.metrics import metric_names
from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.metrics.texts import TextMetric
from llama_index_rag_metrics.metrics.texts.llm_relevancy import RUBRIC
from llama_index_rag_metrics.rankings.judging.beside import TokenCounter, Tokenizer, needs_of
from llama_index_rag_metrics.rankings.matching.id_matcher import MatchOn
from llama_index_rag_metrics.rankings.matching.matched import (
    BY_ID,
    Matched,
    MatcherLike,
    as_matcher,
)
from llama_index_rag_metrics.rankings.run import Run, check_min_score
from llama_index_rag_metrics.report.numbers import counted, questions
from llama_index_rag_metrics.runtime.cache import Cache
from llama_index_rag_metrics.runtime.errors import InvalidInput, check_amount, check_integer
from llama_index_rag_metrics.runtime.masking import mask
from llama_index_rag_metrics.runtime.sync import WORKERS
from llama_index_rag_metrics.scores.batches import Failed, ScoringOptions

from .as_ask import Source

CONTEXT = "context"  # in a journal's header: what the source is told beside the question

_POSTPROCESSORS = "a list of LlamaIndex's postprocessors"


@dataclass(frozen=True)
class Plan:
    """The questions of an evaluation, its metrics, and its options; those of `evaluate`."""

    dataset: RetrievalDataset
    metrics: Sequence[BaseRetrievalMetric]
    name: str = ""
    match_on: MatchOn = "node_id"
    matcher: MatcherLike | None = None
    node_postprocessors: Sequence[BaseNodePostprocessor] = ()
    workers: int = WORKERS
    timeout: float | None = None
    journal: str | Path | None = None
    run: str = ""
    cache: Cache | None = None
    tokenizer: Tokenizer | None = None
    min_score: float | None = None
    repeats: int = 1
    failed: Failed = "zero"
    show_progress: bool = False
    raise_on_error: bool = False
    # counts tokens, where a metric needs them or a tokenizer is given; set by __post_init__
    counter: TokenCounter | None = field(init=False, default=None)

    @classmethod
    def of(
        cls,
        dataset: Any,
        metrics: Any,
        *,
        matcher: Any = None,
        node_postprocessors: Any = (),
        cache: Any = None,
        **options: Any,
    ) -> Plan:
        """A plan of arguments as `evaluate` takes them."""
        if not isinstance(dataset, RetrievalDataset):
            dataset = RetrievalDataset.load(dataset)
        if matcher is not None:
            matcher = as_matcher(matcher)
        resolved = metric_names.metrics(metrics)
        if cache is not None or any(isinstance(metric, TextMetric) for metric in resolved):
            cache = Cache.of(cache, options.get("journal"))
        postprocessors = _listed(node_postprocessors or [])
        options |= {"node_postprocessors": postprocessors, "matcher": matcher, "cache": cache}
        return cls(dataset, resolved, **options)

    def __post_init__(self) -> None:
        check_integer("workers", self.workers, 1, "a number of questions at once, from 1 on")
        check_integer("repeats", self.repeats, 1, "a number of times to ask, from 1 on")
        if not isinstance(self.name, str):
            raise InvalidInput("name", self.name, "a text, what to call the system in reports")
        if not isinstance(self.run, str):
            raise InvalidInput("run", self.run, "a text, which names the run in its journal")
        if not isinstance(self.match_on, str) and not callable(self.match_on):
            expected = "'node_id', 'ref_doc_id', a key of metadata, or a function of a node"
            raise InvalidInput("match_on", self.match_on, expected)
        check_min_score(self.min_score)
        ScoringOptions(failed=self.failed)  # refuses another way to count failures
        if self.timeout is not None:
            expected = "seconds above 0, or None"
            check_amount("timeout", self.timeout, expected, lambda seconds: seconds > 0)
        if self.tokenizer is not None or "tokens" in needs_of(self.metrics):
            object.__setattr__(self, "counter", TokenCounter.of(self.tokenizer))

    @property
    def compares_ids(self) -> bool:
        """Whether any metric compares the retrieved ids with those of the labels."""
        if self.matcher is not None:
            return False
        of_labels = [metric for metric in self.metrics if not isinstance(metric, TextMetric)]
        return any(getattr(metric, "recognises", True) for metric in of_labels)

    @property
    def postprocessor_kinds(self) -> list[str]:
        return [type(postprocessor).__qualname__ for postprocessor in self.node_postprocessors]

    @property
    def metric_names(self) -> list[str]:
        return [metric.metric_name for metric in self.metrics]

    @property
    def computed(self) -> list[BaseRetrievalMetric]:
        """The metrics that are computed question by question: of texts, and of other packages."""
        return [metric for metric in self.metrics if not isinstance(metric, RankingMetric)]

    @property
    def at_once(self) -> int:
        return max(1, min(self.workers, len(self.dataset.queries) * self.repeats))


def _listed(postprocessors: object) -> list[BaseNodePostprocessor]:
    argument = "node_postprocessors"
    if not isinstance(postprocessors, Sequence):
        raise InvalidInput(argument, type(postprocessors), _POSTPROCESSORS)
    return [checked_postprocessor(argument, postprocessor) for postprocessor in postprocessors]


def checked_postprocessor(argument: str, postprocessor: object) -> BaseNodePostprocessor:
    if not isinstance(postprocessor, BaseNodePostprocessor):
        # its type alone: it may hold a key
        raise InvalidInput(argument, type(postprocessor), _POSTPROCESSORS)
    return postprocessor


def journal_header(plan: Plan, source: Source) -> dict[str, str]:
    """What a journal's first line says of a run: what can be known exactly, without any code."""
    match_on = plan.match_on
    if not isinstance(match_on, str):
        match_on = str(getattr(match_on, "__qualname__", type(match_on).__qualname__))
    header = {
        "run": mask(plan.run),
        "depth": str(source.depth or ""),
        CONTEXT: source.context,
        "match_on": match_on,
        "postprocessors": ", ".join(plan.postprocessor_kinds),
        "tokenizer": "" if plan.counter is None else plan.counter.name,
    }
    return {aspect: value for aspect, value in header.items() if value}


def describe(plan: Plan, run: Run, source: str, matched: Matched | None) -> dict[str, str]:
    """The head of a report: label to value, in order."""
    from llama_index_rag_metrics import __version__

    dataset, counter = plan.dataset, plan.counter
    size = questions(len(dataset.queries))
    if documents := len(dataset.corpus):
        size += f", {counted(documents, 'passage', 'passages')}"
    about = {
        "dataset": f"{dataset.name}: {size}" if dataset.name else size,
        "evaluated": f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
    }
    stages = [plan.name or source, *plan.postprocessor_kinds]
    if len(stages) > 1 or not plan.name:  # reports show the name above every number
        about["retriever"] = " → ".join(stages)
    if plan.run:
        about["run"] = plan.run
    about["retrieved"] = f"up to {counted(run.depth, 'passage', 'passages')} a question"
    if plan.min_score is not None:
        about["retrieved"] += f", of a score from {plan.min_score:g} on"
    about["metrics"] = ", ".join(plan.metric_names)
    for metric in plan.metrics:
        if isinstance(metric, TextMetric) and metric.graded_by:
            about["judge"] = f"{metric.graded_by}, which was told: {RUBRIC}"
    about["matched by"] = BY_ID if matched is None else matched.matcher
    if counter is not None:
        about["tokens by"] = counter.name
    if run.repeats:
        about["repeats"] = f"{len(run.repeats)} runs of each question"
    about["workers"] = str(plan.workers)
    core = version("llama-index-core")
    about["versions"] = f"llama-index-rag-metrics {__version__}, llama-index-core {core}"
    return about
