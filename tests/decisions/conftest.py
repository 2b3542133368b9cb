"""Metrics of one's own for the tests of decisions: costs, without a limit."""

from collections.abc import Iterator

import pytest

from llama_index_rag_metrics.metrics import metric_names
from llama_index_rag_metrics.metrics.base import CutMetric, RankingMetric
from llama_index_rag_metrics.rankings.judging.judged import Hits
from llama_index_rag_metrics.runtime.containers import FloatArray


class Cost(CutMetric, RankingMetric):
    """How many passages were retrieved."""

    needs_relevance = False
    recognises = False
    in_groups = True
    lower_is_better = True
    bounds = (0.0, float("inf"))

    def score(self, hits: Hits) -> FloatArray:
        return hits.depth.astype(float)


class Calls(Cost):
    """How many passages were retrieved, as if each took a call."""

    name = "calls"


class Tokens(Cost):
    """How many passages were retrieved, as if each had one token."""

    name = "tokens"


class Missed(Cost):
    """A metric from 0 to 1 of which less is better."""

    name, bounds = "missed", (0.0, 1.0)


@pytest.fixture(autouse=True)
def costs() -> Iterator[None]:
    for metric_class in (Calls, Tokens, Missed):
        metric_names._add(metric_class)
    yield
    for metric_class in (Calls, Tokens, Missed):
        del metric_names.METRICS[metric_class.name]
