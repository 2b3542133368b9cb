"""Scoring stored rankings, of one run or of several of each question: relevance in, Scores out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, compress, filterfalse
from typing import Any, TypeAlias, cast

import numpy as np

from llama_index_rag_metrics.files.read_runs import read_qrels, read_run
from llama_index_rag_metrics.files.records import Qrels
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset, texts_of_passages
from llama_index_rag_metrics.files.sources import is_frame
from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.rankings.judging.beside import Tokenizer, ids_of, needs_of, with_tokens
from llama_index_rag_metrics.rankings.judging.lists import id_kinds, judge
from llama_index_rag_metrics.rankings.relevance import RelevanceLike, as_relevance
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.report.numbers import questions
from llama_index_rag_metrics.runtime.containers import collection_paused, picked, present
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.statistics.intervals import exact_mean

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
from .counts import Reason
from .label_fit import NO_STOCK, Asked, Stock
from .notes import chunk_notes, grader_notes, label_notes, order_notes, other_notes, questions_apart
from .retrieval import Retrieval
from .scores import Scores

MATCH_TEXTS = (
    "Match by text: matched = match_run(run, dataset, 'text'), then "
    "score_rankings(matched.relevance, matched.run, metrics)."
)
_FAILED = "{n:,} of {answers:,} answers failed, of {questions}"
_FEWER = (
    "fewer than {runs} runs: {n:,} of {questions}, with the mean of those: a run that isn't there "
    "doesn't count as 0"
)
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
    name: str = "",
    tokenizer: Tokenizer | None = None,
) -> Scores:
    """Score stored rankings.

    Args:
        expected: what is relevant: a sequence, or a mapping from query id, of ids, {id: grade},
            groups or `Relevance`; None where a query is unjudged. Or a dataset: the scores then
            have its questions and metadata, too, and its corpus shows labels that don't fit.
        retrieved: the rankings, in the same shape: ranked ids, best first, or a `Run`. A judged
            query without a ranking counts as an empty one; a ranking without relevance as unjudged.
            Of a `Run` with repeats, a query's score is the mean of its runs. Both may be ranx's.
        metrics: names, or metrics.
        no_relevant: what to do with a query that has judgements but nothing relevant: leave it out
            of the means and count it, score it 0, or raise.
        failed: whether a query on which the retriever failed scores 0 or is left out.
        name: what to call the scored system in reports.
        tokenizer: counts the tokens of texts, for cutoffs by tokens; LlamaIndex's unless given.

    Raises:
        InvalidInput: an argument can't be used.
        UnknownMetric: a name isn't known.

    Examples:
        >>> expected, retrieved = [["a"], ["b", "c"]], [["a", "x"], ["x", "b"]]
        >>> dict(score_rankings(expected, retrieved, ["mrr", "recall"]).means)
        {'mrr': 0.75, 'recall': 0.75}
    """
    options = ScoringOptions(no_relevant, failed, tokenizer)
    scored_metrics = ranking_metrics(metrics)
    about: dict[str, Any] = {}
    if isinstance(expected, RetrievalDataset):
        if expected.expected_texts and not expected.relevance and compares_ids(scored_metrics):
            raise InvalidInput("expected", "expected_texts alone", "labels by id", MATCH_TEXTS)
        stock = Stock(ids=expected.corpus, texts=texts_of_passages(expected))
        about = {"queries": expected.queries, "metadata": dict(expected.metadata), "stock": stock}
        expected = {**dict.fromkeys(expected.queries), **expected.relevance}
    expected, retrieved = _read(expected, read_qrels), _read(retrieved, read_run)
    run = retrieved if isinstance(retrieved, Run) else Run()
    if run and "tokens" in needs_of(scored_metrics):
        retrieved = run = with_tokens(run, tokenizer)
    if isinstance(expected, Qrels):
        about["metadata"] = run.metadata or expected.metadata
    elif about:  # of a dataset, whose fields go before those of the run
        for query_id, row in run.metadata.items():
            about["metadata"][query_id] = {**row, **about["metadata"].get(query_id, {})}
    score: Callable[..., Scores] = partial(score_with, scored_metrics, **about)
    if isinstance(expected, Mapping) and (run or run.is_log):
        scores = _score_run(score, expected, run, options)
    else:
        scores = score(expected, retrieved, options)
    return scores.replace(name=name or run.name)


def _score_run(
    score: Callable[..., Scores], labels: Mapping[str, Any], run: Run, options: ScoringOptions
) -> Scores:
    asked_labels, not_asked = dict(labels), list[str]()
    if run.is_log and not (run and labels.keys().isdisjoint(run)):
        asked_labels = picked(labels, filter(run.__contains__, labels))
        not_asked = list(filterfalse(run.__contains__, present(labels)))
    if run.repeats:
        parts = tuple(_scored_runs(score, asked_labels, run, options))
        retrieval = replace(cast(Retrieval, parts[0].retrieval), run=run, labels=asked_labels)
        scores = of_repeats(parts).replace(retrieval=retrieval)
    else:
        scores = score(asked_labels, run, options)
    if not not_asked:
        return scores
    note = _NOT_ASKED.format(missing=len(not_asked), labelled=len(present(labels)))
    excluded = {**scores.excluded, **dict.fromkeys(not_asked, "not asked")}
    return scores.replace(notes=[note, *scores.notes], excluded=excluded)


def _scored_runs(
    score: Callable[..., Scores], labels: Mapping[str, Any], run: Run, options: ScoringOptions
) -> Iterator[Scores]:
    for number, run_of_time in enumerate(run.repeats):
        # a query that was asked less often than others isn't one that nothing was retrieved for
        missing = run.keys() - run_of_time.keys()
        asked_labels = picked(labels, filterfalse(missing.__contains__, labels))
        yield score(asked_labels, run_of_time, replace(options, checks_ids=number == 0))


@collection_paused()
def score_with(
    metrics: Sequence[RankingMetric],
    expected: Expected,
    retrieved: Retrieved,
    options: ScoringOptions,
    *,
    queries: Mapping[str, str] | None = None,
    metadata: Mapping[str, Mapping[str, Any]] | None = None,
    deepest: int | None = None,
    stock: Stock = NO_STOCK,
) -> Scores:
    """`score_rankings` with metrics that are ready; `deepest` where rankings don't say it."""
    query_ids, given_labels, rankings = align(expected, retrieved)
    relevance = _kept_labels(given_labels)
    errors = [getattr(ranking, "error", None) for ranking in rankings]

    def asked_at(row: int) -> Asked:
        texts = getattr(rankings[row], "texts", None)
        is_left_out = options.failed == "exclude" and errors[row] is not None
        return Asked(query_ids[row], given_labels[row], ids_of(rankings[row]), texts, is_left_out)

    needs, tokenizer = needs_of(metrics), options.tokenizer
    judged = judge(relevance, rankings, needs, tokenizer=tokenizer, query_ids=query_ids)
    is_judged = np.array([labels is not None for labels in relevance], np.bool_)
    is_failed = np.array([error is not None for error in errors], np.bool_)
    batch = score_batch(judged, metrics, options, is_judged, is_failed, asked_at)
    run = retrieved if isinstance(retrieved, Run) else Run()
    order_remarks = list(order_notes(rankings, are_stored=options.checks_ids))
    label_remarks = [*grader_notes(relevance, judged, metrics), *run.label_notes]
    if needs:
        label_remarks += chunk_notes(rankings, needs)
    if options.checks_ids:
        mismatch = questions_apart(expected, retrieved)
        label_remarks += label_notes(batch, metrics, asked_at, mismatch, stock) + order_remarks
    else:
        label_remarks += label_notes(batch, metrics, asked_at, mismatch="", stock=None)
    notes = [*run.notes, *order_remarks, *other_notes(batch, judged, metrics, asked_at, deepest)]
    notes += [f"{metric} has no value: {error}" for metric, error in batch.errors.items()]
    labels = dict(zip(query_ids, relevance, strict=True))
    return _scores_of(
        batch,
        query_ids,
        failed=present(dict(zip(query_ids, errors, strict=True))),
        queries=run.queries if queries is None else queries,
        metadata=run.metadata if metadata is None else metadata,
        name=run.name,
        notes=list(dict.fromkeys([*label_remarks, *notes])),
        label_notes=label_remarks,
        retrieval=Retrieval(run, labels, text_of=stock.texts.get),
    )


def _kept_labels(relevance: Sequence[Any]) -> list[RelevanceLike | None]:
    """Labels that were judged, which stay what they are now, whatever becomes of a list."""
    if set(map(type, relevance)) == {list} and set(map(type, chain(*relevance))) <= {str}:
        return list(map(list.copy, relevance))
    return list(map(_kept, relevance))


def _kept(labels: RelevanceLike | None) -> RelevanceLike | None:
    try:
        return None if labels is None else as_relevance(labels)
    except InvalidInput:  # judging says of which question
        return labels


def _scores_of(batch: ScoredBatch, query_ids: Sequence[str], **about: Any) -> Scores:
    is_listed = batch.is_scored
    for column in batch.columns.values():
        is_listed |= ~np.isnan(column)
    excluded: dict[str, Reason] = {}
    for row in np.flatnonzero(batch.reason).tolist():
        excluded[query_ids[row]] = cast(Reason, REASONS[batch.reason[row]])
    return Scores(
        list(compress(query_ids, is_listed)),
        {metric: column[is_listed] for metric, column in batch.columns.items()},
        excluded=excluded,
        empty=list(compress(query_ids, (batch.depth == 0) & ~batch.is_failed)),
        no_relevant=list(compress(query_ids, batch.is_scored & (batch.n_relevant == 0))),
        **about,
    )


def align(
    expected: Expected, retrieved: Retrieved
) -> tuple[list[str], list[RelevanceLike | None], list[Ranking | Sequence[str]]]:
    if isinstance(expected, Mapping) and isinstance(retrieved, Mapping):
        _check_query_ids(expected, retrieved)
        query_ids = list(dict.fromkeys([*expected, *retrieved]))
        rankings = [retrieved.get(query_id, ()) for query_id in query_ids]
        return query_ids, list(map(expected.get, query_ids)), rankings
    if isinstance(expected, (Mapping, str)) or isinstance(retrieved, (Mapping, str)):
        expectation = f"the same shape as expected, which is a {type(expected).__name__}"
        remedy = "Give mappings, as read_qrels(path) and read_run(path) make, or two lists alike."
        raise InvalidInput("retrieved", type(retrieved).__name__, expectation, remedy)
    relevance, rankings = list(expected), list(retrieved)
    if len(relevance) != len(rankings):
        remedy = "Even for one question, give lists of lists: [[id, …]]."
        expectation = f"as many rankings as expected has, {len(relevance)}"
        raise InvalidInput("retrieved", len(rankings), expectation, remedy)
    rows: Any = getattr(retrieved, "index", None)  # of pandas: lists have a method of that name
    are_columns = type(expected) is type(retrieved) and hasattr(rows, "equals")
    if are_columns and not rows.equals(expected.index):
        expectation = "rows labelled like those of expected"
        remedy = "Give mappings from query id, or lists in the same order."
        raise InvalidInput("retrieved", rows.tolist(), expectation, remedy)
    return list(map(str, range(len(relevance)))), relevance, rankings


def _read(side: Any, reader: Callable[[Any], Any]) -> Any:
    """The rankings or labels, of a data frame, or of ranx's Qrels or Run, by their reader."""
    is_of_ranx = type(side).__module__.partition(".")[0] == "ranx" and hasattr(side, "to_dict")
    return reader(side) if is_of_ranx or is_frame(side) else side


def _check_query_ids(expected: Mapping[Any, object], retrieved: Mapping[Any, object]) -> None:
    if "" in expected or "" in retrieved:
        raise InvalidInput("query ids of expected and retrieved", "", "texts that aren't empty")
    judged_alone = expected.keys() - retrieved.keys()
    ranked_alone = retrieved.keys() - expected.keys()
    shared_kinds = id_kinds(judged_alone) & id_kinds(ranked_alone)
    if judged_alone and ranked_alone and not shared_kinds:
        example = min(judged_alone, key=repr)
        expectation = f"query ids of the type of those of expected, such as {example!r}"
        remedy = "Convert one side, e.g. with str()."
        raise InvalidInput("retrieved", min(ranked_alone, key=repr), expectation, remedy)


def runs_of(repeats: Iterable[Scores], metric: str) -> Mapping[str, list[float]]:
    runs: dict[str, list[float]] = defaultdict(list)
    for scores in repeats:
        for query_id, value in scores.by_query(metric).items():
            runs[query_id].append(value)
    return runs


def of_repeats(repeats: Iterable[Scores]) -> Scores:
    """The scores of questions that were asked several times, from those of each run.

    What failed or is empty did so in every run; `counts` counts questions of which any did.
    """
    parts = tuple(repeats)
    query_ids = list(_merged(parts, "query_ids"))
    columns = {}
    for name in parts[0]:
        runs = runs_of(parts, name)
        columns[name] = [_mean(runs.get(query_id, ())) for query_id in query_ids]
    excluded, failed = _merged(parts, "excluded"), _merged(parts, "failed")
    n_asked, n_failed, n_empty = Counter[str](), Counter[str](), Counter[str]()
    for part in parts:
        n_asked.update(dict.fromkeys([*part.query_ids, *part.excluded], 1))
        n_failed.update(list(part.failed))
        n_empty.update(part.empty)
        for query_id in set(part.query_ids).difference(part.excluded):
            excluded.pop(query_id, None)
    scores = parts[0].replace(
        query_ids=query_ids,
        columns=columns,
        excluded=excluded,
        failed=picked(failed, _in_every_run(n_failed, n_asked)),
        empty=_in_every_run(n_empty, n_asked),
        no_relevant=list(_merged(parts, "no_relevant")),
        queries=_merged(parts, "queries"),
        metadata=_merged(parts, "metadata"),
        repeats=parts,
    )
    return scores.replace(notes=list(_notes_on_runs(scores, n_asked, n_failed)))


def _in_every_run(n_times: Mapping[str, int], n_asked: Mapping[str, int]) -> list[str]:
    return [query_id for query_id, n in n_times.items() if n == n_asked[query_id]]


def _mean(values: Sequence[float]) -> float:
    """The mean of a question's runs, NaN of none; of equal values the value itself, exactly."""
    if len(set(values)) == 1:
        return values[0]
    return exact_mean(np.array(values))


def _merged(parts: Sequence[Scores], name: str) -> dict[str, Any]:
    """What the parts have, with the value of the first that has one; ids without values as keys."""
    merged: dict[str, Any] = {}
    for part in parts:
        values = getattr(part, name)
        if not isinstance(values, Mapping):
            values = dict.fromkeys(values)
        for key, value in values.items():
            merged.setdefault(key, value)
    return merged


def _notes_on_runs(scores: Scores, n_asked: Counter[str], n_failed: Counter[str]) -> Iterator[str]:
    n_runs = len(scores.repeats)
    for note, n in Counter[str](chain.from_iterable(run.notes for run in scores.repeats)).items():
        yield note if n == n_runs else f"in {n} of {n_runs} runs: {note}"
    if n_failed:
        n, answers = sum(n_failed.values()), sum(n_asked.values())
        yield _FAILED.format(n=n, answers=answers, questions=questions(len(n_failed)))
    n_fewer = len(n_asked) - list(n_asked.values()).count(n_runs)
    if n_fewer:
        yield _FEWER.format(runs=n_runs, n=n_fewer, questions=questions(len(n_asked)))
