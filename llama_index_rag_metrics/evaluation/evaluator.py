"""An evaluation from its questions to its results; LlamaIndex's evaluator, with datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from itertools import chain
from typing import Annotated, Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.evaluation import RetrievalEvalResult
from llama_index.core.evaluation import RetrieverEvaluator as CoreRetrieverEvaluator
from llama_index.core.evaluation.retrieval.base import RetrievalEvalMode
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    SerializeAsAny,
    ValidationInfo,
    field_validator,
)
from typing_extensions import Unpack

from llama_index_rag_metrics.evaluation.asking.answers_kept import Journal
from llama_index_rag_metrics.evaluation.asking.query import (
    UNTOLD,
    Asker,
    LocalAsker,
    Question,
    compute,
    listed_postprocessors,
    prepare,
)
from llama_index_rag_metrics.evaluation.asking.query_runner import Collected, QueryRunner
from llama_index_rag_metrics.evaluation.asking.run_options import (
    EvaluateOptions,
    RunOptions,
    check_known,
    shows,
)
from llama_index_rag_metrics.evaluation.results.evaluation_results import (
    EvaluationResults,
    build_results,
    every_query_failed,
    system_of,
)
from llama_index_rag_metrics.evaluation.retrieved.run_matching import Places, places_for
from llama_index_rag_metrics.evaluation.retrieved.stock import fit_of_ids, fit_of_texts
from llama_index_rag_metrics.evaluation.sessions.session_asker import asker_of
from llama_index_rag_metrics.evaluation.source import (
    Source,
    SourceInfo,
    as_retriever,
    retrieval_depth,
)
from llama_index_rag_metrics.evaluation.who_asks import Query
from llama_index_rag_metrics.files.conversations import HISTORY
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.metrics.metric_names import DEFAULT_METRICS
from llama_index_rag_metrics.metrics.metric_names import metrics as resolve
from llama_index_rag_metrics.metrics.texts import TextMetric
from llama_index_rag_metrics.rankings.matching.id_matcher import MatchOn
from llama_index_rag_metrics.rankings.matching.matched import (
    BY_ID,
    Matched,
    MatcherLike,
    as_matcher,
    check_matchable,
    match_run,
)
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.rankings.tokens import TokenCounter, Tokenizer
from llama_index_rag_metrics.report.numbers import counted, questions
from llama_index_rag_metrics.runtime.amounts import WORKERS
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning
from llama_index_rag_metrics.runtime.masking import mask
from llama_index_rag_metrics.runtime.sync import run_sync, synchronous
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.graders import graders_of_metrics, with_graders
from llama_index_rag_metrics.scores.scoring.batches import Metrics
from llama_index_rag_metrics.stories.answers import with_answers


@dataclass(frozen=True)
class Plan:
    """All that is known before anything is asked; what no metric needs to know of items is None."""

    questions: RetrievalDataset
    metrics: Sequence[BaseRetrievalMetric]
    options: RunOptions
    postprocessors: Sequence[BaseNodePostprocessor] = ()
    counter: TokenCounter | None = None
    places: Places | None = None

    @classmethod
    def of(
        cls,
        dataset: Any,
        metrics: Sequence[BaseRetrievalMetric],
        options: RunOptions,
        postprocessors: Sequence[BaseNodePostprocessor] = (),
    ) -> Plan:
        questions = RetrievalDataset.load(dataset)
        options.scoring.check(questions.relevance)
        return cls(
            questions,
            metrics,
            options,
            postprocessors,
            token_counter(metrics, options.tokenizer),
            places_for(metrics, questions, options.matcher),
        )

    def query(self, query_id: str) -> Query:
        return Query(
            self.questions.queries[query_id],
            query_id=query_id,
            metadata=self.questions.metadata.get(query_id, {}),
        )

    @property
    def min_score(self) -> float | None:
        """The score below which nothing is returned, where options or a last postprocessor say."""
        cutoffs = [getattr(last, "similarity_cutoff", None) for last in self.postprocessors[-1:]]
        known = [each for each in (*cutoffs, self.options.min_score) if each is not None]
        return max(known, default=None)

    @property
    def computed(self) -> list[BaseRetrievalMetric]:
        return [metric for metric in self.metrics if not isinstance(metric, RankingMetric)]


def token_counter(
    metrics: Sequence[BaseRetrievalMetric], tokenizer: Tokenizer | None = None
) -> TokenCounter | None:
    needed = any("tokens" in getattr(metric, "needs", ()) for metric in metrics)
    if tokenizer is None and not needed:
        return None
    return TokenCounter.of(tokenizer)


def describe(
    plan: Plan, run: Run, retriever: str, matched: Mapping[str, Matched]
) -> dict[str, str]:
    """The head of a report: label to value, in order."""
    from llama_index_rag_metrics import __version__

    dataset, counter = plan.questions, plan.counter
    size = questions(len(dataset.queries))
    if documents := len(dataset.corpus):
        size += f", {counted(documents, 'passage', 'passages')}"
    depth = max((len(ranking.ids) for ranking in run.every_ranking), default=0)
    stages = [type(postprocessor).__qualname__ for postprocessor in plan.postprocessors]
    name = plan.options.name
    if not name:
        name = retriever or "stored rankings"
    elif not stages:
        name = ""  # it is above every number
    return {
        "dataset": f"{dataset.name}: {size}" if dataset.name else size,
        "evaluated": f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
        **({"retriever": " → ".join([name, *stages])} if name else {}),
        **({"run": plan.options.run} if plan.options.run else {}),
        "retrieved": f"up to {counted(depth, 'passage', 'passages')} a question"
        + ("" if (least := plan.options.min_score) is None else f", of a score from {least:g} on"),
        "metrics": ", ".join(metric.metric_name for metric in plan.metrics),
        "matched by": ", ".join(map(_recognised, matched.values())) or BY_ID,
        **({} if counter is None else {"tokens by": counter.name}),
        **({"repeats": f"{len(run.repeats)} runs of each question"} if run.repeats else {}),
        "workers": str(plan.options.workers),
        "versions": f"llama-index-rag-metrics {__version__}, "
        f"llama-index-core {version('llama-index-core')}",
    }


def _recognised(matched: Matched) -> str:
    """The matcher, and how many of the distinct texts or places it recognised anywhere."""
    passages = matched.passages
    labelled = {passage for known in passages.values() for passage in known.values()}
    found = {
        passages[query_id][name]
        for query_id, by_item in matched.stands_for.items()
        for name in chain.from_iterable(by_item)
        if name in passages.get(query_id, ())
    }
    n = counted(len(labelled), "labelled passage", "labelled passages")
    return f"{matched.matcher}: {len(found):,} of {n} came" if labelled else matched.matcher


async def run_evaluation(
    asker: Asker,
    plan: Plan,
    *,
    info: SourceInfo = SourceInfo(),  # noqa: B008 - it can't be changed
    stored: Sequence[Mapping[str, Ranking]] = (),
) -> EvaluationResults:
    """Ask every query but those `stored`, of each time, and score what comes back."""
    options = plan.options
    check_matchable(plan.questions, options.matcher)
    compares_ids = options.matcher is None and any(
        getattr(metric, "recognises", True)
        for metric in plan.metrics
        if not isinstance(metric, TextMetric)
    )
    path = options.journal
    kept = nullcontext() if path is None else Journal(path, journal_header(plan, info))
    with kept as journal:
        runner = QueryRunner(
            asker,
            plan,
            metrics=[metric.metric_name for metric in plan.computed],
            by_id=not stored and compares_ids,
            stored=stored,
            journal=journal,
            told=info.told,
        )
        collected = await runner.collect()
    first = collected[0]
    histories = (row.get(HISTORY) for row in plan.questions.metadata.values())
    # answers of a journal tell nothing
    if path is not None and info.told is None and any(histories):
        first.notes = tuple(dict.fromkeys([*first.notes, UNTOLD]))
    if not stored:
        warn_of(collected)
    results = build_results(plan, collected)
    if compares_ids and not first.is_invalid:
        fit = fit_of_ids(plan.questions, first.run, info.indexed)
        results.scores = with_label_notes(results.scores, fit)
    for matched in results.matched.values():
        results.scores = with_label_notes(results.scores, [fit_of_texts(matched, first.run)])
    graders = graders_of_metrics(plan.computed)
    results.scores = with_graders(results.scores, graders)
    results.about = describe(plan, results.run, info.name, results.matched)
    results.scores = with_answers(system_of(results))
    return results


def with_label_notes(scores: Scores, notes: Iterable[str]) -> Scores:
    """Return scores with further notes on labels that don't fit, before all others."""
    further = [note for note in notes if note]
    return scores.replace(
        notes=[*further, *scores.notes], label_notes=[*further, *scores.label_notes]
    )


def journal_header(plan: Plan, info: SourceInfo) -> dict[str, str]:
    """What a journal's first line says of a run: what can be known exactly, without any code."""
    options, match_on = plan.options, plan.options.match_on
    header = {
        "run": mask(options.run),
        "depth": "" if info.depth is None else str(info.depth),
        "match_on": match_on if isinstance(match_on, str) else _name_of(match_on),
        "postprocessors": ", ".join(type(each).__qualname__ for each in plan.postprocessors),
        "tokenizer": "" if plan.counter is None else plan.counter.name,
    }
    return {aspect: value for aspect, value in header.items() if value}


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def warn_of(collected: Sequence[Collected]) -> None:
    if (note := collected[0].label_note) is not None:
        warn_caller(LabelWarning(note))
    warnings = [every_query_failed(each.run) for each in collected]
    if warnings[0] is not None and all(warnings):
        warn_caller(warnings[0])


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

    metrics: Annotated[list[SerializeAsAny[BaseRetrievalMetric]], BeforeValidator(resolve)] = Field(
        ..., description="metrics"
    )
    match_on: Any = Field("node_id", description="which id of a node is compared with the labels")
    matcher: Annotated[Any, AfterValidator(as_matcher)] = Field(
        None, description="how labelled passages are recognised, if not by id"
    )
    _source: Any = PrivateAttr(None)

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self._source = fields["retriever"]

    @field_validator("retriever", mode="before")
    @classmethod
    def _as_retriever(cls, source: Source, info: ValidationInfo) -> BaseRetriever:
        return as_retriever(source, retrieval_depth(info.data.get("metrics", ())))

    @field_validator("match_on")
    @classmethod
    def _known_match_on(cls, match_on: MatchOn) -> MatchOn:
        if isinstance(match_on, str) or callable(match_on):
            return match_on
        expected = "'node_id', 'ref_doc_id', a key of the nodes' metadata, or a function of a node"
        raise InvalidInput("match_on", match_on, expected)

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
        **kwargs: Any,
    ) -> RetrievalEvalResult:
        """Evaluate one query. An error of the retriever or of a metric is raised.

        Args:
            query: the query.
            expected_ids: ids, {id: grade}, groups of ids, or a `Relevance`.
            expected_texts: the texts of expected_ids, for a matcher; expected_ids may be None or
                empty then.
            mode: what the result says; nodes of every kind count by their ids.
        """
        check_known(self.aevaluate, kwargs)
        relevance = None if expected_ids is None else Relevance.of(expected_ids)
        places = Places({})
        plan = Plan(
            RetrievalDataset({}),
            self.metrics,
            RunOptions(workers=1, match_on=self.match_on, matcher=self.matcher),
            self.node_postprocessors or [],
            token_counter(self.metrics),
            places=places,
        )
        with closing(LocalAsker(self.retriever, plan)) as asker:
            pipeline = asker.pipeline
            retrieved, _ = await pipeline.ask(Query(query))
            ranking = asker.ranking(retrieved)
            expected: Relevance | None = relevance
            judged = ranking
            if self.matcher is not None:
                labels = {} if relevance is None else {"query": relevance}
                texts = {} if expected_texts is None else {"query": expected_texts}
                dataset = RetrievalDataset({"query": query}, labels, expected_texts=texts)
                run = Run({"query": ranking})
                matched = await pipeline.threads.call(match_run, run, dataset, self.matcher)
                expected, judged = matched.relevance.get("query"), matched.run["query"]
                if judged.error is not None:
                    raise InvalidInput("matcher", self.matcher, sentence=judged.error)
            metric_dict = {}
            for metric in self.metrics:
                reads_ids = isinstance(metric, RankingMetric) and not metric.recognises
                question = Question(query, relevance if reads_ids else expected, expected_texts)
                result = await compute(metric, pipeline, question, ranking if reads_ids else judged)
                metric_dict[metric.metric_name] = result
        return RetrievalEvalResult(
            query=query,
            expected_ids=list(relevance or ()),
            expected_texts=expected_texts,
            retrieved_ids=list(ranking.ids),
            retrieved_texts=list(ranking.texts or ()),
            mode=mode,
            metric_dict=metric_dict,
        )

    @shows(EvaluateOptions)
    async def aevaluate_dataset(
        self,
        dataset: Any,
        workers: int = WORKERS,
        show_progress: bool = False,
        **options: Unpack[EvaluateOptions],
    ) -> EvaluationResults:
        """Ask every query of a dataset and score what comes back, as `evaluate` does.

        Args:
            dataset, workers, show_progress: as of `evaluate`.

        The further arguments are those of `EvaluateOptions`. Errors are those of `evaluate`.
        """
        check_known(self.aevaluate_dataset, options)
        run_options = RunOptions.of(
            options,
            workers=workers,
            show_progress=show_progress,
            match_on=self.match_on,
            matcher=self.matcher,
        )
        plan = Plan.of(dataset, self.metrics, run_options, self.node_postprocessors or [])
        metrics = await prepare(plan.computed, plan.questions, run_options.cache)
        asker = asker_of(self.retriever, plan, metrics)
        info = SourceInfo.of(
            self._source, self.retriever, retrieval_depth(self.metrics), self.match_on
        )
        return await run_evaluation(asker, plan, info=info)

    @shows(EvaluateOptions)
    def evaluate_dataset(
        self,
        dataset: Any,
        workers: int = WORKERS,
        show_progress: bool = False,
        **options: Unpack[EvaluateOptions],
    ) -> EvaluationResults:
        """The synchronous twin of `aevaluate_dataset`; works in notebooks, too."""
        return run_sync(self.aevaluate_dataset(dataset, workers, show_progress, **options))


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
        retriever: a retriever, an index, a query engine, or a callable from query text to ids,
            which gets the question's metadata, too, if it has a parameter `metadata`. An
            index is asked for as many nodes as the largest cutoff, and for at least 10 where a
            metric has none.
        dataset: a `RetrievalDataset`, or what `RetrievalDataset.load` takes, such as a path or
            LlamaIndex's removed EmbeddingQAFinetuneDataset.
        metrics: names or metrics.
        node_postprocessors: applied to what is retrieved, in this order.
        match_on: which id of a retrieved node is compared with the labels: "node_id", "ref_doc_id",
            a key of its metadata, or a function of the node. Several chunks of one document count
            once, at the best rank.
        matcher: how labelled passages are recognised, if not by id: a matcher, or the name of one:
            "text", "span", "group". A metric's own `match`
            takes precedence.
        workers: how many queries are asked at once.
        show_progress: whether to show a progress bar.

    The further arguments are those of `EvaluateOptions`, such as `name`, `journal`, `cache`,
    `timeout`, `tokenizer`, `forbidden` and `filters`.

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
    check_known(aevaluate, options)
    chosen = resolve(metrics)
    evaluator = RetrieverEvaluator(
        metrics=chosen,
        retriever=as_retriever(retriever, retrieval_depth(chosen)),
        node_postprocessors=listed_postprocessors(node_postprocessors),
        match_on=match_on,
        matcher=as_matcher(matcher),
    )
    evaluator._source = retriever
    return await evaluator.aevaluate_dataset(dataset, workers, show_progress, **options)


evaluate = synchronous(aevaluate)
