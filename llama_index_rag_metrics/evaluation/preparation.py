"""What is ready before the first query is asked: metrics, matchers, and who asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

from llama_index_rag_metrics.cache import Cache
from llama_index_rag_metrics.errors import InvalidInput
from llama_index_rag_metrics.evaluation.by_matcher import group_by_matcher
from llama_index_rag_metrics.evaluation.collection import Collector
from llama_index_rag_metrics.evaluation.matching import Matching
from llama_index_rag_metrics.evaluation.pipeline import Pipeline
from llama_index_rag_metrics.matching import Matcher, MatchOn
from llama_index_rag_metrics.metrics import RankingMetric
from llama_index_rag_metrics.run import Ranking
from llama_index_rag_metrics.sync import in_thread
from llama_index_rag_metrics.text_metrics import TextMetric

if TYPE_CHECKING:
    from llama_index_rag_metrics.dataset import RetrievalDataset


async def prepare_collector(
    pipeline: Pipeline,
    questions: RetrievalDataset,
    metrics: Sequence[BaseRetrievalMetric],
    kept: Cache,
    *,
    match_on: MatchOn,
    matcher: Matcher[Any] | None,
    check_labels: bool = True,
    stored: Mapping[str, Ranking] | None = None,
    raise_on_error: bool = False,
) -> Collector:
    """Who asks the questions and computes the metrics of texts.

    Args:
        pipeline: what is asked.
        questions: the dataset.
        metrics: all metrics.
        kept: the cache of what was paid for.
        match_on: which id of a node the labels speak of.
        matcher: what items are recognised by where a metric names no matcher.
        check_labels: whether to check that the labels speak of what is retrieved.
        stored: rankings that are known, whose queries aren't asked.
        raise_on_error: end at the first failing query.
    """
    others = [
        await in_thread(one.prepare, questions, kept) if isinstance(one, TextMetric) else one
        for one in metrics
        if not isinstance(one, RankingMetric)
    ]
    matchers = [one for one, _ in group_by_matcher(metrics, matcher).values()]
    return Collector(
        pipeline,
        questions,
        match_on=match_on,
        metrics=others,
        by_id=check_labels and None in matchers,
        matchings=[Matching(one, questions) for one in matchers if one is not None],
        stored=stored,
        raise_on_error=raise_on_error,
    )


def largest_cutoff(metrics: Iterable[BaseRetrievalMetric]) -> int:
    """How many nodes the metrics look at, or 10 where none says."""
    cutoffs = [k for one in metrics if (k := getattr(one, "k", None)) is not None]
    return max(cutoffs, default=10)


def check_workers(workers: object) -> None:
    """Whether this is a number of queries to ask at once.

    Raises:
        InvalidInput: it isn't.
    """
    if type(workers) is not int or workers < 1:
        raise InvalidInput("workers", workers, "a number of queries to ask at once, from 1 on")
