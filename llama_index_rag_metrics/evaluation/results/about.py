"""What was evaluated and how, for the head of a report: never a secret, and never an address."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from typing import TYPE_CHECKING

from llama_index.core.postprocessor.types import BaseNodePostprocessor

from llama_index_rag_metrics.evaluation.retrieved.by_matcher import group_by_matcher
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.run import Run

if TYPE_CHECKING:
    from llama_index_rag_metrics.evaluation.plan import Plan


def describe(
    plan: Plan, run: Run, *, retriever: str, postprocessors: Sequence[BaseNodePostprocessor]
) -> dict[str, str]:
    """What a reader wants to know of an evaluation, label to value, in the order of a report."""
    from llama_index_rag_metrics import __version__

    dataset, metrics, counter = plan.questions, plan.metrics, plan.counter
    queries, documents = counted(len(dataset.queries)), len(dataset.corpus)
    size = f"{queries}, {counted(documents, 'document', 'documents')}" if documents else queries
    depth = max((len(ranking.ids) for ranking in run.values()), default=0)
    recognising = [metric for metric in metrics if getattr(metric, "recognises", True)]
    stages = [type(postprocessor).__qualname__ for postprocessor in postprocessors]
    return {
        "dataset": f"{dataset.name}: {size}" if dataset.name else size,
        "evaluated": f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
        "retriever": " → ".join(filter(None, [retriever, *stages])) or "stored rankings",
        "retrieved": f"up to {counted(depth, 'item', 'items')} a query",
        "metrics": ", ".join(metric.metric_name for metric in metrics),
        "matched by": ", ".join(group_by_matcher(recognising, plan.options.matcher)),
        **({} if counter is None else {"tokens by": counter.name}),
        "workers": str(plan.options.workers),
        "versions": f"llama-index-rag-metrics {__version__}, "
        f"llama-index-core {version('llama-index-core')}",
    }
