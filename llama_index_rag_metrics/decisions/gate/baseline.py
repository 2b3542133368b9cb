"""Baseline: the scores that a change is measured against, in a file of the user's repository.

One line a query, sorted, so that a diff shows which queries changed. It holds no texts: of each
question, its judgements and its ranking there is a fingerprint that shows whether they are still
the same. Scores are written with 12 decimals, so that the last bits of another machine change
nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.decisions.comparison.pairing import Results, check_finite, scores_of
from llama_index_rag_metrics.decisions.gate.rules import Rule, RuleLike, parse_rules
from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults
from llama_index_rag_metrics.files.lines import Place, from_json, read_text
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.report.escape import terminal
from llama_index_rag_metrics.report.numbers import questions, score
from llama_index_rag_metrics.runtime.atomic_files import json_text, jsonable, write_text
from llama_index_rag_metrics.runtime.errors import BaselineMismatch, FileFormatError, InvalidInput
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.mappings import name_among

_DIGITS = 10

_FORMAT = "llama-index-rag-metrics baseline, version 1"

_DECIMALS, _DECIMALS_OF_MEANS = 12, 6
_OPTIONS = ("max_retrieved", "judged_only")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Digests of a query's text, its judgements and its ranked ids; "" where unknown."""

    question: str = ""
    judgements: str = ""
    ranking: str = ""


def fingerprints(results: Results) -> dict[str, Fingerprint]:
    scores = scores_of(results)
    relevance = results.relevance if isinstance(results, EvaluationResults) else {}
    return {
        query_id: Fingerprint(
            _digest(scores.queries[query_id]) if query_id in scores.queries else "",
            _digest(_grades_and_groups(relevance[query_id])) if query_id in relevance else "",
            scores.rankings.get(query_id, ""),
        )
        for query_id in (*scores.query_ids, *scores.excluded)
    }


def _grades_and_groups(relevance: Relevance) -> Any:
    grades = sorted((str(item), float(grade)) for item, grade in relevance.grades.items())
    groups = sorted(sorted(map(str, group)) for group in relevance.alternatives or ())
    return [grades, groups]


def _digest(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return sha256(text.encode("ascii")).hexdigest()[:_DIGITS]


@dataclass(frozen=True)
class Baseline:
    """Scores to measure a change against.

    Attributes:
        scores: those of every query; also which queries are left out of the means, and why.
        fingerprints: query id to the fingerprints of its question, judgements and ranking.
        version: the version of this package that made it.

    Examples:
        >>> baseline = Baseline.of(Scores(["q1"], {"mrr": [0.5]}), rules="mrr >= baseline - 0.02")
        >>> print(baseline.to_json())
        {
         "format": "llama-index-rag-metrics baseline, version 1",
         "version": "...",
         "name": "",
         "rules": ["mrr >= baseline - 0.02 at 95%"],
         "metrics": ["mrr"],
         "means": {"mrr": 0.5},
         "queries": {
          "q1": {"scores": [0.5]}
         }
        }
        <BLANKLINE>
    """

    scores: Scores
    fingerprints: Mapping[str, Fingerprint] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    version: str = ""

    @classmethod
    def of(
        cls, results: Results, *, metrics: Sequence[str] | None = None, rules: RuleLike = ()
    ) -> Baseline:
        """Make a baseline of results.

        Args:
            results: of an evaluation, or bare scores, which know no judgements.
            metrics: which to keep; None for all.
            rules: what to keep with them.

        Raises:
            InvalidInput: a query id isn't a text, a score is infinite, or a rule can't be read.
            UnknownMetric: there are no scores by one of the metrics.
        """
        from llama_index_rag_metrics import __version__

        scores = scores_of(results)
        wanted = scores.metric_names if metrics is None else metrics
        kept = [name_among(metric, scores.metric_names) for metric in wanted]
        return cls(
            _kept(scores, kept),
            fingerprints(results),
            parse_rules(rules) if rules else (),
            __version__,
        )

    def to_json(self) -> str:
        """The text of the file."""
        head = self._head(rules=[str(rule) for rule in self.rules])
        parts = [*_fields({"format": _FORMAT, **head})]
        parts.append(_block("queries", "{", "}", self._rows()))
        return "\n".join(["{", ",\n".join(parts), "}", ""])

    def save(self, path: str | Path) -> None:
        """Write the file, and its folder where there is none; whole or not at all."""
        write_text(path, self.to_json())

    def described(self, path: str | Path, before: Baseline | None) -> str:
        """What was stored where: "base.json: 50 questions stored", and a line for each mean."""
        n = questions(len(self.scores.query_ids))
        lines = [f"{terminal(str(path))}: {n} stored"]
        for metric, mean in self.scores.means.items():
            was = ""
            if before is not None and metric in before.scores:
                was = f"{score(before.scores.means[metric])} → "
            lines.append(f"  {terminal(metric)}  {was}{score(mean)}")
        return "\n".join(lines)

    @classmethod
    def load(cls, path: str | Path) -> Baseline:
        """Read the file.

        Raises:
            FileFormatError: `save` didn't write it, or it was damaged since.
            FileNotFoundError: there is none.
        """
        data = from_json(read_text(Path(path)), Place(str(path)))
        form = data.get("format") if isinstance(data, dict) else None
        if form != _FORMAT:
            expected = f"a file whose format is {_FORMAT!r}"
            raise FileFormatError(str(path), None, expected)
        try:
            return _read(data)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            expected = "a baseline as it was written; store a new one"
            raise FileFormatError(str(path), None, expected, f"{error}") from error

    def check_queries(self, results: Results) -> tuple[str, ...]:
        """The ids of the queries, which are the same in both.

        Those with another question or other judgements aren't the same; what one side doesn't know
        isn't compared.

        Raises:
            BaselineMismatch: they aren't all the same.
        """
        sides = self.fingerprints, fingerprints(results)
        before, after = {*self.scores.query_ids, *self.scores.excluded}, sides[1].keys()
        common = before & after

        def changed(part: str) -> set[str]:
            return {
                query_id
                for query_id in common
                if len({getattr(side.get(query_id), part, "") for side in sides} - {""}) > 1
            }

        differences = {
            "missing now": before - after,
            "new": after - before,
            "with another question": changed("question"),
            "with other labels": changed("judgements"),
        }
        if any(differences.values()):
            listed = {what: sorted(map(str, ids)) for what, ids in differences.items() if ids}
            raise BaselineMismatch(listed)
        return tuple(after)

    def _head(self, **further: Any) -> dict[str, Any]:
        scores, head = self.scores, {"version": self.version, "name": self.scores.name}
        means = {metric: round(mean, _DECIMALS_OF_MEANS) for metric, mean in scores.means.items()}
        options = {each: value for each in _OPTIONS if (value := getattr(scores, each))}
        of_metrics = {"metrics": scores.metric_names, "means": jsonable(means)}
        return {**head, **options, **further, **of_metrics}

    def _rows(self) -> Iterator[str]:
        columns = [self.scores.by_query(metric) for metric in self.scores]
        for query_id in sorted({*self.scores.query_ids, *self.scores.excluded}):
            prints = asdict(self.fingerprints.get(query_id, Fingerprint()))
            row: dict[str, Any] = {part: digest for part, digest in prints.items() if digest}
            values = [by_query.get(query_id) for by_query in columns]
            if query_id in self.scores.excluded:
                row["excluded"] = self.scores.excluded[query_id]
            # left out of most means, it may have a value by "abstained", or by metrics of texts
            if "excluded" not in row or any(value is not None for value in values):
                row["scores"] = values
            yield f"  {json_text(query_id)}: {json_text(row)}"


def _kept(scores: Scores, metrics: Sequence[str]) -> Scores:
    for query_id in (*scores.query_ids, *scores.excluded):
        if not isinstance(query_id, str):
            raise InvalidInput("query id", query_id, "a text", "Convert it with str().")
    check_finite(scores, metrics)
    return Scores(
        scores.query_ids,
        {
            metric: [round(score, _DECIMALS) for score in scores.column(metric).tolist()]
            for metric in metrics
        },
        excluded=scores.excluded,
        name=scores.name,
        **{option: getattr(scores, option) for option in _OPTIONS},
    )


def _fields(values: Mapping[str, Any]) -> list[str]:
    return [f" {json_text(key)}: {json_text(value)}" for key, value in values.items()]


def _block(key: str, start: str, end: str, lines: Iterable[str]) -> str:
    listed = ",\n".join(lines)
    value = f"{start}\n{listed}\n {end}" if listed else start + end
    return f" {json_text(key)}: {value}"


def _read(data: Mapping[str, Any]) -> Baseline:
    metrics, rows = data["metrics"], data["queries"]
    scored = {
        query_id: row["scores"]
        for query_id, row in rows.items()
        if "excluded" not in row or "scores" in row
    }
    excluded = {query_id: row["excluded"] for query_id, row in rows.items() if "excluded" in row}
    options = {option: data[option] for option in _OPTIONS if option in data}
    scores = Scores(
        [*scored], _columns(scored, metrics), excluded=excluded, name=data["name"], **options
    )
    check_finite(scores, metrics)
    parts = [part.name for part in fields(Fingerprint)]
    rules = data.get("rules")
    return Baseline(
        scores,
        {
            query_id: Fingerprint(*(row.get(part, "") for part in parts))
            for query_id, row in rows.items()
        },
        parse_rules(rules) if rules else (),
        data["version"],
    )


def _columns(
    rows: Mapping[str, Sequence[float | None]], metrics: Sequence[str]
) -> dict[str, list[float]]:
    if any(len(row) != len(metrics) for row in rows.values()):
        raise ValueError(f"a question without {len(metrics)} scores")
    if any(score is not None and math.isnan(score) for row in rows.values() for score in row):
        raise ValueError("a score that is NaN, where null stands for none")
    columns = zip(*rows.values(), strict=True) if rows else [()] * len(metrics)
    return {
        metric: [math.nan if score is None else float(score) for score in column]
        for metric, column in zip(metrics, columns, strict=True)
    }
