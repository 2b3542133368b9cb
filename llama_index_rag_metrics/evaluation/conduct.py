"""An evaluation from its questions to its results, wherever the questions are asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from numbers import Real
from pathlib import Path
from typing import Any

from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
from llama_index.core.postprocessor.types import BaseNodePostprocessor

from llama_index_rag_metrics.cache import Cache
from llama_index_rag_metrics.callers import warn_caller
from llama_index_rag_metrics.dataset import RetrievalDataset
from llama_index_rag_metrics.errors import InvalidInput, LabelWarning
from llama_index_rag_metrics.evaluation.about import describe
from llama_index_rag_metrics.evaluation.asking import Asker
from llama_index_rag_metrics.evaluation.by_matcher import group_by_matcher
from llama_index_rag_metrics.evaluation.collection import Collected, Collector
from llama_index_rag_metrics.evaluation.identity import RetrieverIdentity, fingerprint
from llama_index_rag_metrics.evaluation.journal import Journal
from llama_index_rag_metrics.evaluation.matching import Matching
from llama_index_rag_metrics.evaluation.permissions import Permissions
from llama_index_rag_metrics.evaluation.report import system_of
from llama_index_rag_metrics.evaluation.results import (
    EvaluationResults,
    build_results,
    check_mode,
    every_query_failed,
)
from llama_index_rag_metrics.formats.lines import OnError
from llama_index_rag_metrics.matching import BY_ID, Matcher, MatchOn
from llama_index_rag_metrics.metrics import RankingMetric
from llama_index_rag_metrics.run import Ranking
from llama_index_rag_metrics.scores.answers import keep_answers
from llama_index_rag_metrics.scoring import Failed, NoRelevant, check_options
from llama_index_rag_metrics.sync import in_thread
from llama_index_rag_metrics.text_metrics import TextMetric
from llama_index_rag_metrics.tokens import TokenCounter, Tokenizer


def open_dataset(
    dataset: Any, no_relevant: NoRelevant, failed: Failed, on_error: OnError = "raise"
) -> RetrievalDataset:
    """The questions of an evaluation, checked before any of them is asked.

    Raises:
        InvalidInput: it is no dataset, or can't be scored by these options.
    """
    questions = RetrievalDataset.of(dataset, on_error=on_error)
    check_options(no_relevant, failed, questions.relevance)
    check_mode(questions.mode)
    return questions


def check_count(argument: str, value: object, what: str) -> None:
    """Whether an argument is a whole number above 0.

    Raises:
        InvalidInput: it isn't.
    """
    if type(value) is not int or value < 1:
        raise InvalidInput(argument, value, f"a number of {what}, from 1 on")


def n_alone(latency: str, sample: int | None, n_queries: int) -> int:
    """How many queries are asked one at a time."""
    if latency not in ("load", "alone"):
        raise InvalidInput("latency", latency, "'load' or 'alone'")
    if sample is not None:
        check_count("latency_sample", sample, "queries to ask alone")
        if latency == "load":
            raise InvalidInput("latency_sample", sample, "None", "It goes with latency='alone'.")
    return 0 if latency == "load" else sample or n_queries


def query_by_query(metrics: Sequence[BaseRetrievalMetric]) -> list[BaseRetrievalMetric]:
    """The metrics that are computed on each query at once, with its texts."""
    return [one for one in metrics if not isinstance(one, RankingMetric)]


def token_counter(
    metrics: Sequence[BaseRetrievalMetric],
    tokenizer: Tokenizer | None,
    price_per_million: float | None = None,
) -> TokenCounter | None:
    """What counts the tokens of what is retrieved: None where neither metric nor caller asks.

    Raises:
        InvalidInput: the price isn't one, or this is no tokenizer.
    """
    if price_per_million is not None and not (
        isinstance(price_per_million, Real) and 0 <= price_per_million < math.inf
    ):
        raise InvalidInput("price_per_million", price_per_million, "a price from 0 on")
    needs = ("needs_tokens", "needs_documents")
    needed = any(getattr(one, need, False) for one in metrics for need in needs)
    if tokenizer is None and price_per_million is None and not needed:
        return None
    return TokenCounter.of(tokenizer)


async def prepare_matchers(
    metrics: Sequence[BaseRetrievalMetric], matcher: Matcher[Any] | None, cache: Cache
) -> list[Matcher[Any]]:
    """The matchers that the metrics want, ready for one run.

    Raises:
        MissingExtra: a package that one of them needs isn't installed.
    """
    groups = group_by_matcher(metrics, matcher).values()
    return [await in_thread(one.prepare, cache) for one, _ in groups if one is not None]


async def conduct(
    asker: Asker,
    dataset: RetrievalDataset,
    metrics: Sequence[BaseRetrievalMetric],
    *,
    match_on: MatchOn,
    matcher: Matcher[Any] | None,
    cache: Cache,
    workers: int,
    name: str,
    show_progress: bool,
    journal: str | Path | None,
    retriever_id: str | RetrieverIdentity,
    postprocessors: Sequence[BaseNodePostprocessor],
    no_relevant: NoRelevant,
    failed: Failed,
    raise_on_error: bool,
    ignore_identical_ids: bool = False,
    timeout: float | None = None,
    max_failures: float | None = None,
    alone: int = 0,
    stored: Mapping[str, Ranking] | None = None,
    counter: TokenCounter | None = None,
    permissions: Permissions | None = None,
    price_per_million: float | None = None,
) -> EvaluationResults:
    """Ask every query and score what comes back; the arguments are those of the evaluator.

    Args:
        asker: where queries are asked; closed at the end.
        retriever_id: says which retriever is asked, for the journal.
        cache: keeps what matchers pay for.
        postprocessors: those that the asker applies, for the journal.
        stored: rankings that are known: their queries aren't asked, and nobody is warned of them.
        counter: what the asker counts tokens by; None where it doesn't.
        permissions: what is forbidden to who asks; None where no metric wants to know.
        price_per_million: of tokens that a model reads; None where no price is wanted.
    """
    matchers = await prepare_matchers(metrics, matcher, cache)
    _, by_id = group_by_matcher(metrics, matcher).get(BY_ID, (None, []))
    others = query_by_query(metrics)
    compares_ids = any(one.recognises for one in by_id) or not all(
        isinstance(one, TextMetric) for one in others
    )
    with ExitStack() as stack:
        opened = None
        if journal is not None:
            aspects = fingerprint(
                dataset, match_on, postprocessors, retriever_id, counter, permissions
            )
            opened = stack.enter_context(Journal(journal, aspects))
        collector = Collector(
            asker,
            dataset,
            match_on=match_on,
            metrics=[one.metric_name for one in others],
            by_id=stored is None and compares_ids,
            stored=stored,
            matchings=[Matching(one, dataset) for one in matchers],
            journal=opened,
            raise_on_error=raise_on_error,
            ignore_identical_ids=ignore_identical_ids,
            timeout=timeout,
            max_failures=max_failures,
            counter=counter,
            permissions=permissions,
        )
        collected = await collector.collect(
            workers=workers, name=name, show_progress=show_progress, alone=alone
        )
    if stored is None:
        warn_of(collected)
    results = build_results(
        dataset,
        collected,
        metrics,
        no_relevant=no_relevant,
        failed=failed,
        matcher=matcher,
        counter=counter,
        forbidden=None if permissions is None else permissions.by_query,
    )
    results.price_per_million = price_per_million
    results.about = describe(
        dataset,
        collected.run,
        metrics,
        matcher,
        retriever=str(retriever_id),
        postprocessors=postprocessors,
        workers=workers,
        tokenizer=None if counter is None else counter.name,
    )
    results.scores = results.scores.replace(answers=keep_answers(system_of(results)))
    return results


def warn_of(collected: Collected) -> None:
    """Warn of labels that speak of nothing retrieved, and of a retriever that always failed."""
    if collected.label_note is not None:
        warn_caller(LabelWarning(collected.label_note))
    if (warning := every_query_failed(collected.run)) is not None:
        warn_caller(warning)
