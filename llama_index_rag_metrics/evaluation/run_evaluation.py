"""An evaluation from its questions to its results, wherever the questions are asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from importlib.metadata import version
from itertools import chain
from typing import Any

from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.vector_stores.types import MetadataFilters

from llama_index_rag_metrics.evaluation.asking.query import UNTOLD, Asker
from llama_index_rag_metrics.evaluation.asking.query_runner import Collected, QueryRunner
from llama_index_rag_metrics.evaluation.asking.run_journal import Journal
from llama_index_rag_metrics.evaluation.asking.run_options import RunOptions
from llama_index_rag_metrics.evaluation.identity import (
    RetrieverIdentity,
    fingerprint,
    for_people,
    identify_callable,
)
from llama_index_rag_metrics.evaluation.permissions import Permissions, permissions_for
from llama_index_rag_metrics.evaluation.results.evaluation_results import (
    EvaluationResults,
    build_results,
    every_query_failed,
)
from llama_index_rag_metrics.evaluation.results.results_report import system_of
from llama_index_rag_metrics.evaluation.retrieved.nodes import check_mode
from llama_index_rag_metrics.evaluation.retrieved.places import Places, places_for
from llama_index_rag_metrics.evaluation.retrieved.run_matching import group_by_matcher
from llama_index_rag_metrics.evaluation.sessions.session_asker import check_calls
from llama_index_rag_metrics.evaluation.who_asks import Query, filters_by_question
from llama_index_rag_metrics.files.conversations import HISTORY
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.metrics.base import RankingMetric, check_passes, of_one_run
from llama_index_rag_metrics.metrics.texts import TextMetric
from llama_index_rag_metrics.rankings.matching.matcher import Matcher
from llama_index_rag_metrics.rankings.matching.matcher_names import BY_ID, Matched
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.rankings.tokens import TokenCounter, Tokenizer
from llama_index_rag_metrics.report.numbers import counted, questions
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import LabelWarning
from llama_index_rag_metrics.runtime.sync import in_thread
from llama_index_rag_metrics.scores.keeping_answers import with_answers


@dataclass(frozen=True)
class Plan:
    """All that is known before anything is asked; what no metric needs to know of items is None.

    `wanted` are the metrics that were asked for, `metrics` those of one run that they need.
    """

    questions: RetrievalDataset
    wanted: Sequence[BaseRetrievalMetric]
    options: RunOptions
    postprocessors: Sequence[BaseNodePostprocessor] = ()
    counter: TokenCounter | None = None
    permissions: Permissions | None = None
    places: Places | None = None
    filters: Mapping[str, MetadataFilters | None] | None = None

    @classmethod
    def of(
        cls,
        dataset: Any,
        metrics: Sequence[BaseRetrievalMetric],
        options: RunOptions,
        postprocessors: Sequence[BaseNodePostprocessor] = (),
    ) -> Plan:
        check_passes(metrics, options.repeats)
        check_calls(metrics, options)
        questions = RetrievalDataset.of(dataset, on_error=options.on_error)
        options.scoring.check(questions.relevance)
        check_mode(questions.mode)
        return cls(
            questions,
            metrics,
            options,
            postprocessors,
            token_counter(metrics, options.tokenizer, options.price_per_million),
            permissions_for(
                metrics, questions, options.forbidden, options.match_on, options.matcher
            ),
            places_for(metrics, questions, options.matcher),
            None if options.filters is None else filters_by_question(questions, options.filters),
        )

    def query(self, query_id: str) -> Query:
        return Query(
            self.questions.queries[query_id],
            query_id=query_id,
            metadata=self.questions.metadata.get(query_id, {}),
            filters=None if self.filters is None else self.filters[query_id],
        )

    @property
    def min_score(self) -> float | None:
        """The score below which nothing is returned, where options or a last postprocessor say."""
        cutoffs = [getattr(last, "similarity_cutoff", None) for last in self.postprocessors[-1:]]
        known = [each for each in (*cutoffs, self.options.min_score) if each is not None]
        return max(known, default=None)

    @cached_property
    def metrics(self) -> list[BaseRetrievalMetric]:
        return of_one_run(self.wanted)

    @property
    def computed(self) -> list[BaseRetrievalMetric]:
        return [metric for metric in self.metrics if not isinstance(metric, RankingMetric)]


def token_counter(
    metrics: Sequence[BaseRetrievalMetric],
    tokenizer: Tokenizer | None = None,
    price_per_million: float | None = None,
) -> TokenCounter | None:
    needed = any({"tokens", "documents"} & getattr(metric, "needs", set()) for metric in metrics)
    if tokenizer is None and price_per_million is None and not needed:
        return None
    return TokenCounter.of(tokenizer)


def describe(
    plan: Plan, run: Run, retriever: str, matched: Mapping[str, Matched]
) -> dict[str, str]:
    """The head of a report: label to value, in order."""
    from llama_index_rag_metrics import __version__

    dataset, metrics, counter = plan.questions, plan.metrics, plan.counter
    filters = plan.options.filters
    filters = identify_callable(filters) if callable(filters) else filters
    size = questions(len(dataset.queries))
    if documents := len(dataset.corpus):
        size += f", {counted(documents, 'passage', 'passages')}"
    depth = max((len(ranking.ids) for ranking in run.every_ranking), default=0)
    recognising = [metric for metric in metrics if getattr(metric, "recognises", True)]
    stages = [type(postprocessor).__qualname__ for postprocessor in plan.postprocessors]
    name = plan.options.name
    if plan.options.retriever_id or not name:
        name = for_people(retriever) or "stored rankings"
    elif not stages:
        name = ""  # it is above every number
    return {
        "dataset": f"{dataset.name}: {size}" if dataset.name else size,
        "evaluated": f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
        **({"retriever": " → ".join([name, *stages])} if name else {}),
        "retrieved": f"up to {counted(depth, 'passage', 'passages')} a question"
        + ("" if (least := plan.options.min_score) is None else f", of a score from {least:g} on"),
        **({"filtered by": for_people(filters)} if filters else {}),
        "metrics": ", ".join(metric.metric_name for metric in plan.wanted),
        "matched by": ", ".join(
            _recognised(matched[matcher]) if matcher in matched else matcher
            for matcher in group_by_matcher(recognising, plan.options.matcher)
        ),
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


async def prepare_matchers(plan: Plan) -> list[Matcher[Any]]:
    groups = group_by_matcher(plan.metrics, plan.options.matcher).values()
    cache = plan.options.cache
    return [await in_thread(matcher.prepare, cache) for matcher, _ in groups if matcher is not None]


async def run_evaluation(
    asker: Asker,
    plan: Plan,
    *,
    retriever_id: str | RetrieverIdentity = "",
    stored: Sequence[Mapping[str, Ranking]] = (),
) -> EvaluationResults:
    """Ask every query and score what comes back; the asker is closed at the end.

    Queries with rankings `stored`, of each time, aren't asked, and nobody is warned of them.
    """
    options = plan.options
    matchers = await prepare_matchers(plan)
    _, by_id = group_by_matcher(plan.metrics, options.matcher).get(BY_ID, (None, []))
    compares_ids = any(metric.recognises for metric in by_id) or not all(
        isinstance(metric, TextMetric) for metric in plan.computed
    )
    path = options.journal
    kept = nullcontext() if path is None else Journal(path, fingerprint(plan, retriever_id))
    with kept as journal:
        runner = QueryRunner(
            asker,
            plan,
            metrics=[metric.metric_name for metric in plan.computed],
            by_id=not stored and compares_ids,
            stored=stored,
            matchers=matchers,
            journal=journal,
        )
        collected = await runner.collect()
    first, is_told = collected[0], getattr(retriever_id, "told", None) is not None
    histories = (row.get(HISTORY) for row in plan.questions.metadata.values())
    if path is not None and not is_told and any(histories):  # answers of a journal tell nothing
        first.notes = tuple(dict.fromkeys([*first.notes, UNTOLD]))
    if not stored:
        warn_of(collected)
    results = build_results(plan, collected)
    results.about = describe(plan, results.run, str(retriever_id), results.matched)
    results.scores = with_answers(system_of(results))
    return results


def warn_of(collected: Sequence[Collected]) -> None:
    if (note := collected[0].label_note) is not None:
        warn_caller(LabelWarning(note))
    warnings = [every_query_failed(each.run) for each in collected]
    if warnings[0] is not None and all(warnings):
        warn_caller(warnings[0])
