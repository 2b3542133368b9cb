"""The results of an evaluation, one a query, what they add up to, their curves and their report."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np
from llama_index.core.evaluation import RetrievalEvalResult
from llama_index.core.evaluation.retrieval.base import RetrievalEvalMode
from llama_index.core.evaluation.retrieval.metrics_base import RetrievalMetricResult

from llama_index_rag_metrics.metrics import metric_names
from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.rankings.judging.beside import needs_of
from llama_index_rag_metrics.rankings.judging.lists import judge
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.report.model import Draw, Figure, Mark, Report, Series
from llama_index_rag_metrics.report.numbers import score
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.errors import RagMetricsError
from llama_index_rag_metrics.scores.scores import Scores
from llama_index_rag_metrics.statistics.intervals import exact_mean
from llama_index_rag_metrics.stories.label_view import System, metrics_of
from llama_index_rag_metrics.stories.results_report import systems_report
from llama_index_rag_metrics.stories.story import HardQuestions


class EvaluationResults(Reportable, Sequence[RetrievalEvalResult]):
    """A sequence of LlamaIndex's results, one per query, in the dataset's order.

    They are made when they are first asked for. A query that is left out of a metric's mean has no
    value for it here either, so that LlamaIndex's `get_retrieval_results_df` shows the same means.

    Attributes:
        scores: query ids × metric names, means and counts.
        about: what was evaluated and how, label to value, for the head of a report.

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
        scores: Scores,
        *,
        about: Mapping[str, str] | None = None,
        computed: Mapping[str, Mapping[str, RetrievalMetricResult]] | None = None,
        expected_texts: Mapping[str, list[str]] | None = None,
    ) -> None:
        self.scores, self.about = scores, dict(about or {})
        self._computed, self._expected_texts = computed or {}, expected_texts or {}

    def __len__(self) -> int:
        return len(self.scores.queries)

    @overload
    def __getitem__(self, position: int) -> RetrievalEvalResult: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[RetrievalEvalResult]: ...
    def __getitem__(self, position: Any) -> Any:
        return self._rows[position]

    @cached_property
    def _rows(self) -> list[RetrievalEvalResult]:
        rows, values, run, relevance = [], self._values(), self.run, self.relevance
        for query_id, query in self.scores.queries.items():
            ranking = run.get(query_id, Ranking())
            row = RetrievalEvalResult(
                query=query,
                expected_ids=list(relevance.get(query_id, ())),
                expected_texts=self._expected_texts.get(query_id),
                retrieved_ids=ranking.ids,
                retrieved_texts=ranking.texts or [],
                mode=RetrievalEvalMode.TEXT,
                metric_dict=values[query_id],
            )
            rows.append(row)
        return rows

    def _values(self) -> dict[str, dict[str, RetrievalMetricResult]]:
        """Query id to metric to its result; metrics computed question by question add metadata."""
        values = {query_id: dict[str, RetrievalMetricResult]() for query_id in self.scores.queries}
        for metric in self.scores:
            computed = self._computed.get(metric, {})
            for query_id, value in self.scores.by_query(metric).items():
                metadata = computed[query_id].metadata if query_id in computed else {}
                if query_id in self.scores.failed:
                    metadata = {**metadata, "error": self.scores.failed[query_id]}
                values[query_id][metric] = RetrievalMetricResult(score=value, metadata=metadata)
        return values

    @property
    def run(self) -> Run:
        """What was retrieved, with latency and errors; `run.repeats` has each time of several."""
        return system_of(self).run

    @property
    def relevance(self) -> Mapping[str, Relevance]:
        """Query id to its relevance, of the judged queries."""
        return system_of(self).retrieval.relevance

    @property
    def repeats(self) -> tuple[Scores, ...]:
        """The scores of each run, if questions were asked several times."""
        return self.scores.repeats

    @property
    def calls(self) -> list[SessionCall]:
        """What an agent retrieved in its first run, by call, as `pandas.DataFrame` takes it."""
        judged = system_of(self).judged_by(next(iter(self.scores), ""))
        rows = []
        for query_id, calls in judged.run.calls.items():
            grades = judged.relevance.get(query_id, Relevance()).grades
            missing = {item for item, grade in grades.items() if grade >= 1}
            for number, call in enumerate(calls, 1):
                new = missing.intersection(call.ids)
                missing -= new
                rows.append(SessionCall(query_id, number, call.query, len(new), call.latency))
        return rows

    def worst(self, metric: str | None = None, n: int = 10) -> HardQuestions:
        """The n queries of the worst scores, as (query id, score); ties keep their order.

        Without a metric, the first. They print as their stories: where what was wanted was lost.

        Raises:
            InvalidInput: the metric wasn't scored.
        """
        return HardQuestions(system_of(self), metric, n)

    def report(self, *, full: bool = False) -> Report:
        """Means, counts, latency, what went wrong, and each query's ranking."""
        return results_report({"": self})

    def to_json(self, path: str | Path | None = None) -> str:
        """The scores with digests of questions, labels and rankings; written to `path`, if given.

        `Scores.from_json` reads it back, and a gate takes the file as the baseline.
        """
        return self.scores.to_json(path)

    def __repr__(self) -> str:
        return f"<EvaluationResults of {self.scores!r}>"


class SessionCall(NamedTuple):
    """One call of a session, judged."""

    query_id: str
    number: int  # which of the question's calls, from 1 on
    query: str  # what was searched for, in the agent's words
    new_relevant: int  # how many relevant items it retrieved that no earlier call had
    latency: float | None  # seconds, if it was timed


_CUTOFFS = (*range(1, 11), 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 1000)


def ranking_metric(name: str) -> RankingMetric | None:
    try:
        metric = metric_names.metric(name)
    except (RagMetricsError, ImportError):
        return None
    return metric if isinstance(metric, RankingMetric) else None


def curve_figures(systems: Sequence[System]) -> dict[str, Draw]:
    return {"by_cutoff": partial(_curves, systems, next(iter(metrics_of(systems)), ""))}


def _curves(systems: Sequence[System], metric: str) -> Figure | None:
    """A curve of each system that has the metric; None where it has no cutoffs."""
    uncut = ranking_metric(metric)
    deepest = max((system.run.depth for system in systems), default=0)
    if uncut is None or "k" not in type(uncut).model_fields or not deepest:
        return None
    parameters = uncut.model_dump(exclude={"k", "tokens", "ideal"}, exclude_none=True)
    cutoffs = [*takewhile(deepest.__gt__, _CUTOFFS), deepest]
    at_k = {k: type(uncut).model_validate({**parameters, "k": k}) for k in cutoffs}
    series = []
    for number, system in enumerate(systems):
        marks = []
        for k, mean in _curve(system, metric, at_k).items():
            marks.append(Mark(k, mean, f"{system.name}: k = {k}: {score(mean)}"))
        series.append(Series(system.name, number, marks))
    return Figure("lines", "k", f"{metric.partition('@')[0]}@k", series)


def _curve(system: System, metric: str, at_k: Mapping[int, RankingMetric]) -> dict[int, float]:
    """Return cutoff to the mean over the queries that have a value, where any has one."""
    relevance, rankings = list[Relevance](), list[Ranking]()
    for time in system.repeats or [system]:
        judged = time.judged_by(metric)
        for query_id in time.by_query(metric):
            rankings.append(judged.run.get(query_id, Ranking()))
            relevance.append(judged.relevance.get(query_id, Relevance()))
    batch, curve = judge(relevance, rankings, needs_of(at_k.values())), dict[int, float]()
    for k, cut in at_k.items():
        with suppress(Exception):  # of a metric of somebody's own; its mean said so
            column = cut.score_queries(batch)
            values = column[~np.isnan(column)]
            if len(values):
                curve[k] = exact_mean(values)
    return curve


Reported: TypeAlias = EvaluationResults | Scores  # what a report takes for one retriever


def system_of(reported: Reported, name: str = "") -> System:
    if isinstance(reported, Scores):
        return System.of(reported, name)
    system = System.of(reported.scores, name)
    return system._replace(about=reported.about, computed=reported._computed)


def results_report(reported: Mapping[str, Reported], **options: Any) -> Report:
    systems = [system_of(results, name) for name, results in reported.items()]
    return systems_report(systems, figures=curve_figures(systems), **options)


def _html_of_dict(values: Mapping[Any, Any]) -> str | None:
    """The report of a dict of results, side by side; None of any other dict."""
    kinds = (EvaluationResults, Scores)
    if isinstance(values, Reportable):  # the stages of a pipeline say more
        return values._repr_html_()
    if not values or not all(isinstance(value, kinds) for value in values.values()):
        return None
    from llama_index_rag_metrics.report.html import fragment

    return fragment(results_report({str(name): value for name, value in values.items()}))


if "IPython" in sys.modules and (_shell := sys.modules["IPython"].get_ipython()):
    _shell.display_formatter.formatters["text/html"].for_type(dict, _html_of_dict)
