"""Scores: query ids × metric names, and what their means leave out."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, fields, replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from llama_index_rag_metrics.files.lines import Location, from_json, read_text
from llama_index_rag_metrics.metrics import metric_names
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.report.numbers import questions, score
from llama_index_rag_metrics.report.reportable import Reportable, written
from llama_index_rag_metrics.report.text import one_line
from llama_index_rag_metrics.runtime.atomic_files import json_text, jsonable
from llama_index_rag_metrics.runtime.containers import FloatArray, map_values, picked
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import describe_error, join_first, without_secrets
from llama_index_rag_metrics.statistics.intervals import MeanInterval, exact_mean, mean_intervals

from .counts import Counts, Reason, clusters_of, slice_of, unknown_key
from .retrieval import Retrieval

if TYPE_CHECKING:
    from llama_index_rag_metrics.report.model import Report
    from llama_index_rag_metrics.stories.story import HardQuestions

FORMAT = "llama-index-rag-metrics scores, version 1"


@dataclass(frozen=True, eq=False, repr=False)
class Scores(Reportable):
    """The score of every query by every metric. Scores never change; `replace` makes new ones.

    Attributes:
        query_ids: the queries that were scored, in order.
        columns: metric name to one score per query, in that order; NaN where there is no value, as
            of a failed query by a metric of which less is better: 0 would be the best.
        excluded: query id to the reason, of the queries that aren't scored.
        failed: query id to error, of the queries on which the retriever failed.
        empty: the queries for which nothing was retrieved.
        no_relevant: the queries with nothing relevant that are scored nevertheless.
        queries: query id to its text, for reports.
        metadata: query id to its metadata, for slices.
        name: what to call the scored system in reports.
        notes: what a reader of the numbers should know.
        label_notes: those of the notes that say that labels don't fit: first lines repeat them.
        retrieval: what was retrieved and wanted, for stories; None where it isn't known.
        repeats: the scores of each run of several; a question's score is the mean of its runs.

    Examples:
        >>> scores = Scores(["q1", "q2"], {"mrr": [1.0, 0.5]})
        >>> scores.means["mrr"]
        0.75
    """

    query_ids: Sequence[str]
    columns: Mapping[str, Any]
    _: KW_ONLY
    excluded: Mapping[str, Reason] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    empty: Sequence[str] = ()
    no_relevant: Sequence[str] = ()
    queries: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    name: str = ""
    notes: Sequence[str] = ()
    label_notes: Sequence[str] = ()
    retrieval: Retrieval | None = None
    repeats: tuple[Scores, ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.query_ids)) < len(self.query_ids):
            again, _ = Counter(self.query_ids).most_common(1)[0]
            remedy = "Runs of one question are scored as Run(repeats=runs)."
            raise InvalidInput("query_ids", again, "every question once", remedy)
        values = vars(self)  # past the __setattr__ of what can't be changed
        for part in _SEQUENCES:
            values[part] = tuple(values[part])
        for part in _BY_QUERY:
            values[part] = dict(values[part])
        values["failed"] = map_values(describe_error, self.failed)
        values["metadata"] = map_values(dict, map_values(without_secrets, self.metadata))
        values["columns"] = self._read_columns()

    def _read_columns(self) -> dict[str, FloatArray]:
        columns: dict[str, FloatArray] = {}
        for metric, scores in self.columns.items():
            if np.shape(scores) != (len(self.query_ids),):
                expected = f"{len(self.query_ids)} numbers"
                raise InvalidInput(f"scores of {metric}", np.shape(scores), expected)
            column = np.array(scores, np.float64)
            if self.failed and metric_names.lower_is_better(metric):
                column[[query_id in self.failed for query_id in self.query_ids]] = np.nan
            column.flags.writeable = False
            columns[metric] = column
        return columns

    def replace(self, **parts: Any) -> Scores:
        """Scores with some parts changed, by the names of the constructor's arguments."""
        return replace(self, **parts)

    @property
    def metric_names(self) -> tuple[str, ...]:
        return tuple(self.columns)

    @cached_property
    def counts(self) -> Counts:
        """How many queries the means are taken over, and how many are special."""
        queries = {*self.query_ids, *self.excluded}
        reasons = list(self.excluded.values())
        failed, empty = set[str](), set[str]()
        for run in self.repeats or (self,):
            failed.update(run.failed)
            empty.update(run.empty)
        return Counts(
            queries=len(queries),
            scored=len(queries) - len(self.excluded),
            failed=len(failed),
            empty=len(empty),
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
        """The queries that should have a value by a metric, those that failed among them."""
        if metric_names.of_unanswerable(metric):
            return {*self.unanswerable, *self.by_query(metric)}
        left_out = {name for name, reason in self.excluded.items() if reason != "failed"}
        if not left_out.isdisjoint(self.by_query(metric)):
            left_out = set()
        return {*self.query_ids, *self.excluded} - left_out

    @property
    def is_measured(self) -> bool:
        """Whether any query that is scored was answered: failures alone are no measurement."""
        return not self.failed.keys() >= set(self.query_ids)

    def rankings(self, query_id: str) -> list[tuple[str, ...]]:
        """The ids that each run retrieved for a query, where that is known."""
        rankings = []
        for scores in self.repeats or [self]:
            if scores.retrieval is not None and scores.retrieval.run:
                ranking = scores.retrieval.run.get(query_id, Ranking())
                rankings.append(tuple(map(str, ranking.ids)))
        return rankings

    @cached_property
    def means(self) -> Mapping[str, float]:
        """Metric name to the mean over the queries that have a value; NaN for none."""
        return {metric: exact_mean(self[metric]) for metric in self.columns}

    def n(self, metric: str) -> int:
        """How many queries the metric's mean is taken over."""
        return len(self[metric])

    def column(self, metric: str) -> FloatArray:
        """The scores by one metric, one per query, in order; NaN where there is no value."""
        column: FloatArray = self.columns[name_among(metric, self.metric_names)]
        return column

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

    @property
    def per_query(self) -> dict[str, dict[str, float]]:
        """Query id to metric name to score."""
        rows: dict[str, dict[str, float]] = {query_id: {} for query_id in self.query_ids}
        for metric in self.columns:
            for query_id, value in self.by_query(metric).items():
                rows[query_id][metric] = value
        return rows

    def intervals(self, *, confidence: float = 0.95) -> dict[str, MeanInterval]:
        """Metric name to its mean with an interval of this confidence; conversations are units."""
        shape = len(self.columns), len(self.query_ids)
        columns = np.reshape(list(self.columns.values()), shape).T
        limits = list(map(metric_names.limits_of, self.columns))
        clusters = None
        if self.metadata:
            clusters = clusters_of(None, self.query_ids, self.metadata)
        intervals = mean_intervals(columns, confidence=confidence, limits=limits, clusters=clusters)
        return dict(zip(self.columns, intervals, strict=True))

    def worst(self, metric: str | None = None, n: int = 10) -> HardQuestions:
        """The n queries of the worst scores, as (query id, score); ties keep their order.

        Without a metric, the first. They print as their stories.
        """
        from llama_index_rag_metrics.stories.label_view import System
        from llama_index_rag_metrics.stories.story import HardQuestions

        return HardQuestions(System.of(self), metric, n)

    def select(self, query_ids: Iterable[str]) -> Scores:
        """The scores of some of the queries only, with their own counts, and the notes on all."""
        chosen_ids, parts = set(query_ids), dict[str, Any]()
        for part in ("query_ids", "empty", "no_relevant", *_BY_QUERY):
            values = getattr(self, part)
            parts[part] = [query_id for query_id in values if query_id in chosen_ids]
            if part in _BY_QUERY:
                parts[part] = picked(values, parts[part])
        positions = [n for n, query_id in enumerate(self.query_ids) if query_id in chosen_ids]
        if not chosen_ids.issuperset([*self.query_ids, *self.excluded]):
            of_all = f" (of all {questions(self.counts.queries)})"
            for part in ("notes", "label_notes"):
                parts[part] = [note + of_all for note in getattr(self, part)]
        return self.replace(
            columns=map_values(itemgetter(positions), self.columns),
            retrieval=self.retrieval and self.retrieval.select(chosen_ids),
            repeats=[run.select(chosen_ids) for run in self.repeats],
            **parts,
        )

    def join(self, columns: Mapping[str, Mapping[str, float]], order: Sequence[str]) -> Scores:
        """These scores and those by further metrics, by query id, in this order of all metrics."""
        scored = dict.fromkeys(self.query_ids)
        for by_query in columns.values():
            scored |= dict.fromkeys(by_query)
        query_ids = list(picked(scored, (*self.queries, *scored)))
        joined = {}
        for metric in order:
            values = columns[metric] if metric in columns else self.by_query(metric)
            joined[metric] = [values.get(query_id, math.nan) for query_id in query_ids]
        return self.replace(query_ids=query_ids, columns=joined)

    def slices(self, key: str) -> dict[str | None, Scores]:
        """The scores split by a value of the queries' metadata, such as the language.

        By values as texts: 1, 1.0 and "1" are one, True is another; without that key, under None.

        Raises:
            InvalidInput: no query has that key.
        """
        query_ids: dict[str | None, list[str]] = {}
        for query_id in (*self.query_ids, *self.excluded):
            value = slice_of(self.metadata.get(query_id, {}).get(key))
            query_ids.setdefault(value, []).append(query_id)
        if set(query_ids) <= {None}:
            raise unknown_key("key", key, self.metadata)
        return map_values(self.select, query_ids)

    def report(self, *, full: bool = False) -> Report:
        """Means, counts and notes; as a table, one row per query."""
        from llama_index_rag_metrics.stories.label_view import System
        from llama_index_rag_metrics.stories.results_report import systems_report

        return systems_report([System.of(self)])

    def to_json(self, path: str | Path | None = None) -> str:
        """All of it as JSON, which `from_json` reads back; written to `path` if given.

        Numbers of numpy become plain ones, dates ISO texts, NaN null; of texts the beginnings.

        Raises:
            InvalidInput: JSON can't hold a value, such as one of the metadata; says which.
        """
        return written(json_text(self._plain()), path)

    def _plain(self, *, strict: bool = True) -> dict[str, Any]:
        parts, limits = picked(vars(self), _PARTS), {}
        for metric in self.columns:  # as texts: JSON has no infinity
            limits[metric] = list(map(str, metric_names.limits_of(metric)))
        data = {
            "format": FORMAT,
            "scores": map_values(np.ndarray.tolist, parts.pop("columns")),
            "less_is_better": list(filter(metric_names.lower_is_better, self.columns)),
            "limits": limits,
            "means": self.means,
            "counts": asdict(self.counts),
        }
        repeats, retrieval = parts.pop("repeats"), parts.pop("retrieval")
        if retrieval is not None:
            data["retrieval"] = retrieval.to_plain()
        plain: dict[str, Any] = jsonable({**data, **parts}, strict=strict)
        if repeats:
            plain["repeats"] = [run._plain(strict=strict) for run in repeats]
        return plain

    @classmethod
    def from_json(cls, source: str | Path) -> Scores:
        """Read what `to_json` wrote: a path, or the JSON text itself.

        Raises:
            InvalidInput: this isn't JSON that `to_json` wrote.
        """
        text = str(source)
        if not text.lstrip().startswith("{"):
            text = read_text(Path(source))
        try:
            return cls._read(json.loads(text))
        except json.JSONDecodeError as error:
            raise InvalidInput("source", str(source), f"JSON ({error})") from error

    @classmethod
    def _read(cls, data: Any) -> Scores:
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise InvalidInput("source", data, "JSON written by Scores.to_json")
        metric_names.LESS_IS_BETTER.update(data.get("less_is_better", ()))
        for metric, (lowest, highest) in data.get("limits", {}).items():
            metric_names.LIMITS[metric] = float(lowest), float(highest)
        parts = picked({**data, "columns": data["scores"]}, _PARTS)
        parts["repeats"] = map(cls._read, data.get("repeats", ()))
        if "retrieval" in data:
            parts["retrieval"] = Retrieval.of_plain(data["retrieval"])
        return cls(**parts)

    def __eq__(self, other: object) -> bool:
        """Whether all parts are the same, with values as `to_json` writes them where it can."""
        if not isinstance(other, Scores) or self.metric_names != other.metric_names:
            return False
        return self._plain(strict=False) == other._plain(strict=False)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        queries = questions(self.counts.scored or max(map(self.n, self), default=0))
        name = one_line(self.name) or "unnamed"
        times = f" {len(self.repeats)} times" if self.repeats else ""
        return f"<Scores {name}: {queries}{times}; {listed_means(self.means)}>"


_PARTS = tuple(part.name for part in fields(Scores))
_BY_QUERY = ("excluded", "failed", "queries", "metadata")
_SEQUENCES = ("query_ids", "empty", "no_relevant", "notes", "label_notes", "repeats")


def listed_means(means: Mapping[str, float]) -> str:
    return ", ".join(f"{metric}: {score(mean)}" for metric, mean in means.items())


def json_of(systems: Sequence[Scores]) -> str:
    """{name: scores}, each as `Scores.from_json` reads it."""
    return json_text({scores.name: scores._plain() for scores in systems}, indent=1)


def read_json(path: Path) -> dict[str, Scores]:
    """What `json_of` wrote, or `Scores.to_json`, whose scores are under ""."""
    location = Location(str(path))
    expected = "scores, as `rag-metrics evaluate --json` or Scores.to_json writes them"
    with location.expecting(expected, ValueError, KeyError, TypeError, AttributeError):
        data = from_json(read_text(path), location)
        is_of_systems = isinstance(data, dict) and data and "format" not in data
        return map_values(Scores._read, data if is_of_systems else {"": data})


def name_among(name: str, names: Collection[str]) -> str:
    if name not in names:
        raise InvalidInput("metric", name, f"a metric that was scored: {join_first([*names], 10)}")
    return name
