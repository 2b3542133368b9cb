"""The results of an evaluation, one a query, what they add up to, their curves and their report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from llama_index_rag_metrics.files.conversations import HISTORY
from llama_index_rag_metrics.files.dataset_content import PassageTexts
from llama_index_rag_metrics.files.dataset_summary import unread_labels
from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.metrics.metric_names import metric as resolve
from llama_index_rag_metrics.metrics.texts.text_metric import TextMetric
from llama_index_rag_metrics.rankings.matching.id_matcher import NOT_VALID
from llama_index_rag_metrics.rankings.matching.matched import Matched, matcher_name
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.report.figure import Axis, Draw, Figure, Series
from llama_index_rag_metrics.report.model import Report, headline
from llama_index_rag_metrics.report.numbers import questions, score
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.errors import EveryQueryFailed, InvalidInput, RagMetricsError
from llama_index_rag_metrics.runtime.lazy import collection_paused
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.mappings import label_digests, lazy_digests
from llama_index_rag_metrics.scores.retrieval import Retrieval, TextOf
from llama_index_rag_metrics.scores.scoring.batches import EVERY_QUERY
from llama_index_rag_metrics.scores.scoring.score_rankings import score_with
from llama_index_rag_metrics.stories.label_view import System, metrics_of, shown_name
from llama_index_rag_metrics.stories.results_report import systems_report
from llama_index_rag_metrics.stories.worst import HardQuestions, worst_of

from .judged_sessions import Sessions

if TYPE_CHECKING:
    from llama_index.core.evaluation import RetrievalEvalResult
    from llama_index.core.evaluation.retrieval.metrics_base import (
        BaseRetrievalMetric,
        RetrievalMetricResult,
    )

    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
    from llama_index_rag_metrics.metrics.texts.text_metric import Usage

    from .plan import Plan

    ListOfResults = list[RetrievalEvalResult]
else:
    ListOfResults = list


@dataclass
class Collected:
    """The outcome of asking a dataset once."""

    run: Run
    results: dict[str, dict[str, RetrievalMetricResult]] = field(default_factory=dict)
    metric_errors: dict[str, dict[str, str]] = field(default_factory=dict)
    label_note: str | None = None
    notes: tuple[str, ...] = ()
    matched: dict[str, Matched] = field(default_factory=dict)
    usage: dict[str, Usage] = field(default_factory=dict)

    @property
    def is_invalid(self) -> bool:
        """Whether labels name what was retrieved otherwise than by its ids."""
        return (self.label_note or "").startswith(NOT_VALID)


class EvaluationResults(Reportable, ListOfResults):
    """A list of LlamaIndex's results, one per query, in the dataset's order.

    A query that is left out of a metric's mean has no value for it here either, so that
    LlamaIndex's `get_retrieval_results_df` shows the same means.

    Attributes:
        run: what was retrieved, with latency and errors; if questions were asked several times, the
            first time, and `run.repeats` has each.
        relevance: query id to its relevance, of the judged queries.
        scores: query ids × metric names, means and counts.
        matched: matcher's name to the rankings that it made of the run, by which its metrics are
            scored; empty where only ids were compared. `run` has the ids that were retrieved.
        matched_by: metric's name to the name of its matcher; without metrics that compare ids.
        about: what was evaluated and how, label to value, for the head of a report.
        text_of: the text of a passage of the dataset by its id; None where it isn't known.

    Examples:
        >>> from llama_index_rag_metrics import evaluate
        >>> dataset = {"queries": {"q1": "x?"}, "corpus": {}, "relevant_docs": {"q1": ["d1"]}}
        >>> results = evaluate(lambda query: ["d2", "d1"], dataset, ["mrr", "recall@1"])
        >>> dict(results.scores.means)
        {'mrr': 0.5, 'recall@1': 0.0}
        >>> results.run["q1"].ids
        ['d2', 'd1']
        >>> results[0].metric_dict["mrr"].score
        0.5
    """

    def __init__(
        self,
        results: Iterable[RetrievalEvalResult],
        *,
        run: Run,
        relevance: Mapping[str, Relevance],
        scores: Scores,
        matched: Mapping[str, Matched] | None = None,
        matched_by: Mapping[str, str] | None = None,
        about: Mapping[str, str] | None = None,
        text_of: TextOf | None = None,
    ) -> None:
        super().__init__(results)
        self.run, self.relevance, self.scores = run, relevance, scores
        self.matched = dict(matched or {})
        self.matched_by = dict(matched_by or {})
        self.about = dict(about or {})
        self.text_of = text_of

    @property
    def repeats(self) -> tuple[Scores, ...]:
        """The scores of each run, if questions were asked several times."""
        return self.scores.repeats

    @property
    def calls(self) -> Sessions:
        """What an agent or a workflow retrieved, call by call; empty for a plain retriever.

        Of questions that were asked several times, the first time.
        """
        seen = system_of(self).judged_by(next(iter(self.scores), ""))
        return Sessions(seen.run, seen.relevance)

    def worst(self, metric: str | None = None, n: int = 10) -> HardQuestions:
        """The n queries of the worst scores, as (query id, score); ties keep their order.

        Without a metric, the first.
        They print with what was asked, wanted and retrieved, and where it was lost.

        Raises:
            UnknownMetric: the metric wasn't computed.
        """
        return worst_of(system_of(self), metric, n)

    def __getattr__(self, name: str) -> NoReturn:
        remedy = f". Write results.scores.{name}" if hasattr(Scores, name) else ""
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{remedy}")

    def report(self, *, full: bool = False) -> Report:
        """Means, counts, latency, what went wrong, and each query's ranking."""
        return results_report([self])

    def to_json(self, path: str | Path | None = None) -> str:
        """The scores with digests of questions, labels and rankings; written to `path`, if given.

        `Scores.from_json` reads it back, and a gate takes the file as the baseline.
        """
        return self.scores.to_json(path)

    def __repr__(self) -> str:
        return f"<EvaluationResults of {self.scores!r}>"


def build_results(plan: Plan, collected: Sequence[Collected]) -> EvaluationResults:
    first, *others = collected
    scores, run, matched = _scores_of(plan, first), first.run, first.matched
    if others:
        of_each = [scores, *(_scores_of(plan, each) for each in others)]
        scores = Scores.of_repeats(of_each, [metric.metric_name for metric in plan.metrics])
        run = run.replaced(run, repeats=[each.run for each in collected])
        matched = {
            name: replace(
                each,
                run=run.replaced(each.run, repeats=[time.matched[name].run for time in collected]),
                repeats=tuple(time.matched[name] for time in collected),
            )
            for name, each in matched.items()
        }
    labels = [] if first.label_note is None else [first.label_note]
    scores = scores.replace(
        notes=[*labels, *scores.notes, *first.notes], label_notes=[*labels, *scores.label_notes]
    )
    return EvaluationResults(
        _core_results(plan.dataset, first, scores),
        run=run,
        relevance=plan.dataset.relevance,
        scores=scores,
        matched=matched,
        matched_by=dict.fromkeys(
            [
                metric.metric_name
                for metric in plan.metrics
                if matched and getattr(metric, "recognises", True)
            ],
            matcher_name(plan.matcher),
        ),
        text_of=PassageTexts(plan.dataset),
    )


def _scores_of(plan: Plan, collected: Collected) -> Scores:
    from .run_matching import score_matched

    dataset, metrics = plan.dataset, plan.metrics
    scoring = replace(plan.scoring, tokenizer=plan.counter, tolerant=True, checks_ids=False)
    matched = next(iter(collected.matched.values()), None)
    by_rank = score_matched(metrics, dataset, collected.run, matched, scoring)
    excluded = by_rank.failed if scoring.failed == "exclude" else ()
    others = {
        name: {
            query_id: result.score
            for query_id, result in results.items()
            if query_id not in excluded and not _is_empty(result)
        }
        for name, results in collected.results.items()
    }
    scores = by_rank.join(others, order=[metric.metric_name for metric in metrics])
    return scores.replace(
        usage=collected.usage,
        rankings=lazy_digests(
            [*collected.run], [ranking.ids for ranking in collected.run.values()]
        ),
        labels=label_digests(dataset.relevance),
        notes=[*scores.notes, *_notes(dataset, metrics, collected)],
    )


def _core_results(
    dataset: RetrievalDataset, collected: Collected, scores: Scores
) -> list[RetrievalEvalResult]:
    from llama_index.core.evaluation import RetrievalEvalResult
    from llama_index.core.evaluation.retrieval.base import RetrievalEvalMode
    from llama_index.core.evaluation.retrieval.metrics_base import RetrievalMetricResult

    with collection_paused():
        rows: dict[str, dict[str, RetrievalMetricResult]] = {
            query_id: {} for query_id in dataset.queries
        }
        for metric in scores:
            results, details = collected.results.get(metric), scores.details.get(metric, {})
            for query_id, score in scores.by_query(metric).items():
                own = None if results is None else results.get(query_id)
                metadata = dict(details.get(query_id, {}) if own is None else own.metadata)
                if query_id in scores.failed:
                    metadata["error"] = scores.failed[query_id]
                rows[query_id][metric] = RetrievalMetricResult(score=score, metadata=metadata)
        mode = RetrievalEvalMode.from_str(dataset.mode)
        return [
            RetrievalEvalResult(
                query=query,
                expected_ids=list(dataset.relevance.get(query_id, ())),
                expected_texts=dataset.expected_texts.get(query_id),
                retrieved_ids=list(map(str, collected.run[query_id].ids)),
                retrieved_texts=list(collected.run[query_id].texts or ()),
                mode=mode,
                metric_dict=rows[query_id],
            )
            for query_id, query in dataset.queries.items()
        ]


def _is_empty(result: RetrievalMetricResult) -> bool:
    return result.metadata.get("empty") is True


def every_query_failed(run: Run) -> EveryQueryFailed | None:
    from .ask_all import NOT_ASKED

    errors = Counter(error for error in run.failed.values() if not error.startswith(NOT_ASKED))
    if not errors or len(run.failed) < len(run):
        return None
    error, n = errors.most_common(1)[0]
    times = "once" if n == 1 else f"{n} times"
    return EveryQueryFailed(f"retrieval failed on every question, {times} with: {error}")


def _notes(
    dataset: RetrievalDataset, metrics: Sequence[BaseRetrievalMetric], collected: Collected
) -> Iterator[str]:
    if any(isinstance(metric, RankingMetric) and metric.needs_relevance for metric in metrics):
        yield from unread_labels(dataset)
    by_question = [
        metric.metric_name
        for metric in metrics
        if isinstance(metric, TextMetric) and getattr(metric, "of", "query") == "query"
    ]
    if by_question and any(row.get(HISTORY) for row in dataset.metadata.values()):
        yield f"{', '.join(by_question)}: questions have a history, which isn't taken account of"
    if (warning := every_query_failed(collected.run)) is not None:
        yield str(warning)
    for name, errors in collected.metric_errors.items():
        if errors:
            query_id, error = next(iter(errors.items()))
            yield f"{name} has no value for {questions(len(errors))}; {query_id!r}: {error}"
    for name, results in collected.results.items():
        if any(math.isnan(result.score) for result in results.values()):
            yield f"{name} gave NaN for some questions, which have no value"
        if n := sum(map(_is_empty, results.values())):
            yield f"{name} has no value where nothing was retrieved: {n} questions"


_CUTOFFS = (*range(1, 11), 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 1000)


def ranking_metric(name: str) -> RankingMetric | None:
    try:
        metric = resolve(name)
    except (RagMetricsError, ImportError):
        return None
    return metric if isinstance(metric, RankingMetric) else None


def cutoffs_of(systems: Iterable[System]) -> list[int]:
    """The cutoffs of a curve: dense at the top, up to the longest ranking."""
    rankings = [ranking for system in systems for ranking in system.run.every_ranking]
    most = max((len(each.ids) for each in rankings), default=0)
    steps = takewhile(most.__gt__, _CUTOFFS)
    return [*steps, most] if most else []


def means_by_cutoff(
    system: System, metric: str, cutoffs: Sequence[int], query_ids: Iterable[str] | None = None
) -> dict[int, float]:
    """Cutoff to the mean of a metric there, over these queries, or all that have a value."""
    uncut = ranking_metric(metric)
    if uncut is None or "k" not in type(uncut).model_fields or not cutoffs:
        return {}
    parameters = uncut.model_dump(exclude={"k", "tokens", "ideal"}, exclude_none=True)
    chosen = [type(uncut).model_validate({**parameters, "k": n}) for n in cutoffs]
    relevance, rankings = _scored(system, metric, query_ids)
    retrieved = [ranking for ranking in rankings if ranking.ids]
    needs = chosen[0].needs & {"tokens", "spans"}
    if any(getattr(ranking, column) is None for column in needs for ranking in retrieved):
        return {}
    scores = score_with(chosen, relevance, rankings, replace(EVERY_QUERY, tolerant=True))
    names = {n: cut.metric_name for n, cut in zip(cutoffs, chosen, strict=True)}
    return {n: scores.means[name] for n, name in names.items() if scores.n(name)}


def _scored(
    system: System, metric: str, query_ids: Iterable[str] | None
) -> tuple[list[Relevance], list[Ranking]]:
    """Relevance and ranking, by the metric's matcher, of each query with a value for it, of each
    time that it was asked."""
    judged, rankings = list[Relevance](), list[Ranking]()
    chosen = None if query_ids is None else set(query_ids)
    for each in system.repeats or [system]:
        matched = each.judged_by(metric)
        for query_id in each.by_query(metric):
            if chosen is None or query_id in chosen:
                # what is scored here has no error: whether a failed query counts was decided before
                rankings.append(replace(matched.run.get(query_id, Ranking()), error=None))
                judged.append(matched.relevance.get(query_id, Relevance()))
    return judged, rankings


def curve_figures(
    systems: Sequence[System], query_ids: Iterable[str] | None = None
) -> dict[str, Draw]:
    """Functions that draw the curves of systems with rankings, over these queries, or all."""
    metrics = metrics_of(systems)
    chosen = None if query_ids is None else list(query_ids)
    return {"by_cutoff": lambda name: _by_cutoff(systems, name or headline(metrics), chosen)}


def _by_cutoff(
    systems: Sequence[System], metric: str, query_ids: Sequence[str] | None
) -> Figure | None:
    """A curve of each system that has the metric; None where all are empty."""
    cutoffs = cutoffs_of(systems)
    x, y = Axis("k", is_count=True), Axis(f"{metric.partition('@')[0]}@k", from_zero=True)
    series = []
    for number, system in enumerate(systems):
        if system.run and metric in system.scores:
            curve = means_by_cutoff(system, metric, cutoffs, query_ids)
            remarks = [f"k = {at}: {score(mean)}" for at, mean in curve.items()]
            points = (list(curve), list(curve.values()))
            series.append(Series(system.name, number, *points, remarks=remarks))
    return Figure("lines", x, y, series) if any(each.x for each in series) else None


Reported: TypeAlias = EvaluationResults | Scores  # what a report takes for one retriever
Several: TypeAlias = Reported | Sequence[Reported] | Mapping[str, Reported]
"""What a report takes for one or several retrievers; the keys of a mapping are their names."""


def system_of(reported: Reported, name: str = "") -> System:
    if isinstance(reported, Scores):
        return System.of(reported, name)
    matched = {metric: reported.matched[matcher] for metric, matcher in reported.matched_by.items()}
    stored = reported.scores.retrieval
    absent = stored.absent if stored else frozenset[str]()
    retrieval = Retrieval(reported.run, reported.relevance, matched, reported.text_of, absent)
    name = name or shown_name(reported.scores, "score")
    return System(name, reported.scores, reported.about, retrieval)


def by_name(reported: Several) -> dict[str, Reported]:
    """The results of a report, each by a name to show; repeated names are numbered."""
    if isinstance(reported, (EvaluationResults, Scores)):
        reported = [reported]
    pairs = reported.items() if isinstance(reported, Mapping) else (("", each) for each in reported)
    listed, named = list(pairs), dict[str, Reported]()
    for number, (name, result) in enumerate(listed, 1):
        if not isinstance(result, (EvaluationResults, Scores)):
            expected = "results or scores of retrievers, or {name: results or scores}"
            raise InvalidInput("reported", result, expected)
        scores = result if isinstance(result, Scores) else result.scores
        unnamed = "score" if len(listed) == 1 else f"system {number}"
        first = name or shown_name(scores, unnamed)
        names = (first, *(f"{first} {again}" for again in range(2, len(listed) + 2)))
        named[next(free for free in names if free not in named)] = result
    return named


def systems_of(reported: Several) -> list[System]:
    return [system_of(result, name) for name, result in by_name(reported).items()]


def results_report(reported: Several, **options: Any) -> Report:
    systems = systems_of(reported)
    return systems_report(systems, figures=curve_figures(systems), **options)
