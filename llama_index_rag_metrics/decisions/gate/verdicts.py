"""Verdict: what a rule says of some scores; GateReport: all of them together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from llama_index_rag_metrics.decisions.gate.rules import Rule
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.atomic_files import write_text
from llama_index_rag_metrics.runtime.jsonable import jsonable

if TYPE_CHECKING:
    from llama_index_rag_metrics.report import Report

Outcome: TypeAlias = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True, slots=True)
class WorstQuery:
    """A query that counts against a rule.

    Attributes:
        query_id: its id.
        question: its text; "" where that isn't known.
        score: now.
        baseline: before; None for a rule without a baseline.
        wanted: the relevant items, best grade first; empty where they aren't known.
        got: what was retrieved, best first, with its grade where it was judged.
        error: why nothing was retrieved.
        leaked: what was retrieved although the asker may not see it, (rank, id), best first; of
            metrics of leaks.
    """

    query_id: str
    question: str
    score: float
    baseline: float | None
    wanted: tuple[str, ...] = ()
    got: tuple[str, ...] = ()
    error: str = ""
    leaked: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one rule.

    Attributes:
        rule: the rule.
        metric: the name under which the scores have its metric.
        outcome: "pass", "fail" or "inconclusive".
        value: the mean now, over the queries compared, or the count.
        baseline: the mean of the baseline, or of the anchor, over the same queries; None without
            one.
        difference: the mean paired difference, now minus baseline; None without a baseline.
        lower: one-sided lower bound of the difference, or of the mean if there is no baseline; None
            where it isn't used or can't be given.
        upper: the other one-sided bound. The one that lets a rule pass has the rule's confidence,
            the one that lets it fail that of `together` rules.
        n: how many queries have a value, on both sides.
        method: how the bounds were made; "" where there are none.
        needed: how many queries like these would show with power 0.8 that nothing is lost, if
            nothing truly changed; None where the verdict is clear, or no number would.
        sentence: all this in plain words.
        worst: the queries that count most against the rule, worst first.
        expected: how many queries should have a value.
        covered: whether enough of them have one.
        together: how many rules, each counted once, it is corrected for.
        decidable: the smallest loss that this many queries rule out with power 0.8, if nothing
            truly changed; None where the verdict is clear, or that loss intolerable.
    """

    rule: Rule
    metric: str
    outcome: Outcome
    value: float | int
    baseline: float | None
    difference: float | None
    lower: float | None
    upper: float | None
    n: int
    method: str
    needed: int | None
    sentence: str
    worst: tuple[WorstQuery, ...] = ()
    expected: int = 0
    covered: bool = True
    together: int = 1
    decidable: float | None = None

    @property
    def confidence(self) -> float:
        """Confidence of the deciding bound: corrected for `together` rules where it fails."""
        asked = self.rule.confidence or 0.0
        return 1 - (1 - asked) / self.together if self.outcome == "fail" else asked


@dataclass(frozen=True)
class GateReport(Reportable):
    """The verdicts of a gate.

    Attributes:
        verdicts: one for each rule, in their order.
        name: of what was measured.
        notes: what a reader of the verdicts should know.

    Examples:
        >>> from llama_index_rag_metrics import assert_retrieval, score_rankings
        >>> relevant = {"q1": ["a"], "q2": ["b"]}
        >>> scores = score_rankings(relevant, relevant, "recall@5")
        >>> report = assert_retrieval(scores, "recall@5 >= 0.7")
        >>> report.outcome, len(report.verdicts)
        ('pass', 1)
    """

    verdicts: tuple[Verdict, ...]
    name: str = ""
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """The worst of the verdicts."""
        outcomes = {verdict.outcome for verdict in self.verdicts}
        return next(
            (outcome for outcome in ("fail", "inconclusive") if outcome in outcomes), "pass"
        )

    def broken(self, *, strict: bool = False) -> Sequence[Verdict]:
        """The verdicts that close the gate: the failed ones; with `strict`, the inconclusive ones,
        too."""
        shut = {"fail", "inconclusive"} if strict else {"fail"}
        return [verdict for verdict in self.verdicts if verdict.outcome in shut]

    def with_worst(self) -> Sequence[Verdict]:
        """The verdicts that aren't "pass", each list of worst queries once."""
        shown = {
            verdict.worst: verdict
            for verdict in reversed(self.broken(strict=True))
            if verdict.worst
        }
        return list(reversed(shown.values()))

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    def report(self, *, full: bool = False) -> Report:
        """The verdicts, the worst queries and why; as a table, one row per verdict."""
        from llama_index_rag_metrics.decisions.gate.gate_report import gate_report

        return gate_report(self)

    def to_json(self, path: str | Path | None = None) -> str:
        """All of it, unrounded; written to `path`, if given."""
        content = {
            "outcome": self.outcome,
            "name": self.name,
            "verdicts": [
                {**asdict(verdict), "rule": str(verdict.rule)} for verdict in self.verdicts
            ],
            "notes": self.notes,
        }
        text = json.dumps(jsonable(content, "gate"), ensure_ascii=False, indent=1, allow_nan=False)
        if path is not None:
            write_text(path, text + "\n")
        return text
