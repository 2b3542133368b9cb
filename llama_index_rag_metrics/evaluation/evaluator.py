"""Evaluate a retriever; and LlamaIndex's evaluator, with datasets."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.evaluation import RetrievalEvalResult
from llama_index.core.evaluation import RetrieverEvaluator as CoreRetrieverEvaluator
from llama_index.core.evaluation.retrieval.base import RetrievalEvalMode
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from pydantic import Field

from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.metrics import metric_names
from llama_index_rag_metrics.metrics.metric_names import DEFAULT_METRICS
from llama_index_rag_metrics.rankings.judging.beside import Tokenizer
from llama_index_rag_metrics.rankings.matching.id_matcher import MatchOn
from llama_index_rag_metrics.rankings.matching.matched import MatcherLike
from llama_index_rag_metrics.rankings.relevance import RelevanceLike
from llama_index_rag_metrics.runtime.cache import Cache
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import shorten
from llama_index_rag_metrics.runtime.sync import WORKERS, synchronous, synchronous_method
from llama_index_rag_metrics.scores.batches import Failed, Metrics

from .as_ask import Source, SourceLike, SourceRetriever, as_source, retrieval_depth
from .evaluating import run_evaluation
from .evaluation_results import EvaluationResults
from .plan import Plan

_NO_LABEL = "It needs a label with a grade above 0; abstained and returned need that none has one."


async def aevaluate(
    retriever: SourceLike | Source,
    dataset: Any,
    metrics: Metrics = DEFAULT_METRICS,
    *,
    name: str = "",
    match_on: MatchOn = "node_id",
    matcher: MatcherLike | None = None,
    node_postprocessors: Sequence[BaseNodePostprocessor] = (),
    workers: int = WORKERS,
    timeout: float | None = None,
    journal: str | Path | None = None,
    run: str = "",
    cache: Cache | str | Path | None = None,
    tokenizer: Tokenizer | None = None,
    min_score: float | None = None,
    repeats: int = 1,
    failed: Failed = "zero",
    show_progress: bool = False,
    raise_on_error: bool = False,
) -> EvaluationResults:
    """Evaluate a retriever on a dataset. `aevaluate` is awaited; `evaluate` isn't.

    Args:
        retriever: a retriever, an index, a query or chat engine, an agent, a workflow, or a
            function from the question's text to ids or nodes, which gets the question's metadata,
            too, if it has a parameter `metadata`. An index is asked for as many nodes as the
            largest cutoff, and for at least 10 where a metric has none.
        dataset: a `RetrievalDataset`, or what `RetrievalDataset.load` takes, such as a path.
        metrics: names or metrics; the first one decides.
        name: what to call the retriever in reports.
        match_on: which id of a retrieved node is compared with the labels: "node_id", "ref_doc_id",
            a key of its metadata, or a function of the node. Several chunks of one document count
            once, at the best rank.
        matcher: how labelled passages are recognised, if not by id: "text", "span", or a function
            of the expected and the retrieved texts.
        node_postprocessors: applied to what is retrieved, in this order.
        workers: how many questions are asked at once.
        timeout: seconds that the retriever, and each postprocessor and metric of texts, may take
            on a question; then the question, or the metric's value, has failed.
        journal: a file that keeps every answer: a second call with it asks what has no answer yet,
            and may have other metrics. It doesn't see that the retriever was changed: give what was
            changed another file, or `run`.
        run: names the run in its journal, such as "k=20, index of 12 March"; a journal of another
            run is refused.
        cache: keeps embeddings, reranks and judgements that were paid for: a `Cache`, or the path
            of its file. By default, a file beside the journal; without one, memory.
        tokenizer: counts the tokens of each node, for cutoffs such as `recall@2000tokens`: a
            function from a text to its tokens, or what has `encode`; by default LlamaIndex's.
        min_score: leave out passages with a lower score, as LlamaIndex's `SimilarityPostprocessor`
            would. A journal keeps all passages: another threshold asks nothing again.
        repeats: how many times every question is asked, of what answers differently each time. A
            question's score is the mean of its runs; `results.repeats` has each.
        failed: whether a question on which the retriever failed scores "zero", or is left out
            ("exclude").
        show_progress: whether to show a progress bar.
        raise_on_error: end at the first question on which the retriever fails.

    Returns:
        One result per query, in the dataset's order; `.scores` has the means and counts, `.run`
        what was retrieved.

    Raises:
        InvalidInput: an argument can't be used.
        UnknownMetric: no metric has that name; the message lists the nearest ones.
        RetrievalFailed: with `raise_on_error`.
        MissingKey: a metric's service needs a key, and there is none.
        JournalMismatch: the journal's run, depth, match_on, tokenizer or postprocessors differ.

    Examples:
        >>> dataset = {"queries": {"q1": "x?", "q2": "y?"}, "corpus": {},
        ...            "relevant_docs": {"q1": ["d1"], "q2": ["d2"]}}
        >>> results = evaluate(lambda query: ["d1", "d2"], dataset, ["mrr"])
        >>> results.scores.means["mrr"]
        0.75
    """
    __tracebackhide__ = True
    plan = Plan.of(
        dataset,
        metrics,
        name=name,
        match_on=match_on,
        matcher=matcher,
        node_postprocessors=node_postprocessors,
        workers=workers,
        timeout=timeout,
        journal=journal,
        run=run,
        cache=cache,
        tokenizer=tokenizer,
        min_score=min_score,
        repeats=repeats,
        failed=failed,
        show_progress=show_progress,
        raise_on_error=raise_on_error,
    )
    return await run_evaluation(as_source(retriever, retrieval_depth(plan.metrics)), plan)


evaluate = synchronous(aevaluate)


class RetrieverEvaluator(CoreRetrieverEvaluator):
    """LlamaIndex's RetrieverEvaluator, with the dataset evaluation that core 0.14.21 removed.

    Change the import, and code written for core 0.14.20 or earlier works.

    Args:
        metrics, retriever, node_postprocessors, match_on, matcher: as of `evaluate`.

    Examples:
        >>> evaluator = RetrieverEvaluator.from_metric_names(
        ...     ["mrr", "recall@2"], retriever=lambda query: ["d3", "d1"]
        ... )
        >>> evaluator.evaluate("what is x?", expected_ids=["d1"]).metric_vals_dict
        {'mrr': 0.5, 'recall@2': 1.0}
    """

    match_on: Any = Field("node_id", description="which id of a node is compared with the labels")
    matcher: Any = Field(None, description="how labelled passages are recognised, if not by id")

    def __init__(self, *, metrics: Metrics, retriever: SourceLike, **fields: Any) -> None:
        resolved = metric_names.metrics(metrics)
        if not isinstance(retriever, BaseRetriever):
            retriever = SourceRetriever(as_source(retriever, retrieval_depth(resolved)))
        super().__init__(metrics=resolved, retriever=retriever, **fields)

    @classmethod
    def from_metric_names(cls, metric_names: Iterable[str], **kwargs: Any) -> RetrieverEvaluator:
        """An evaluator for metrics given by name, with any parameters and cutoff."""
        return cls(metrics=metric_names, **kwargs)

    async def aevaluate(
        self,
        query: str,
        expected_ids: RelevanceLike,
        expected_texts: list[str] | None = None,
        mode: RetrievalEvalMode = RetrievalEvalMode.TEXT,
        **kwargs: Any,
    ) -> RetrievalEvalResult:
        """Evaluate one query, all errors are raised; its twin `evaluate` isn't awaited.

        Args:
            query: the query.
            expected_ids: ids, {id: grade}, groups of ids, or a `Relevance`.
            expected_texts: the texts of expected_ids, for a matcher; these may be None or [] then.
            mode: what the result says; nodes of every kind count by their ids.
            kwargs: further arguments of `evaluate`.
        """
        inspect.signature(aevaluate).bind_partial(**kwargs)  # refuses what isn't one of its options
        labels = {"query": expected_ids} if expected_ids is not None else {}
        texts = {"query": expected_texts} if expected_texts is not None else {}
        dataset = RetrievalDataset({"query": query}, labels, expected_texts=texts)
        options: dict[str, Any] = {"match_on": self.match_on, "matcher": self.matcher}
        options |= {"node_postprocessors": self.node_postprocessors, "raise_on_error": True}
        plan = Plan.of(dataset, self.metrics, **{**options, **kwargs})
        results = await run_evaluation(as_source(self.retriever), plan, warns=False)
        for metric in self.metrics:
            if metric.metric_name not in results[0].metric_dict:
                reason = f"{metric.metric_name} has no value for {shorten(query)}."
                causes = [note for note in results.scores.notes if metric.metric_name in note]
                sentence = " ".join([reason, *(causes or [_NO_LABEL])])
                raise InvalidInput("expected_ids", expected_ids, sentence=sentence)
        return results[0].model_copy(update={"mode": RetrievalEvalMode(mode)})

    evaluate = synchronous_method(aevaluate)  # type: ignore[arg-type, pydantic-field]

    async def aevaluate_dataset(
        self,
        dataset: Any,
        workers: int = WORKERS,
        show_progress: bool = False,
        *,
        name: str = "",
        timeout: float | None = None,
        journal: str | Path | None = None,
        run: str = "",
        cache: Cache | str | Path | None = None,
        tokenizer: Tokenizer | None = None,
        min_score: float | None = None,
        repeats: int = 1,
        failed: Failed = "zero",
        raise_on_error: bool = False,
    ) -> EvaluationResults:
        """Ask every query of a dataset and score what comes back; all else is as of `evaluate`."""
        return await aevaluate(
            self.retriever,
            dataset,
            self.metrics,
            name=name,
            match_on=self.match_on,
            matcher=self.matcher,
            node_postprocessors=self.node_postprocessors or (),
            workers=workers,
            timeout=timeout,
            journal=journal,
            run=run,
            cache=cache,
            tokenizer=tokenizer,
            min_score=min_score,
            repeats=repeats,
            failed=failed,
            show_progress=show_progress,
            raise_on_error=raise_on_error,
        )

    evaluate_dataset = synchronous_method(aevaluate_dataset)  # type: ignore[pydantic-field]
