"""Baseline: the scores that a change is measured against, in a file of the user's repository.

One line a query, sorted, so that a diff shows which queries changed. It holds no texts: of each
question, and where they are known of its judgements, there is a fingerprint that shows whether they
are still the same. Scores are written with 12 decimals, so that the last bits of another machine
change nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.errors import BaselineMismatch, FileFormatError, InvalidInput
from llama_index_rag_metrics.evaluation import EvaluationResults
from llama_index_rag_metrics.gate.rules import Rule, parse_rules
from llama_index_rag_metrics.jsonable import jsonable
from llama_index_rag_metrics.relevance import Relevance
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.writing import write_text

_FORMAT = "llama-index-rag-metrics baseline, version 1"
_DECIMALS, _DECIMALS_OF_MEANS = 12, 6
_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Of a query: "" for what isn't known."""

    question: str = ""
    judgements: str = ""


@dataclass(frozen=True)
class Baseline:
    """Scores to measure a change against.

    Attributes:
        scores: of every query; also which queries are left out of the means, and why.
        fingerprints: query id to the fingerprint of its question and judgements.
        rules: rules that are kept with it.
        version: of this package, when it was made.

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
        cls,
        results: EvaluationResults | Scores,
        *,
        metrics: Sequence[str] | None = None,
        rules: str | Rule | Iterable[str | Rule] = (),
    ) -> Baseline:
        """The baseline that some results make.

        Args:
            results: of an evaluation, or bare scores, which know no judgements.
            metrics: which to keep; None for all.
            rules: what to keep with them.

        Raises:
            InvalidInput: a query id isn't a text, or a rule can't be read.
            UnknownMetric: there are no scores by one of the metrics.
        """
        from llama_index_rag_metrics import __version__

        scores = results if isinstance(results, Scores) else results.scores
        ids = (*scores.query_ids, *scores.excluded)
        for query_id in ids:
            if not isinstance(query_id, str):
                raise InvalidInput("query id", query_id, "a text", "Convert it with str().")
        wanted = scores.metric_names if metrics is None else tuple(metrics)
        columns = {metric: scores.by_query(metric) for metric in wanted}
        return cls(
            Scores(
                scores.query_ids,
                {
                    metric: [_rounded(by_query.get(one, math.nan)) for one in scores.query_ids]
                    for metric, by_query in columns.items()
                },
                excluded=scores.excluded,
                name=scores.name,
            ),
            fingerprints(results),
            parse_rules(rules) if rules else (),
            __version__,
        )

    def to_json(self) -> str:
        """The text of the file."""
        columns = [self.scores.by_query(metric) for metric in self.scores]
        rows = []
        for query_id in sorted({*self.scores.query_ids, *self.scores.excluded}):
            known = self.fingerprints.get(query_id, Fingerprint())
            row: dict[str, Any] = {}
            if known.question:
                row["question"] = known.question
            if known.judgements:
                row["judgements"] = known.judgements
            if query_id in self.scores.excluded:
                row["excluded"] = self.scores.excluded[query_id]
            else:
                row["scores"] = [by_query.get(query_id) for by_query in columns]
            rows.append(f"  {_line(query_id)}: {_line(row)}")
        means = {one: round(mean, _DECIMALS_OF_MEANS) for one, mean in self.scores.means.items()}
        head = {
            "format": _FORMAT,
            "version": self.version,
            "name": self.scores.name,
            "rules": [str(one) for one in self.rules],
            "metrics": list(self.scores.metric_names),
            "means": jsonable(means, "means"),
        }
        lines = [f" {_line(key)}: {_line(value)}," for key, value in head.items()]
        return "\n".join(["{", *lines, ' "queries": {', ",\n".join(rows), " }", "}", ""])

    def save(self, path: str | Path) -> None:
        """Write the file, and its folder where there is none; whole or not at all."""
        write_text(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> Baseline:
        """Read the file.

        Raises:
            FileFormatError: `save` didn't write it, or it was damaged since.
            FileNotFoundError: there is none.
        """
        text = Path(path).read_text(encoding="utf-8")
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise FileFormatError(str(path), error.lineno, f"JSON ({error.msg})") from error
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            raise FileFormatError(str(path), None, f"a file whose format is {_FORMAT!r}")
        try:
            return _read(data)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            wish = "a baseline as it was written; store a new one"
            raise FileFormatError(str(path), None, wish, f"{error}") from error

    def check_queries(
        self, results: EvaluationResults | Scores, *, intersect: bool = False
    ) -> tuple[str, ...]:
        """The ids of the queries that are the same in both.

        Those with another question or other judgements aren't the same; what one side doesn't know
        isn't compared.

        Raises:
            BaselineMismatch: they aren't all the same; with `intersect`, none is.
        """
        now, scores = fingerprints(results), _scores(results)
        before = {*self.scores.query_ids, *self.scores.excluded}
        after = {*scores.query_ids, *scores.excluded}
        common = before & after
        differences = {
            "missing now": before - after,
            "new": after - before,
            "with another question": self._changed("question", common, now),
            "with other judgements": self._changed("judgements", common, now),
        }
        same = common.difference(*differences.values())
        if not same or (any(differences.values()) and not intersect):
            listed = {what: sorted(map(str, ids)) for what, ids in differences.items() if ids}
            raise BaselineMismatch(listed, len(same))
        return tuple(one for one in (*scores.query_ids, *scores.excluded) if one in same)

    def _changed(self, part: str, common: set[str], now: Mapping[str, Fingerprint]) -> set[str]:
        changed = set()
        for query_id in common:
            pair = (getattr(one.get(query_id), part, "") for one in (self.fingerprints, now))
            before, after = pair
            if before and after and before != after:
                changed.add(query_id)
        return changed


def fingerprints(results: EvaluationResults | Scores) -> dict[str, Fingerprint]:
    """Query id to the fingerprint of its question and of its judgements, as far as known."""
    scores = _scores(results)
    relevance = results.relevance if isinstance(results, EvaluationResults) else {}
    return {
        query_id: Fingerprint(
            _digest(scores.queries[query_id]) if query_id in scores.queries else "",
            _digest(_plain(relevance[query_id])) if query_id in relevance else "",
        )
        for query_id in (*scores.query_ids, *scores.excluded)
    }


def _scores(results: EvaluationResults | Scores) -> Scores:
    return results if isinstance(results, Scores) else results.scores


def _plain(relevance: Relevance) -> Any:
    grades = sorted((str(one), float(grade)) for one, grade in relevance.grades.items())
    groups = sorted(sorted(map(str, group)) for group in relevance.alternatives or ())
    return [grades, groups]


def _digest(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return sha256(text.encode("ascii")).hexdigest()[:_DIGITS]


def _rounded(score: float) -> float:
    return round(score, _DECIMALS)


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _read(data: Mapping[str, Any]) -> Baseline:
    metrics, rows = data["metrics"], data["queries"]
    scored = {one: row["scores"] for one, row in rows.items() if "excluded" not in row}
    if any(len(row) != len(metrics) for row in scored.values()):
        raise ValueError(f"a query without {len(metrics)} scores")
    columns = {
        metric: [math.nan if row[at] is None else float(row[at]) for row in scored.values()]
        for at, metric in enumerate(metrics)
    }
    excluded = {one: row["excluded"] for one, row in rows.items() if "excluded" in row}
    return Baseline(
        Scores(list(scored), columns, excluded=excluded, name=data["name"]),
        {
            one: Fingerprint(row.get("question", ""), row.get("judgements", ""))
            for one, row in rows.items()
        },
        parse_rules(data["rules"]) if data["rules"] else (),
        data["version"],
    )
