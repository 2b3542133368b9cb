"""Scores that a test writes down, and the verdict of one rule on them."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from llama_index_rag_metrics import Scores, check_rules
from llama_index_rag_metrics.decisions.gate.verdict import Verdict
from llama_index_rag_metrics.runtime.containers import FloatArray

Rankings: TypeAlias = "Mapping[str, Sequence[str] | None]"
"""What is retrieved for each question; None fails."""


def scores(values: Sequence[float] | FloatArray, metric: str = "ndcg@10", **options: Any) -> Scores:
    return Scores([f"q{number:04d}" for number in range(len(values))], {metric: values}, **options)


def verdict_of(
    now: Sequence[float] | FloatArray,
    before: Sequence[float] | FloatArray,
    rule: str = "ndcg@10 >= baseline - 0.02",
    **options: Any,
) -> Verdict:
    (verdict,) = check_rules(scores(now), rule, baseline=scores(before), **options)
    return verdict
