"""What an evaluation sets out with, worked out before anything is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

from llama_index_rag_metrics.evaluation.asking.run_options import RunOptions
from llama_index_rag_metrics.evaluation.permissions import Permissions, permissions_for
from llama_index_rag_metrics.evaluation.retrieved.places import Places, places_for
from llama_index_rag_metrics.evaluation.sessions.session_asker import check_calls
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.metrics import RankingMetric
from llama_index_rag_metrics.rankings.tokens import TokenCounter, Tokenizer


@dataclass(frozen=True)
class Plan:
    """The questions, the metrics, and what these need to know of retrieved items.

    `counter`, `permissions` and `places` are None where nothing needs them.
    """

    questions: RetrievalDataset
    metrics: Sequence[BaseRetrievalMetric]
    options: RunOptions
    counter: TokenCounter | None
    permissions: Permissions | None
    places: Places | None

    @classmethod
    def of(
        cls,
        dataset: Any,
        metrics: Sequence[BaseRetrievalMetric],
        options: RunOptions,
    ) -> Plan:
        check_calls(metrics, options.matcher, options.combine)
        questions = options.open_dataset(dataset)
        return cls(
            questions,
            metrics,
            options,
            token_counter(metrics, options.tokenizer, options.price_per_million),
            permissions_for(
                metrics, questions, options.forbidden, options.match_on, options.matcher
            ),
            places_for(metrics, questions, options.matcher),
        )

    @property
    def computed(self) -> list[BaseRetrievalMetric]:
        """The metrics that are computed query by query, with texts."""
        return [metric for metric in self.metrics if not isinstance(metric, RankingMetric)]


def token_counter(
    metrics: Sequence[BaseRetrievalMetric],
    tokenizer: Tokenizer | None = None,
    price_per_million: float | None = None,
) -> TokenCounter | None:
    """A counter of retrieved tokens; None where neither metric nor caller needs one."""
    needed = any({"tokens", "documents"} & getattr(metric, "needs", set()) for metric in metrics)
    if tokenizer is None and price_per_million is None and not needed:
        return None
    return TokenCounter.of(tokenizer)
