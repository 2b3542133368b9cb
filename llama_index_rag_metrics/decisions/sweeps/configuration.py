"""Configuration: one point of a sweep, with its results and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from llama_index_rag_metrics.evaluation.evaluation_results import EvaluationResults, system_of
from llama_index_rag_metrics.rankings.judging.judged import TokenBudget
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.report.reportable import Sentence
from llama_index_rag_metrics.scores.scores import listed_means

Cost: TypeAlias = Literal["tokens", "p95"]

SAVINGS: Mapping[Cost, float] = {"tokens": 0.05, "p95": 0.5}
"""The least share of a cost that counts as saved: a p95 differs much from run to run."""


def saves(cost: Cost, more: float, less: float) -> bool:
    """Whether one cost is lower than another by a share that counts."""
    return less < more * (1 - SAVINGS[cost])


@dataclass(frozen=True, eq=False, repr=False)
class Configuration(Sentence):
    """One configuration of a sweep.

    Attributes:
        name: its parameters as a text, such as "chunk_size=128, top_k=5".
        params: its parameters.
        results: of its evaluation; None where there was none.
        error: why it can't be compared with the others; "" where it can.
        texts: parameter to its value as a text, without a secret.
        depth: how much of a ranking the metric that decides reads; None for all of it.

    Examples:
        >>> from llama_index_rag_metrics import sweep
        >>> def build(top_k):
        ...     return lambda query: ["d2", "d1"][:top_k]
        >>> dataset = {"queries": {"q1": "x?", "q2": "y?"}, "corpus": {},
        ...            "relevant_docs": {"q1": ["d1"], "q2": ["d2"]}}
        >>> swept = sweep(build, {"top_k": [1, 2]}, dataset, ["recall"])
        >>> [(configuration.name, configuration.mean("recall")) for configuration in swept]
        [('top_k=1', 0.5), ('top_k=2', 1.0)]
    """

    name: str
    params: Mapping[str, Any]
    results: EvaluationResults | None = None
    error: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    depth: int | TokenBudget | None = None

    def __str__(self) -> str:
        parts = [self.error] if self.error else []
        if self.results is not None:
            parts.insert(0, listed_means(self.results.scores.means))
        return f"{self.name}: {'; '.join(parts)}"

    def mean(self, metric: str) -> float | None:
        """The mean on a metric; None where there is none."""
        if self.results is None:
            return None
        return system_of(self.results).mean(metric)

    @cached_property
    def tokens(self) -> float | None:
        """The mean tokens of a question, as deep as the metric reads; None if not counted."""
        if self.results is None:
            return None
        return mean_tokens(self.results.run, self.depth)

    @cached_property
    def p95(self) -> float | None:
        """The seconds in which 95 % of the questions were answered; None if they weren't timed."""
        if self.results is None or self.results.run.latency is None:
            return None
        return self.results.run.latency.p95


def mean_tokens(run: Run, depth: int | TokenBudget | None) -> float | None:
    """The mean tokens of a question, copies dropped, of so much of each ranking.

    None where they weren't counted. Failed questions are left out: they have nothing to read.
    """
    answered = [ranking for ranking in run.every_ranking if ranking.error is None]
    if not answered or any(ranking.tokens is None for ranking in answered):
        return None
    return float(np.mean([_tokens_of(ranking, depth) for ranking in answered]))


def _tokens_of(ranking: Ranking, depth: int | TokenBudget | None) -> int:
    costs: dict[str, int] = {}
    for item, tokens in zip(ranking.ids, ranking.tokens or (), strict=True):
        costs.setdefault(item, tokens)
    tokens_read = 0
    for rank, tokens in enumerate(costs.values(), 1):
        if isinstance(depth, int) and rank > depth:
            break
        if isinstance(depth, TokenBudget) and tokens_read + tokens > depth.tokens:
            break
        tokens_read += tokens
    return tokens_read
