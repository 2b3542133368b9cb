"""Metrics of this package inside the tools that hold traces: MLflow's evaluation, Phoenix."""

from llama_index_rag_metrics.observability.mlflow import as_mlflow_scorer
from llama_index_rag_metrics.observability.phoenix import span_annotations

__all__ = ["as_mlflow_scorer", "span_annotations"]
