"""Scoring stored rankings: relevance and runs in, Scores out. No retriever is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Any, TypeAlias, cast

import numpy as np

from llama_index_rag_metrics.files.read_runs import read_qrels, read_run
from llama_index_rag_metrics.files.records import Qrels
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.rankings.judging.beside import Tokenizer, ids_of, needs_of
from llama_index_rag_metrics.rankings.judging.lists import id_kinds, judge
from llama_index_rag_metrics.rankings.relevance import RelevanceLike
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.runtime.arrays import collection_paused
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import shorten

from .batches import (
    REASONS,
    Failed,
    Metrics,
    NoRelevant,
    ScoredBatch,
    ScoringOptions,
    compares_ids,
    ranking_metrics,
    score_batch,
)
from .label_fit import NO_STOCK, Asked, Stock, fit_notes
from .notes import Presence, graders_of_labels, label_notes, order_notes, other_notes
from .retrieval import Retrieval
from .scores import Reason, Scores

_NOT_ASKED = "{missing:,} of {labelled:,} labelled questions weren't asked, and aren't scored"
Expected: TypeAlias = "Mapping[str, RelevanceLike | None] | Sequence[RelevanceLike | None]"
Retrieved: TypeAlias = "Mapping[str, Ranking | Sequence[str]] | Sequence[Ranking | Sequence[str]]"


def score_rankings(
    expected: Expected | RetrievalDataset,
    retrieved: Retrieved,
    metrics: Metrics,
    *,
    no_relevant: NoRelevant = "exclude",
    failed: Failed = "zero",
    queries: Mapping[str, str] | None = None,
    metadata: Mapping[str, Mapping[str, Any]] | None = None,
    name: str = "",
    tokenizer: Tokenizer | None = None,
) -> Scores:
    """Score stored rankings.

    Args:
        expected: what is relevant: a sequence, or a mapping from query id, of ids, {id: grade},
            groups or `Relevance`; None where a query is unjudged. Or a dataset, whose questions and
            metadata the scores then have, and whose corpus shows labels that don't fit.
        retrieved: the rankings, in the same shape: ranked ids, best first, or a `Run`. A judged
            query without a ranking counts as an empty one; a ranking without relevance as unjudged.
            Both may be ranx's, `Qrels` and `Run`. Of a `Run` with repeats, a query's score is the
            mean of its runs; see `Scores.of_repeats`. By the rankings of a `Run`, which don't
            change, the gate detects an unchanged system; other mappings aren't kept.
        metrics: names, or metrics.
        no_relevant: what to do with a query that has judgements but nothing relevant: leave it out
            of the means and count it, score it 0, or raise.
        failed: whether a query on which the retriever failed scores 0 or is left out.
        queries: query id to its text, for reports; by default those of the run.
        metadata: query id to its metadata, for slices and conversations; by default those of the
            run, or the conversations that `read_qrels` found beside the labels.
        name: what to call the scored system in reports.
        tokenizer: counts the tokens of rankings that have texts but no token counts, for cutoffs by
            tokens; LlamaIndex's `get_tokenizer()` unless given.

    Raises:
        InvalidInput: an argument can't be used.
        UnknownMetric: a name isn't known.

    Examples:
        >>> expected, retrieved = [["a"], ["b", "c"]], [["a", "x"], ["x", "b"]]
        >>> dict(score_rankings(expected, retrieved, ["mrr", "recall"]).means)
        {'mrr': 0.75, 'recall': 0.75}
        >>> score_rankings({"q1": {"a": 2, "b": 1}}, {"q1": ["b", "a"]}, "ndcg@10")["ndcg@10"]
        array([0.8597187])
    """
    resolved = ranking_metrics(metrics)
    options = ScoringOptions(no_relevant, failed, tokenizer)
    stock = NO_STOCK
    if isinstance(expected, RetrievalDataset):
        stock = Stock(ids=expected.corpus.keys(), texts=expected.corpus)
        queries = queries or expected.queries
        metadata = metadata or expected.metadata
        expected = {query_id: expected.relevance.get(query_id) for query_id in expected.queries}
    run = retrieved if isinstance(retrieved, Run) else Run()
    if isinstance(expected, Qrels):
        metadata = metadata or run.metadata or expected.metadata or None
    if _is_of_ranx(expected):
        expected = read_qrels(expected)
    if _is_of_ranx(retrieved):
        retrieved = read_run(retrieved)
    score = partial(
        score_with, resolved, queries=queries, metadata=metadata, name=name, stock=stock
    )
    labels = expected
    if run.is_log and isinstance(expected, Mapping) and expected.keys() & run.keys():
        labels = {query_id: expected[query_id] for query_id in expected if query_id in run}
    if isinstance(retrieved, Run) and retrieved.repeats and isinstance(labels, Mapping):
        parts = _each_run(labels, retrieved, options)
        of_each = [score(*part) for part in parts]
        scores = Scores.of_repeats(of_each, [metric.metric_name for metric in resolved])
        scores = scores.replace(name=name or retrieved.name)
    else:
        scores = score(labels, retrieved, options)
    if labels is not expected and isinstance(expected, Mapping):
        scores = _with_not_asked(scores, expected)
    return scores.replace(min_score=run.min_score)


def _each_run(
    expected: Mapping[str, Any], run: Run, options: ScoringOptions
) -> Iterator[tuple[Mapping[str, Any], Run, ScoringOptions]]:
    """The labels, run and options of each time that questions were asked."""
    # a query that was asked less often than others isn't one that nothing was retrieved for
    never = expected.keys() - run.keys()
    for number, run_of_time in enumerate(run.repeats):
        ids_of_run = {*run_of_time, *never}
        labels = {
            query_id: judged for query_id, judged in expected.items() if query_id in ids_of_run
        }
        # few questions may be left of the last runs
        yield labels, run_of_time, replace(options, checks_ids=not number)


def _with_not_asked(scores: Scores, expected: Mapping[str, RelevanceLike | None]) -> Scores:
    """The scores of a log: labelled questions that nobody asked are counted, and not scored."""
    scored = {*scores.query_ids, *scores.excluded}
    labelled = [query_id for query_id, labels in expected.items() if labels is not None]
    excluded: dict[str, Reason] = dict(scores.excluded)
    for query_id in labelled:
        if query_id not in scored:
            excluded[query_id] = "not asked"
    n_missing = len(excluded) - len(scores.excluded)
    if not n_missing:
        return scores
    note = _NOT_ASKED.format(missing=n_missing, labelled=len(labelled))
    return scores.replace(excluded=excluded, notes=[note, *scores.notes])


@collection_paused()
def score_with(
    metrics: Sequence[RankingMetric],
    expected: Expected,
    retrieved: Retrieved,
    options: ScoringOptions,
    *,
    queries: Mapping[str, str] | None = None,
    metadata: Mapping[str, Mapping[str, Any]] | None = None,
    name: str = "",
    deepest: int | None = None,
    stock: Stock = NO_STOCK,
) -> Scores:
    """`score_rankings` with metrics that are ready; `deepest` where rankings don't say."""
    query_ids, relevance, rankings = align(expected, retrieved)
    errors = [getattr(ranking, "error", None) for ranking in rankings]

    def asked_at(row: int) -> Asked:
        texts = getattr(rankings[row], "texts", None)
        return Asked(query_ids[row], relevance[row], ids_of(rankings[row]), texts)

    needs, tokenizer = needs_of(metrics), options.tokenizer
    judged = judge(relevance, rankings, needs, tokenizer=tokenizer, query_ids=query_ids)
    presence = _presence(query_ids, relevance, errors, expected, retrieved)
    scored = score_batch(judged, metrics, options, presence, asked_at)
    run = retrieved if isinstance(retrieved, Run) else Run()
    labels = dict(zip(query_ids, relevance, strict=True))
    scores = _collected(query_ids, errors, scored).replace(
        queries=run.queries if queries is None else queries,
        metadata=run.metadata if metadata is None else metadata,
        name=name or run.name,
        retrieval=Retrieval(run, labels, text_of=stock.texts.get),
    )
    of_labels, of_order = list[str](), list[str]()
    if options.checks_ids and any(metric.needs_relevance for metric in metrics):
        by_id, facts = compares_ids(metrics), scored.facts
        fit = fit_notes(asked_at, len(query_ids), stock, facts.missed) if by_id else []
        of_labels = label_notes(facts, asked_at, fit, by_id=by_id)
        of_order = order_notes(rankings)
    of_labels = [*graders_of_labels(relevance), *of_labels]
    notes = [*of_labels, *run.notes]
    if not all(scores.n(metric) for metric in scores):
        notes += scores.counts.notes
    notes += of_order
    notes += other_notes(scored.facts, judged, metrics, deepest)
    notes += [f"{metric} has no value: {error}" for metric, error in scored.errors.items()]
    return scores.replace(notes=notes, label_notes=of_labels)


def _presence(
    query_ids: Sequence[str],
    relevance: Sequence[RelevanceLike | None],
    errors: Sequence[str | None],
    expected: Expected,
    retrieved: Retrieved,
) -> Presence:
    """Where queries are; both sides of sequences have all of them."""
    is_listed = is_ranked = np.ones(len(query_ids), np.bool_)
    if isinstance(expected, Mapping) and isinstance(retrieved, Mapping):
        is_listed = np.array([query_id in expected for query_id in query_ids], np.bool_)
        is_ranked = np.array([query_id in retrieved for query_id in query_ids], np.bool_)
    return Presence(
        np.array([judgements is not None for judgements in relevance], np.bool_),
        is_listed,
        is_ranked,
        np.array([error is not None for error in errors], np.bool_),
    )


def _collected(
    query_ids: Sequence[str], errors: Sequence[str | None], scored: ScoredBatch
) -> Scores:
    """The scores of a batch, without what is known of its questions."""
    usual = [name for name in scored.columns if name not in scored.own]
    excluded: dict[str, Reason] = {}
    for row in np.flatnonzero(scored.reason).tolist():
        excluded[query_ids[row]] = cast(Reason, REASONS[scored.reason[row]])
    failed = np.flatnonzero(scored.is_failed).tolist()
    scores = Scores(
        list(compress(query_ids, scored.is_scored)),
        {name: scored.columns[name][scored.is_scored] for name in usual},
        excluded=excluded,
        failed={query_ids[row]: str(errors[row]) for row in failed},
        empty=list(compress(query_ids, scored.is_empty)),
        no_relevant=list(compress(query_ids, scored.has_no_relevant)),
    )
    if not scored.own:
        return scores
    columns = {}
    for metric, has_value in scored.own.items():
        values = zip(query_ids, scored.columns[metric].tolist(), strict=True)
        columns[metric] = dict(compress(values, has_value))
    return scores.join(columns, order=list(scored.columns))


def align(
    expected: Expected, retrieved: Retrieved
) -> tuple[list[str], list[RelevanceLike | None], list[Ranking | Sequence[str]]]:
    """Query ids, relevance and rankings in the same order."""
    if isinstance(expected, Mapping) and isinstance(retrieved, Mapping):
        _check_query_ids(expected, retrieved)
        query_ids = list(dict.fromkeys([*expected, *retrieved]))
        relevance = [expected.get(query_id) for query_id in query_ids]
        return query_ids, relevance, [retrieved.get(query_id, ()) for query_id in query_ids]
    if isinstance(expected, Mapping) or isinstance(retrieved, Mapping):
        expectation = f"the same shape as expected, which is a {type(expected).__name__}"
        remedy = "Give both as mappings from query id, or both as sequences in the same order."
        raise InvalidInput("retrieved", type(retrieved).__name__, expectation, remedy)
    relevance, rankings = list(expected), list(retrieved)
    if len(relevance) != len(rankings):
        has_texts = any(isinstance(item, str) for item in (*relevance, *rankings))
        remedy = "Even for one question, give lists of lists: [[id, …]]." if has_texts else ""
        expectation = f"as many rankings as expected has, {len(relevance)}"
        raise InvalidInput("retrieved", len(rankings), expectation, remedy)
    _check_labels(expected, retrieved)
    return list(map(str, range(len(relevance)))), relevance, rankings


def _is_of_ranx(side: object) -> bool:
    """Whether this is ranx's Qrels or Run, which are no mappings and can't be iterated over."""
    return type(side).__module__.partition(".")[0] == "ranx" and hasattr(side, "to_dict")


def _check_labels(expected: object, retrieved: object) -> None:
    """Refuse columns of pandas that have labels in common, but at other places."""
    ours: Any = getattr(expected, "index", None)
    theirs: Any = getattr(retrieved, "index", None)
    are_labelled = hasattr(ours, "equals") and hasattr(theirs, "equals")
    if are_labelled and not ours.equals(theirs) and ours.isin(theirs).any():
        remedy = (
            "Give mappings, paired by query id: expected.to_dict(), retrieved.to_dict(); or, where "
            "both have the same order, lists: expected.tolist(), retrieved.tolist()."
        )
        expectation = f"rows labelled like those of expected, {shorten(ours.tolist())}"
        raise InvalidInput("retrieved", theirs.tolist(), expectation, remedy)


def _check_query_ids(expected: Mapping[str, object], retrieved: Mapping[str, object]) -> None:
    """Refuse ids that only the types part: 1 is never "1"."""
    if id_kinds(expected) == id_kinds(retrieved):
        return
    lonely = (expected.keys() - retrieved.keys(), retrieved.keys() - expected.keys())
    if all(lonely) and not id_kinds(lonely[0]) & id_kinds(lonely[1]):
        names = ({type(query_id).__name__ for query_id in side} for side in lonely)
        theirs, ours = (" or ".join(sorted(of_side)) for of_side in names)
        expectation = f"query ids of the same type as those of expected, which are {theirs}"
        raise InvalidInput("retrieved", ours, expectation, "Convert one side, e.g. with str().")
