"""Scores: query ids × metric names, and what their means leave out."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import FrozenInstanceError, asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, get_args

import numpy as np

from llama_index_rag_metrics.files.conversations import conversations_of, shortened
from llama_index_rag_metrics.metrics.metric_names import (
    is_of_unanswerable,
    limits_of,
    lower_is_better,
)
from llama_index_rag_metrics.report.escape import terminal
from llama_index_rag_metrics.report.numbers import estimate, questions, score
from llama_index_rag_metrics.report.reportable import Reportable, Sentence, written
from llama_index_rag_metrics.runtime.arrays import FloatArray
from llama_index_rag_metrics.runtime.atomic_files import json_text, jsonable
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import describe_error
from llama_index_rag_metrics.runtime.usage import Usage
from llama_index_rag_metrics.scores.mappings import (
    ByMetric,
    LazyMapping,
    Total,
    frozen,
    name_among,
    rows_by,
    thawed,
)
from llama_index_rag_metrics.statistics.intervals import MeanInterval, exact_mean, mean_intervals

if TYPE_CHECKING:
    from llama_index_rag_metrics.report.model import Report
    from llama_index_rag_metrics.stories.worst import HardQuestions

# why a query is left out of the means
Reason: TypeAlias = Literal["unjudged", "no_relevant", "failed", "not asked"]
FORMAT = "llama-index-rag-metrics scores, version 1"
_BY_QUERY = ("excluded", "failed", "queries", "metadata", "rankings", "labels")


@dataclass(frozen=True)
class Counts(Total):
    """How many queries the means are taken over, and how many are special.

    `failed` and `empty` are counted among all queries: those that also count as `no_relevant` or
    `unjudged` are left out of the means with them.

    Attributes:
        queries: all queries.
        scored: those that the means are taken over.
        failed: the retriever failed; scored 0, unless `failed="exclude"` or less is better. Of
            several runs, in any of them.
        empty: nothing was retrieved, without an error; scored 0. Of several runs, in any of them.
        no_relevant: judged, but with nothing relevant; left out unless `no_relevant="zero"`.
        unjudged: without any relevance given; left out.
        not_asked: labelled, but not in the log that is scored, as traces are; left out.
    """

    queries: int = 0
    scored: int = 0
    failed: int = 0
    empty: int = 0
    no_relevant: int = 0
    unjudged: int = 0
    not_asked: int = 0

    @property
    def left_out(self) -> list[str]:
        """How many are left out of the means, and why, in words."""
        why = {
            "not asked": self.not_asked,
            "without labels": self.unjudged,
            "without a relevant label": self.no_relevant,
        }
        return [f"{n:,} {what}" for what, n in why.items() if n]

    @property
    def notes(self) -> list[str]:
        if self.scored:
            return []
        n_failed = self.queries - self.unjudged - self.no_relevant - self.not_asked
        parts = [*self.left_out, *([f"{n_failed:,} failed"] if n_failed else [])]
        listed = f"of {questions(self.queries)}, {' and '.join(parts)}" if parts else "no questions"
        return [f"no ranking metric has a value: {listed}"]


@dataclass(frozen=True, slots=True, repr=False)
class MetricInterval(Sentence, MeanInterval):
    """The mean of a metric with its interval."""

    metric: str = ""
    confidence: float = 0.95

    def __str__(self) -> str:
        if not self.n:
            return f"{self.metric} has no value: {self.note}"
        ends = (self.low, self.high)
        sentence = estimate(self.metric, self.mean, *ends, self.n, self.confidence)
        return f"{sentence}; {self.note}" if self.note else sentence


class Scores(Reportable):
    """The score of every query by every metric. Scores never change; `replace` makes new ones.

    Args:
        query_ids: the queries that were scored, in order.
        columns: metric name to one score per query, in that order; NaN where there is no value, as
            of a failed query by a metric of which less is better: 0 would be the best.
        excluded: query id to the reason, of the queries that aren't scored.
        failed: query id to error, of the queries on which the retriever failed.
        empty: the queries for which nothing was retrieved.
        no_relevant: the queries with nothing relevant that are scored nevertheless.
        queries: query id to its text, for reports.
        metadata: query id to its metadata, for slices.
        details: metric name to query id to what the metric says beside its score.
        name: what to call the scored system in reports.
        notes: what a reader of the numbers should know.
        label_notes: those of the notes that say that labels don't fit: first lines repeat them.
        answers: name of a matcher, the default first, to query id to {"wanted": …, "got": …}: the
            first few items of each with excerpts of their texts, so that scores alone show them.
        rankings: query id to the digest of its ranking, if known: the gate detects an unchanged
            system by them.
        labels: query id to the digest of its labels, if known: the gate refuses a baseline that was
            scored by other ones.
        usage: name to what was asked for, of the metrics and matchers that ask a service or a
            model; of the whole run, also after `select`.
        repeats: the scores of each run, if questions were asked several times; see `of_repeats`.
        min_score: the retrieval score below which passages were left out; None for none.
        max_retrieved: how many passages of each ranking counted; None for all.
        judged_only: whether only labelled passages counted.

    Examples:
        >>> scores = Scores(["q1", "q2"], {"mrr": [1.0, 0.5]})
        >>> scores.means["mrr"]
        0.75
        >>> scores["mrr"]
        array([1. , 0.5])
    """

    query_ids: tuple[str, ...]
    columns: Mapping[str, FloatArray]
    excluded: Mapping[str, Reason]
    failed: Mapping[str, str]
    empty: tuple[str, ...]
    no_relevant: tuple[str, ...]
    queries: Mapping[str, str]
    metadata: Mapping[str, Mapping[str, Any]]
    details: Mapping[str, Mapping[str, Mapping[str, Any]]]
    name: str
    notes: tuple[str, ...]
    label_notes: tuple[str, ...]
    answers: Mapping[str, Mapping[str, Mapping[str, Any]]]
    rankings: Mapping[str, str]
    labels: Mapping[str, str]
    usage: Mapping[str, Usage]
    repeats: tuple[Scores, ...]
    min_score: float | None
    max_retrieved: int | None
    judged_only: bool

    def __init__(
        self,
        query_ids: Sequence[str],
        columns: Mapping[str, Sequence[float] | FloatArray],
        *,
        excluded: Mapping[str, Reason] | None = None,
        failed: Mapping[str, str] | None = None,
        empty: Iterable[str] = (),
        no_relevant: Iterable[str] = (),
        queries: Mapping[str, str] | None = None,
        metadata: Mapping[str, Mapping[str, Any]] | None = None,
        details: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
        name: str = "",
        notes: Iterable[str] = (),
        label_notes: Iterable[str] = (),
        answers: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
        rankings: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        usage: Mapping[str, Usage | Mapping[str, Any]] | None = None,
        repeats: Iterable[Scores] = (),
        min_score: float | None = None,
        max_retrieved: int | None = None,
        judged_only: bool = False,
    ) -> None:
        if len(set(query_ids)) < len(query_ids):
            again, _ = Counter(query_ids).most_common(1)[0]
            remedy = "Runs of one question are Scores each: Scores.of_repeats([first, second])."
            raise InvalidInput("query_ids", again, "every question once", remedy)
        reasons = get_args(Reason)
        for query_id, reason in (excluded or {}).items():
            if reason not in reasons:
                raise InvalidInput(f"excluded[{query_id!r}]", reason, f"one of {reasons}")
        by_metric: ByMetric[FloatArray] = ByMetric()
        for metric, column in columns.items():
            if np.shape(column) != (len(query_ids),):
                expected = f"{len(query_ids)} numbers"
                raise InvalidInput(f"scores of {metric}", np.shape(column), expected)
            by_metric[metric] = np.array(column, np.float64)
            if failed and lower_is_better(metric):
                by_metric[metric][[query_id in failed for query_id in query_ids]] = np.nan
            by_metric[metric].flags.writeable = False
        # past __setattr__: this alone writes into it
        vars(self).update(
            query_ids=tuple(query_ids),
            columns=MappingProxyType(by_metric),
            excluded=frozen(excluded),
            failed=frozen({query: describe_error(why) for query, why in (failed or {}).items()}),
            empty=tuple(empty),
            no_relevant=tuple(no_relevant),
            queries=frozen(queries),
            metadata=frozen(shortened(metadata or {}), 2),
            details=frozen(details, 3),
            name=name,
            notes=tuple(notes),
            label_notes=tuple(label_notes),
            answers=frozen(answers, 3),
            rankings=frozen(rankings),
            labels=frozen(labels),
            usage=frozen(
                {
                    metric: value if isinstance(value, Usage) else Usage(**value)
                    for metric, value in (usage or {}).items()
                }
            ),
            repeats=tuple(repeats),
            min_score=min_score,
            max_retrieved=max_retrieved,
            judged_only=judged_only,
        )

    @classmethod
    def of_repeats(cls, repeats: Iterable[Scores], metrics: Sequence[str] | None = None) -> Scores:
        """The scores of questions that were asked several times, from those of each run.

        A question's score is the mean of its runs, so that whatever follows takes the question as
        its unit: runs of one question aren't independent. What failed or is empty did so in every
        run; `counts` counts questions of which any run did.

        Args:
            repeats: the scores of the runs, two or more; a question may have fewer runs than
                others.
            metrics: which to give, in this order; None for those of the runs.

        Raises:
            InvalidInput: there are fewer than two runs.
            UnknownMetric: none of the runs has a metric.

        Examples:
            >>> runs = [Scores(["q1", "q2"], {"hit_rate": hits}) for hits in ([1, 1], [0, 1])]
            >>> Scores.of_repeats(runs).means["hit_rate"]
            0.75
        """
        from llama_index_rag_metrics.scores.repeats import of_repeats

        return of_repeats(repeats, metrics)

    def __setattr__(self, attribute: str, value: object) -> NoReturn:
        remedy = f"Make a changed copy: scores.replace({attribute}=...)."
        raise FrozenInstanceError(f"Scores don't change. {remedy}")

    def __delattr__(self, attribute: str) -> NoReturn:
        raise FrozenInstanceError("Scores don't change")

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Scores, **thawed(self._parts())), ()

    def replace(self, **parts: Any) -> Scores:
        """Scores with some parts changed, by the names of the constructor's arguments.

        Examples:
            >>> Scores(["q1"], {"mrr": [1.0]}).replace(name="bm25").name
            'bm25'
        """
        return Scores(**{**self._parts(), **parts})

    def _parts(self) -> dict[str, Any]:
        return {part: getattr(self, part) for part in Scores.__annotations__}

    @property
    def metric_names(self) -> tuple[str, ...]:
        return tuple(self.columns)

    @cached_property
    def counts(self) -> Counts:
        """How many queries the means are taken over, and how many are special."""
        reasons = list(self.excluded.values())
        queries = {*self.query_ids, *self.excluded}
        runs = self.repeats or (self,)
        return Counts(
            queries=len(queries),
            scored=len(queries) - len(self.excluded),
            failed=len({query_id for run in runs for query_id in run.failed}),
            empty=len({query_id for run in runs for query_id in run.empty}),
            no_relevant=len(self.unanswerable),
            unjudged=reasons.count("unjudged"),
            not_asked=reasons.count("not asked"),
        )

    @cached_property
    def unanswerable(self) -> tuple[str, ...]:
        """The queries that are judged and have nothing relevant, left out of the means or not."""
        left_out = (query for query, why in self.excluded.items() if why == "no_relevant")
        return (*left_out, *self.no_relevant)

    def due(self, metric: str) -> set[str]:
        """The queries that should have a value by a metric of rankings."""
        if is_of_unanswerable(metric):
            return set(self.unanswerable)
        return set(self.query_ids) - self.excluded.keys()

    @property
    def is_measured(self) -> bool:
        """Whether any query that is scored was answered: failures alone are no measurement."""
        return any(query_id not in self.failed for query_id in self.query_ids)

    @cached_property
    def means(self) -> Mapping[str, float]:
        """Metric name to the mean over the queries that have a value; NaN for none."""
        means = ByMetric((metric, exact_mean(self[metric])) for metric in self.columns)
        return MappingProxyType(means)

    def n(self, metric: str) -> int:
        """How many queries the metric's mean is taken over."""
        return len(self[metric])

    def __getitem__(self, metric: str) -> FloatArray:
        """The scores by one metric, in query order, of the queries that have a value; never NaN."""
        column = self.column(metric)
        return column[~np.isnan(column)]

    def by_query(self, metric: str) -> dict[str, float]:
        """Query id to its score by one metric, of the queries that have a value."""
        pairs = zip(self.query_ids, self.column(metric).tolist(), strict=True)
        return {query_id: score for query_id, score in pairs if not math.isnan(score)}

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __contains__(self, metric: object) -> bool:
        return metric in self.columns

    @property
    def per_query(self) -> dict[str, dict[str, float]]:
        """Query id to metric name to score."""
        rows: dict[str, dict[str, float]] = {query_id: ByMetric() for query_id in self.query_ids}
        for metric in self.columns:
            for query_id, value in self.by_query(metric).items():
                rows[query_id][metric] = value
        return rows

    def intervals(
        self,
        *,
        confidence: float = 0.95,
        limits: Sequence[tuple[float, float]] | None = None,
        clusters: Sequence[Hashable] | None = None,
    ) -> dict[str, MetricInterval]:
        """Metric name to its mean with a confidence interval.

        Args:
            confidence: such as 0.95, between 0 and 1.
            limits: the lowest and the highest score of each metric; None for those it declares.
            clusters: what each query belongs to, such as its document; None for its conversation,
                where queries have one.
        """
        clusters = self.conversations if clusters is None else clusters
        columns = np.reshape([*self.columns.values()], (len(self.columns), len(self.query_ids))).T
        limits = limits or [limits_of(metric) for metric in self.columns]
        intervals = mean_intervals(columns, confidence=confidence, limits=limits, clusters=clusters)
        return {
            metric: MetricInterval(**asdict(interval), metric=metric, confidence=confidence)
            for metric, interval in zip(self.columns, intervals, strict=True)
        }

    @property
    def conversations(self) -> list[Hashable] | None:
        """What each query belongs to: its conversation, or itself; None where no two share one."""
        return conversations_of(self.query_ids, self.metadata)

    def worst(self, metric: str | None = None, n: int = 10) -> HardQuestions:
        """The n queries of the worst scores, as (query id, score); ties keep their order.

        Without a metric, the first.
        They print with what was asked, wanted and retrieved, as far as the scores keep it;
        `EvaluationResults.worst` knows all of it.
        """
        from llama_index_rag_metrics.stories.label_view import System
        from llama_index_rag_metrics.stories.worst import worst_of

        return worst_of(System.of(self), metric, n)

    def select(self, query_ids: Iterable[str]) -> Scores:
        """The scores of some of the queries only, with their own counts."""
        wanted = set(query_ids)
        positions = [n for n, query_id in enumerate(self.query_ids) if query_id in wanted]
        return self.replace(
            query_ids=[self.query_ids[position] for position in positions],
            columns={metric: column[positions] for metric, column in self.columns.items()},
            empty=[query_id for query_id in self.empty if query_id in wanted],
            no_relevant=[query_id for query_id in self.no_relevant if query_id in wanted],
            details={metric: _of(wanted, rows) for metric, rows in self.details.items()},
            answers={matcher: _of(wanted, rows) for matcher, rows in self.answers.items()},
            repeats=[run.select(wanted) for run in self.repeats],
            **{part: _of(wanted, getattr(self, part)) for part in _BY_QUERY},
        )

    def join(self, columns: Mapping[str, Mapping[str, float]], order: Sequence[str]) -> Scores:
        """These scores and those by further metrics, which may have a value for other queries.

        Args:
            columns: metric name to query id to score.
            order: the names of all metrics, in the order wanted.
        """
        further = (query_id for by_query in columns.values() for query_id in by_query)
        scored = dict.fromkeys((*self.query_ids, *further))
        query_ids = [each for each in dict.fromkeys((*self.queries, *scored)) if each in scored]
        by_metric = {**{metric: self.by_query(metric) for metric in self}, **columns}
        return self.replace(
            query_ids=query_ids,
            columns={
                metric: [by_metric[metric].get(query_id, math.nan) for query_id in query_ids]
                for metric in order
            },
        )

    def slices(self, key: str) -> dict[str | None, Scores]:
        """The scores split by a value of the queries' metadata, such as the language.

        By values as texts: 1, 1.0 and "1" are one, True is another. Queries without that key are
        under None.

        Raises:
            InvalidInput: no query has that key.
        """
        query_ids = (*self.query_ids, *self.excluded)
        rows_of = rows_by(key, query_ids, self.metadata, "key")
        return {
            value: self.select(query_ids[row] for row in rows) for value, rows in rows_of.items()
        }

    def report(self, *, full: bool = False) -> Report:
        """Means, counts and notes; as a table, one row per query."""
        from llama_index_rag_metrics.stories.label_view import System
        from llama_index_rag_metrics.stories.results_report import systems_report

        return systems_report([System.of(self)])

    def to_json(self, path: str | Path | None = None) -> str:
        """All of it as JSON, which `from_json` reads back; written to `path` if given.

        Numbers of numpy become plain ones, dates ISO texts, and NaN null.

        Raises:
            InvalidInput: JSON can't hold a value, such as one of the metadata; says which.
        """
        return written(json_text(self._plain()), path)

    def _plain(self) -> dict[str, Any]:
        scores = {each: jsonable(self.columns[each].tolist(), "scores", each) for each in self}
        data = {
            "format": FORMAT,
            "name": self.name,
            "means": self.means,
            "counts": asdict(self.counts),
            "query_ids": self.query_ids,
            "scores": scores,
            **{part: getattr(self, part) for part in _PARTS},
            "usage": {metric: asdict(usage) for metric, usage in self.usage.items()},
        }
        plain = {part: jsonable(value, part) for part, value in data.items()}
        repeats = [run._plain() for run in self.repeats]
        return {**plain, **({"repeats": repeats} if repeats else {})}

    @classmethod
    def from_json(cls, source: str | Path) -> Scores:
        """Read what `to_json` wrote: a path, or the JSON text itself.

        Raises:
            InvalidInput: this isn't JSON that `to_json` wrote.
        """
        shown = str(source)
        is_text = isinstance(source, str) and shown.lstrip().startswith("{")
        text = shown if is_text else Path(source).read_text(encoding="utf-8")
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise InvalidInput("source", shown, f"JSON ({error})") from error
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise InvalidInput("source", shown, "JSON written by Scores.to_json")
        return cls._of_plain(data)

    @classmethod
    def _of_plain(cls, data: Mapping[str, Any]) -> Scores:
        columns = {
            metric: [math.nan if score is None else score for score in column]
            for metric, column in data["scores"].items()
        }
        rest = {part: data[part] for part in ("name", *_PARTS) if part in data}
        repeats = map(cls._of_plain, data.get("repeats", ()))
        return cls(data["query_ids"], columns, **rest, usage=data.get("usage"), repeats=repeats)

    def __eq__(self, other: object) -> bool:
        """Whether all parts are the same, with values as `to_json` writes them where it can."""
        return isinstance(other, Scores) and self._compared() == other._compared()

    def _compared(self) -> list[Any]:
        columns = [column.tolist() for column in self.columns.values()]
        loosely = [columns, *(getattr(self, part) for part in _PARTS)]
        exactly = [getattr(self, part) for part in _COMPARED_EXACTLY]
        return [*exactly, jsonable(loosely, strict=False)]

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        queries = questions(self.counts.scored)
        name = terminal(self.name) or "unnamed"
        times = f" {len(self.repeats)} times" if self.repeats else ""
        return f"<Scores {name}: {queries}{times}; {listed_means(self.means)}>"

    def column(self, metric: str) -> FloatArray:
        """The scores by one metric, one per query, in order; NaN where there is no value."""
        return self.columns[name_among(metric, self.metric_names)]


_COMPARED_EXACTLY = ("name", "query_ids", "metric_names", "usage", "repeats")
_PARTS = tuple(
    part for part in Scores.__annotations__ if part not in ("columns", *_COMPARED_EXACTLY)
)


def listed_means(means: Mapping[str, float]) -> str:
    """Means in one line, rounded."""
    return ", ".join(f"{metric}: {score(mean)}" for metric, mean in means.items())


def _of(wanted: set[str], by_query: Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(by_query, LazyMapping):
        return by_query.select(wanted)
    return {query_id: by_query[query_id] for query_id in by_query if query_id in wanted}
