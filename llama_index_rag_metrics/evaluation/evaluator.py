"""The evaluator: LlamaIndex's, with datasets, cutoffs, concurrency and a journal."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import ExitStack
from dataclasses import replace
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.evaluation import RetrievalEvalResult
from llama_index.core.evaluation import RetrieverEvaluator as CoreRetrieverEvaluator
from llama_index.core.evaluation.retrieval.base import RetrievalEvalMode
from llama_index.core.evaluation.retrieval.metrics_base import (
    BaseRetrievalMetric,
    RetrievalMetricResult,
)
from llama_index.core.storage.kvstore.types import BaseKVStore
from pydantic import Field, SerializeAsAny, ValidationInfo, field_validator

from llama_index_rag_metrics.evaluation.asking.query import LocalAsker, Question, compute, prepare
from llama_index_rag_metrics.evaluation.asking.run_options import LatencyMode, RunOptions
from llama_index_rag_metrics.evaluation.conduct import conduct
from llama_index_rag_metrics.evaluation.identity import RetrieverIdentity, identify_retriever
from llama_index_rag_metrics.evaluation.permissions import ForbiddenLike
from llama_index_rag_metrics.evaluation.plan import Plan, token_counter
from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults
from llama_index_rag_metrics.evaluation.retrieved.by_matcher import matcher_of
from llama_index_rag_metrics.evaluation.retrieved.modes import check_mode, mode_note
from llama_index_rag_metrics.evaluation.retrieved.places import Places
from llama_index_rag_metrics.evaluation.retrieved.run_matching import Matching
from llama_index_rag_metrics.evaluation.retrievers.pipeline import Pipeline
from llama_index_rag_metrics.evaluation.sessions.session_asker import (
    MOST_CALLS,
    asker_of,
    check_calls,
)
from llama_index_rag_metrics.evaluation.source import Source, as_retriever, retrieval_depth
from llama_index_rag_metrics.files.lines import OnError
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.metrics import RankingMetric
from llama_index_rag_metrics.metrics.metric_names import metrics as resolve
from llama_index_rag_metrics.rankings.combining import Combine
from llama_index_rag_metrics.rankings.matching import (
    BY_ID,
    Matcher,
    MatcherLike,
    MatchOn,
    as_matcher,
)
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.rankings.tokens import Tokenizer
from llama_index_rag_metrics.runtime.cache import Cache
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.sync import run_sync
from llama_index_rag_metrics.scores.scoring import Failed, Metrics, NoRelevant, ScoringOptions


class RetrieverEvaluator(CoreRetrieverEvaluator):
    """LlamaIndex's RetrieverEvaluator, with the dataset evaluation that core 0.14.21 removed.

    Change the import, and code written for core 0.14.20 or earlier works.

    Args:
        metrics: the metrics, or their names.
        retriever: a retriever, an index, a query engine or a callable. An index is asked for as
            many nodes as the largest cutoff, and for at least 10 where a metric has none.
        node_postprocessors: applied to what is retrieved, in this order.
        match_on: which id of a node is compared with the labels: "node_id", "ref_doc_id", a key of
            its metadata, or a function of the node. Several chunks of one document count once, at
            the best rank.
        matcher: how expected items are recognised, if not by id: a matcher, or the name of one:
            "text", "exact", "tokens", "edit", "embedding", "span", "group". A metric's own `match`
            takes precedence.

    Examples:
        >>> evaluator = RetrieverEvaluator.from_metric_names(
        ...     ["mrr", "recall@2"], retriever=lambda query: ["d3", "d1"]
        ... )
        >>> evaluator.evaluate("what is x?", expected_ids=["d1"]).metric_vals_dict
        {'mrr': 0.5, 'recall@2': 1.0}
    """

    metrics: list[SerializeAsAny[BaseRetrievalMetric]] = Field(..., description="metrics")
    match_on: Any = Field("node_id", description="which id of a node is compared with the labels")
    matcher: Any = Field(None, description="how expected items are recognised, if not by id")

    @field_validator("retriever", mode="before")
    @classmethod
    def _as_retriever(cls, source: Source, info: ValidationInfo) -> BaseRetriever:
        return as_retriever(source, retrieval_depth(info.data.get("metrics", ())))

    @field_validator("metrics", mode="before")
    @classmethod
    def _each_once(cls, metrics: Metrics) -> list[BaseRetrievalMetric]:
        return resolve(metrics)

    @field_validator("match_on")
    @classmethod
    def _known_way(cls, match_on: MatchOn) -> MatchOn:
        if not isinstance(match_on, str) and not callable(match_on):
            expected = (
                "'node_id', 'ref_doc_id', a key of the nodes' metadata, or a function of a node"
            )
            raise InvalidInput("match_on", match_on, expected)
        return match_on

    @field_validator("matcher")
    @classmethod
    def _as_matcher(cls, matcher: MatcherLike | None) -> Matcher[Any] | None:
        return as_matcher(matcher)

    @classmethod
    def from_metric_names(cls, metric_names: Iterable[str], **kwargs: Any) -> RetrieverEvaluator:
        """An evaluator for metrics given by name, with any parameters and cutoff."""
        return cls(metrics=resolve(metric_names), **kwargs)

    def evaluate(
        self,
        query: str,
        expected_ids: RelevanceLike,
        expected_texts: list[str] | None = None,
        mode: RetrievalEvalMode = RetrievalEvalMode.TEXT,
        **kwargs: Any,
    ) -> RetrievalEvalResult:
        """The synchronous twin of `aevaluate`."""
        return run_sync(self.aevaluate(query, expected_ids, expected_texts, mode, **kwargs))

    async def aevaluate(
        self,
        query: str,
        expected_ids: RelevanceLike,
        expected_texts: list[str] | None = None,
        mode: RetrievalEvalMode = RetrievalEvalMode.TEXT,
        forbidden_ids: Collection[str] | None = None,
        **kwargs: Any,
    ) -> RetrievalEvalResult:
        """Evaluate one query. An error of the retriever or of a metric is raised.

        Args:
            query: the query.
            expected_ids: ids, {id: grade}, groups of ids, or a `Relevance`.
            expected_texts: the texts of expected_ids, for a matcher; expected_ids may be None or
                empty then.
            mode: "text" or "image": which of the retrieved nodes count.
            forbidden_ids: what the asker may not see, for metrics of leaks.
        """
        _refuse(kwargs)
        check_mode(mode)
        relevance = None if expected_ids is None else Relevance.of(expected_ids)
        with ExitStack() as stack:
            pipeline = self._pipeline(workers=1)
            stack.callback(pipeline.close)
            retrieved, _ = await pipeline.ask(query)
            for note in mode_note(retrieved, mode):
                warn_caller(UserWarning(note))
            counter = token_counter(self.metrics)
            places = Places({}, self.matcher)
            asker = LocalAsker(pipeline, self.match_on, (), mode, counter, places)
            relevance = None if relevance is None else places.of_relevance(relevance)
            ranking = replace(asker.ranking(retrieved), forbidden=forbidden_ids)
            metric_dict = {
                metric.metric_name: await self._compute(
                    metric, pipeline, query, relevance, ranking, expected_texts
                )
                for metric in self.metrics
            }
        return RetrievalEvalResult(
            query=query,
            expected_ids=list(relevance or ()),
            expected_texts=expected_texts,
            retrieved_ids=list(ranking.ids),
            retrieved_texts=list(ranking.texts or ()),
            mode=mode,
            metric_dict=metric_dict,
        )

    async def aevaluate_dataset(
        self,
        dataset: Any,
        workers: int = 2,
        show_progress: bool = False,
        *,
        name: str = "",
        journal: str | Path | None = None,
        retriever_id: str | RetrieverIdentity | None = None,
        cache: Cache | BaseKVStore | str | Path | None = None,
        no_relevant: NoRelevant = "exclude",
        failed: Failed = "zero",
        raise_on_error: bool = False,
        use_async: bool | None = None,
        on_error: OnError = "raise",
        ignore_identical_ids: bool = False,
        timeout: float | None = None,
        max_failures: float | None = None,
        latency: LatencyMode = "load",
        latency_sample: int | None = None,
        tokenizer: Tokenizer | None = None,
        combine: Combine | None = None,
        max_calls: int | None = MOST_CALLS,
        forbidden: ForbiddenLike | None = None,
        price_per_million: float | None = None,
        **kwargs: Any,
    ) -> EvaluationResults:
        """Ask every query of a dataset and score what comes back.

        Args:
            dataset: a `RetrievalDataset`, or what `RetrievalDataset.of` takes, such as LlamaIndex's
                removed EmbeddingQAFinetuneDataset.
            workers: how many queries are asked at once.
            show_progress: whether to show a progress bar.
            name: what to call the retriever in reports.
            journal: a file that keeps every finished query. A second call with it goes on where the
                first ended, also after a kill, and may have other metrics.
            retriever_id: says which retriever this is, for the journal: change it whenever the
                retriever or its index changes. By default its class and settings, or a function's
                name, code and what it is bound to; these don't tell what an index holds.
            cache: keeps what was paid for, embeddings, reranks and judgements, so that a second
                call asks for none of it again: a `Cache`, a path, or a key-value store of
                LlamaIndex. By default, a file beside the journal, run.jsonl.cache; without one,
                memory, for this call only.
            no_relevant: what to do with queries that have nothing relevant: "exclude" them from the
                means and count them, score them "zero", or "error".
            failed: whether a query on which the retriever failed scores "zero", or is left out:
                "exclude".
            raise_on_error: end at the first query on which the retriever fails.
            use_async: whether the retriever is asked by its `aretrieve`, or by its `retrieve` in as
                many threads as there are workers. None finds out on the first query which works
                and doesn't block; where one doesn't work, a note says so.
            on_error: of reading the dataset: "raise" ends at the first line that can't be read, or
                that judges a question that isn't there; "skip" leaves such lines out, and a note
                counts them.
            ignore_identical_ids: leave out documents that have their own query's id, as BEIR does.
                The retriever should then return one item more than the largest cutoff.
            timeout: seconds that the retriever, and each postprocessor, matcher and metric of
                texts, may take on a query; then the query, or the metric's value, has failed. A
                thread that hangs is abandoned, and another takes its place.
            latency: "load" times queries while `workers` of them are asked at once. "alone" asks
                queries one at a time, before any others, and reports the latency of these.
            latency_sample: how many queries "alone" asks so, spread evenly over the dataset; None:
                all of them.
            max_failures: how many queries may fail, or which share of them (a float below 1),
                before the retriever, or a metric, isn't asked any more: the remaining queries then
                count as failed. The same happens, whatever this argument, when a service refuses
                the key (401; or 403, if it has answered no query).
            tokenizer: counts the tokens of what a prompt would hold of each node, for cutoffs such
                as `recall@2000tokens`: a function from a text to its tokens, or what has `encode`.
                LlamaIndex's `get_tokenizer()` where a metric needs tokens and none is given.
            combine: how the calls of an agent or a workflow become one ranking: "first_seen", their
                items one after another; "last", those of the last call; "rrf", the fusion of all;
                or "context", what finally went to the model. See `combine_calls`.
            max_calls: how many retrievals an agent or a workflow may make for a question. At the
                next one it is stopped, and the question has failed. None: any number.
            forbidden: what the asker may not see, for metrics such as `leaked@10`. Either query id
                to ids; or a key of metadata, such as "tenant", where a node is forbidden unless one
                of its values is one of the question's, and unknown if it and the dataset's
                `document_metadata` lack the key; or a function of the question's metadata and the
                retrieved node, which returns True if the node is forbidden. By default the
                dataset's own `forbidden`.
            price_per_million: the price of a million tokens of input to a model, in any currency:
                reports then show the tokens per query and the price of 1,000 queries.

        Raises:
            RetrievalFailed: with `raise_on_error`.
            MissingKey: a metric's service needs a key, and there is none.
            JournalMismatch: the journal's dataset, match_on, retriever or postprocessors differ.
        """
        _refuse(kwargs)
        options = RunOptions(
            workers=workers,
            show_progress=show_progress,
            name=name,
            match_on=self.match_on,
            matcher=self.matcher,
            journal=journal,
            cache=Cache.of(cache, journal),
            scoring=ScoringOptions(no_relevant, failed),
            raise_on_error=raise_on_error,
            use_async=use_async,
            on_error=on_error,
            ignore_identical_ids=ignore_identical_ids,
            timeout=timeout,
            max_failures=max_failures,
            latency=latency,
            latency_sample=latency_sample,
            tokenizer=tokenizer,
            price_per_million=price_per_million,
        )
        check_calls(self.metrics, self.matcher, combine)
        plan = Plan.of(dataset, self.metrics, options, forbidden)
        asker = asker_of(
            self._pipeline(workers, use_async, timeout),
            self.match_on,
            await prepare(plan.computed, plan.questions, options.cache),
            plan.questions.mode,
            plan.counter,
            plan.places,
            combine=combine,
            max_calls=max_calls,
        )
        return await conduct(
            asker,
            plan,
            retriever_id=asker.identity(retriever_id or identify_retriever(self.retriever)),
            postprocessors=self.node_postprocessors or [],
        )

    def evaluate_dataset(
        self, dataset: Any, workers: int = 2, show_progress: bool = False, **kwargs: Any
    ) -> EvaluationResults:
        """The synchronous twin of `aevaluate_dataset`; works in notebooks, too."""
        return run_sync(self.aevaluate_dataset(dataset, workers, show_progress, **kwargs))

    async def _compute(
        self,
        metric: BaseRetrievalMetric,
        pipeline: Pipeline,
        query: str,
        relevance: Relevance | None,
        ranking: Ranking,
        expected_texts: list[str] | None,
    ) -> RetrievalMetricResult:
        if isinstance(metric, RankingMetric):
            matcher = matcher_of(metric, self.matcher)
            if matcher is not None:
                dataset = RetrievalDataset(
                    {"query": query},
                    {"query": relevance},
                    expected_texts={"query": expected_texts or []},
                )
                matching = Matching(matcher, dataset)
                relevance, ranking = await matching.match_one(ranking, pipeline.in_thread)
            metric = metric.model_copy(update={"match": BY_ID})
        question = Question(query, relevance, expected_texts)
        return await compute(metric, pipeline, question, ranking)

    def _pipeline(
        self, workers: int, use_async: bool | None = None, timeout: float | None = None
    ) -> Pipeline:
        postprocessors = self.node_postprocessors or []
        return Pipeline(self.retriever, postprocessors, workers, use_async, timeout)


class MultiModalRetrieverEvaluator(RetrieverEvaluator):
    """LlamaIndex's MultiModalRetrieverEvaluator: mode "image" counts images, "text" all else.

    The mode is the dataset's, or that of `evaluate`; `RetrieverEvaluator` does the same.

    Examples:
        >>> from llama_index_rag_metrics import MultiModalRetrieverEvaluator, RetrieverEvaluator
        >>> issubclass(MultiModalRetrieverEvaluator, RetrieverEvaluator)
        True
    """


def _refuse(kwargs: dict[str, Any]) -> None:
    if kwargs:
        argument, value = next(iter(kwargs.items()))
        evaluator = RetrieverEvaluator
        known = [*evaluator.model_fields, *signature(evaluator.aevaluate_dataset).parameters]
        near = get_close_matches(argument, known, n=1)
        remedy = "Parameters of a metric belong to the metric."
        if near:
            remedy = f"Did you mean {near[0]!r}?"
        if argument in ("top_k", "k", "similarity_top_k"):
            remedy = (
                "The retriever decides how many nodes it returns: "
                f"index.as_retriever(similarity_top_k={value!r}). A metric's cutoff is in its "
                f"name: 'ndcg@{value}'."
            )
        sentence = f"evaluate() has no argument {argument!r}."
        raise InvalidInput(argument, value, sentence=sentence, remedy=remedy)
