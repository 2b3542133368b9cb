"""Options of an evaluation as one value, checked before anything is asked."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from llama_index_rag_metrics.evaluation.asking.failed_queries import check_limits
from llama_index_rag_metrics.evaluation.retrieved.modes import check_mode
from llama_index_rag_metrics.evaluation.retrievers.pipeline import check_way
from llama_index_rag_metrics.files.lines import OnError
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.matching import Matcher, MatchOn
from llama_index_rag_metrics.rankings.tokens import Tokenizer
from llama_index_rag_metrics.runtime.amounts import check_amount, check_whole
from llama_index_rag_metrics.runtime.cache import Cache
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores.scoring import ScoringOptions

LatencyMode: TypeAlias = Literal["load", "alone"]


@dataclass(frozen=True)
class RunOptions:
    """How a dataset is evaluated.

    The fields are arguments of `RetrieverEvaluator.aevaluate_dataset`, and mean what they do there;
    but `cache` is ready, and `scoring` says which queries count.

    Raises:
        InvalidInput: an option can't be used.
    """

    workers: int = 2
    show_progress: bool = False
    name: str = ""
    match_on: MatchOn = "node_id"
    matcher: Matcher[Any] | None = None
    journal: str | Path | None = None
    cache: Cache = field(default_factory=Cache)
    scoring: ScoringOptions = field(default_factory=ScoringOptions)
    raise_on_error: bool = False
    use_async: bool | None = None
    on_error: OnError = "raise"
    ignore_identical_ids: bool = False
    timeout: float | None = None
    max_failures: float | None = None
    latency: LatencyMode = "load"
    latency_sample: int | None = None
    tokenizer: Tokenizer | None = None
    price_per_million: float | None = None

    def __post_init__(self) -> None:
        check_count("workers", self.workers, "queries to ask at once")
        if not isinstance(self.name, str):
            raise InvalidInput("name", self.name, "a text, what to call the system in reports")
        check_limits(self.timeout, self.max_failures)
        check_way(self.use_async)
        check_price(self.price_per_million)
        if self.latency not in ("load", "alone"):
            raise InvalidInput("latency", self.latency, "'load' or 'alone'")
        if self.latency_sample is None:
            return
        check_count("latency_sample", self.latency_sample, "queries to ask alone")
        if self.latency == "load":
            sentence = "latency_sample can only be given with latency='alone'."
            raise InvalidInput("latency_sample", self.latency_sample, sentence=sentence)

    def open_dataset(self, dataset: Any) -> RetrievalDataset:
        """The questions of an evaluation, checked before any of them is asked.

        Raises:
            InvalidInput: it is no dataset, or can't be scored by these options.
        """
        questions = RetrievalDataset.of(dataset, on_error=self.on_error)
        self.scoring.check(questions.relevance)
        check_mode(questions.mode)
        return questions

    def n_alone(self, n_queries: int) -> int:
        """How many queries are asked one at a time, for their latency."""
        return 0 if self.latency == "load" else self.latency_sample or n_queries


def check_price(price_per_million: object) -> None:
    """Whether this is a price, or None.

    Raises:
        InvalidInput: it isn't.
    """
    if price_per_million is not None:
        check_amount(
            "price_per_million",
            price_per_million,
            "a price from 0 on",
            lambda price: 0 <= price < math.inf,
        )


def check_count(argument: str, value: object, what: str) -> None:
    """Whether an argument is a whole number above 0.

    Raises:
        InvalidInput: it isn't.
    """
    check_whole(argument, value, 1, f"a number of {what}, from 1 on")
