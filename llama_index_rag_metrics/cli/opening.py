"""What `evaluate` does before it asks: the dataset and the retrievers, built and checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric

from llama_index_rag_metrics.cli.journal_folder import check_depths, fitting_depth, kept_depths
from llama_index_rag_metrics.cli.retriever_factories import built, find, names_of
from llama_index_rag_metrics.evaluation.identity import RetrieverIdentity
from llama_index_rag_metrics.evaluation.source import as_retriever, retrieval_depth
from llama_index_rag_metrics.files.lines import OnError
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.runtime.errors import InvalidInput

if TYPE_CHECKING:
    from llama_index_rag_metrics.evaluation.source import Source


class Opened(NamedTuple):
    """A dataset, the retrievers by their names, and what journals call them."""

    dataset: RetrievalDataset
    retrievers: dict[str, Source]
    identities: dict[str, RetrieverIdentity]


def open_retrievers(
    specs: Sequence[str],
    path: Path,
    metrics: Sequence[BaseRetrievalMetric],
    *,
    top_k: int | None,
    journal: Path | None,
    split: str | None,
    on_error: OnError,
    slice_by: Iterable[str],
) -> Opened:
    """Find every factory before anything is loaded, and build the retrievers."""
    names = names_of(specs)
    kept = kept_depths(journal, names)
    k = depth(metrics, top_k, kept)
    check_depths(journal, kept, k)
    factories = {name: find(spec) for name, spec in names.items()}
    dataset = RetrievalDataset.load(path, split=split, on_error=on_error)
    _check_judged(dataset, metrics, path)
    _check_keys(dataset, slice_by)
    return Opened(
        dataset,
        {
            name: built("--retriever", names[name], factory, dataset, k, as_retriever)
            for name, factory in factories.items()
        },
        {name: RetrieverIdentity(spec, k) for name, spec in names.items()},
    )


def depth(
    metrics: Iterable[BaseRetrievalMetric],
    top_k: int | None,
    kept: Mapping[str, int] | None = None,
) -> int:
    """How many nodes to retrieve.

    Without `top_k`: the depth of the journals if it covers every cutoff, else that of `evaluate`.
    """
    chosen = list(metrics)
    cutoffs = [k for metric in chosen if (k := getattr(metric, "k", None))]
    return top_k or fitting_depth(kept or {}, cutoffs) or retrieval_depth(chosen)


def _check_keys(dataset: RetrievalDataset, keys: Iterable[str]) -> None:
    """Refuse a slice by a key that no query's metadata has, before any work is done."""
    known = sorted({key for row in dataset.metadata.values() for key in row})
    for key in keys:
        if key not in known:
            raise InvalidInput("--slice", key, f"a key of the queries' metadata: {known}")


def _check_judged(
    dataset: RetrievalDataset, metrics: Iterable[BaseRetrievalMetric], path: Path
) -> None:
    """Refuse a dataset that no metric could score, before any work is done."""
    needed = all(getattr(metric, "needs_relevance", True) for metric in metrics)
    if needed and not any(dataset.relevance.values()) and not any(dataset.expected_texts.values()):
        expected = "judgements of at least one query, with something relevant"
        raise InvalidInput("--dataset", str(path), expected)
