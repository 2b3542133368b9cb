"""The short way to evaluate: one function, from a retriever and a dataset to the results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from typing_extensions import Unpack

from llama_index_rag_metrics.evaluation.asking.run_options import (
    EvaluateOptions,
    check_known,
    shows,
)
from llama_index_rag_metrics.evaluation.evaluator import RetrieverEvaluator
from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults
from llama_index_rag_metrics.evaluation.retrievers.pipeline import listed_postprocessors
from llama_index_rag_metrics.evaluation.source import Source, as_retriever, retrieval_depth
from llama_index_rag_metrics.metrics.metric_names import metrics as resolve
from llama_index_rag_metrics.rankings.matching import MatcherLike, MatchOn, as_matcher
from llama_index_rag_metrics.runtime.amounts import WORKERS
from llama_index_rag_metrics.runtime.sync import synchronous
from llama_index_rag_metrics.scores.scoring import Metrics

DEFAULT_METRICS = ("ndcg@10", "hit_rate@5", "recall@5", "precision@5", "mrr@10", "ap@10")
"""What `evaluate` computes unless told otherwise."""


@shows(EvaluateOptions)
async def aevaluate(
    retriever: Source,
    dataset: Any,
    metrics: Metrics = DEFAULT_METRICS,
    *,
    node_postprocessors: Sequence[BaseNodePostprocessor] = (),
    match_on: MatchOn = "node_id",
    matcher: MatcherLike | None = None,
    workers: int = WORKERS,
    show_progress: bool = False,
    **options: Unpack[EvaluateOptions],
) -> EvaluationResults:
    """Evaluate a retriever on a dataset. `aevaluate` is awaited; `evaluate` isn't.

    Args:
        retriever: a retriever, an index, a query engine, or a callable from query text to ids. An
            index is asked for as many nodes as the largest cutoff, and for at least 10 where a
            metric has none.
        dataset: a `RetrievalDataset`, a path that `RetrievalDataset.load` reads, or an old
            EmbeddingQAFinetuneDataset.
        metrics: names or metrics.
        node_postprocessors: applied to what is retrieved, in this order.
        match_on: which id of a retrieved node is compared with the labels.
        matcher: how expected items are recognised, such as "text"; None: by id.
        workers: how many queries are asked at once.
        show_progress: whether to show a progress bar.

    The further arguments are those of `EvaluateOptions`, such as `name`, `journal`, `cache`,
    `timeout`, `max_failures`, `tokenizer` and `forbidden`.

    Returns:
        One result per query, in the dataset's order; `.scores` has the means and counts, `.run`
        what was retrieved.

    Raises:
        InvalidInput: an argument can't be used.
        UnknownMetric: no metric has that name; the message lists the nearest ones.
        MissingKey: a metric's service needs a key, and there is none.
        JournalMismatch: the journal's dataset, match_on, retriever or postprocessors differ.

    Examples:
        >>> dataset = {"queries": {"q1": "x?", "q2": "y?"}, "corpus": {},
        ...            "relevant_docs": {"q1": ["d1"], "q2": ["d2"]}}
        >>> results = evaluate(lambda query: ["d1", "d2"], dataset, ["mrr"])
        >>> results.scores.means["mrr"]
        0.75

        Awaited:

        >>> import asyncio
        >>> from llama_index_rag_metrics import aevaluate
        >>> asyncio.run(aevaluate(lambda query: ["d1"], dataset, ["mrr"])).scores.means["mrr"]
        0.5
    """
    check_known(aevaluate, options)
    chosen = resolve(metrics)
    evaluator = RetrieverEvaluator(
        metrics=chosen,
        retriever=as_retriever(retriever, retrieval_depth(chosen)),
        node_postprocessors=listed_postprocessors(node_postprocessors),
        match_on=match_on,
        matcher=as_matcher(matcher),
    )
    return await evaluator.aevaluate_dataset(dataset, workers, show_progress, **options)


evaluate = synchronous(aevaluate)
