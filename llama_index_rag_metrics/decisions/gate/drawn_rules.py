"""Rules against the baseline, decided by drawn questions: the difference is that over all asked.

A bound is that of the drawn questions times the share that changed, at the share's own bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

from llama_index_rag_metrics.decisions.clusters import Clusters
from llama_index_rag_metrics.decisions.comparison.drawn_pairing import (
    check_metric,
    check_rankings,
    drawn_scores,
    irrelevant_note,
    means_note,
    stretched,
)
from llama_index_rag_metrics.decisions.draws import Draw
from llama_index_rag_metrics.decisions.gate.baseline import Baseline
from llama_index_rag_metrics.decisions.gate.measuring import (
    Bounds,
    Measured,
    PairedEvidence,
    measure_against,
    name_in,
)
from llama_index_rag_metrics.decisions.gate.rules import Rule
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.statistics.differences import pseudo_queries
from llama_index_rag_metrics.statistics.sample_size import Aim, Changes

COUNTED, REACH = 3, 1.15
"""How often R counts among the changes seen, and what it is multiplied by to pass a rule.

With less, changes whose few losses hide among the drawn pass too often (benchmarks/README.md).
"""


@dataclass(frozen=True, kw_only=True)
class DrawnEvidence(PairedEvidence):
    """Differences of drawn questions times the share that changed."""

    draw: Draw
    grouped_by: Clusters | None

    @classmethod
    def of(cls, evidence: PairedEvidence, draw: Draw, clusters: Clusters | None) -> DrawnEvidence:
        parts = {part.name: getattr(evidence, part.name) for part in fields(evidence)}
        for name in ("values", "changes", "widest"):
            if parts[name] is not None:
                parts[name] = draw.share * parts[name]
        return cls(**parts, draw=draw, grouped_by=clusters)

    def bounds(self, confidence: float) -> Bounds:
        low, high = super().bounds(confidence)
        if low is None or high is None:
            return None, None
        cautious = pseudo_queries(self._units, REACH * self.widest, counted=COUNTED)
        low = float(cautious.bounds(confidence)[0][0])
        mean = math.fsum(self.values.tolist()) / len(self.values)
        ends = stretched((low, high), self.draw, confidence, self.grouped_by)
        return min(ends[0], mean), max(ends[1], mean)

    def needed(self, tolerance: float, confidence: float) -> int | None:
        """How many questions to draw would do; None where no more changed."""
        needed = super().needed(tolerance / self._stretch(confidence), confidence)
        return None if needed is None or needed > len(self.draw.changed) else needed

    def decidable(self, confidence: float) -> float | None:
        loss = super().decidable(confidence)
        return None if loss is None else loss * self._stretch(confidence)

    @cached_property
    def seen(self) -> Changes:
        return replace(super().seen, widest=REACH * self.widest)

    def _aim(self, confidence: float) -> Aim:
        return super()._aim(confidence)._replace(counted=COUNTED)

    def _stretch(self, confidence: float) -> float:
        """How much larger a loss is if the share that changed lies at its bound."""
        return self.draw.share_between(confidence, self.grouped_by)[1] / self.draw.share


def check_drawn_rules(rules: Sequence[Rule], draw: Draw, scores: Scores) -> None:
    """Refuse rules that a draw can't decide."""
    for rule in rules:
        if not rule.baseline or rule.anchor:
            remedy = "Check such rules without the draw, on labelled questions drawn from all."
            expected = "a rule against the baseline, since a draw is of differences between two"
            raise InvalidInput("rule", str(rule), expected, remedy)
        if rule.every:
            remedy = "compare(..., drawn=draw, slices=...) shows what was drawn of each slice."
            expected = "a rule over all questions, since too few of a slice are drawn"
            raise InvalidInput("rule", str(rule), expected, remedy)
        check_metric(draw, name_in(scores, rule.metric))


def drawn_baseline(stored: Baseline, now: Scores, draw: Draw) -> tuple[Baseline, list[str]]:
    """The baseline with its anchor left aside, after a check that both are what was drawn from."""
    before = {query_id: each.ranking for query_id, each in stored.fingerprints.items()}
    notes = check_rankings(draw, {"the baseline": before, "now": now.rankings})
    if stored.anchor is not None:
        notes.append("the anchor isn't checked: it wasn't drawn from")
    if draw.drawn:
        notes += [means_note(draw), *irrelevant_note(draw, (stored.scores, now))]
    return replace(stored, anchor=None), notes


def measure_drawn(
    rule: Rule, now: Scores, stored: Baseline, draw: Draw, clusters: Clusters | None
) -> Measured:
    """Measure a rule by the drawn questions; without any, nothing changed."""
    metric = name_in(now, rule.metric)
    if not draw.changed:
        mean, n = now.means[metric], len(draw.asked)
        return Measured(metric, mean, n, n, {}, mean, 0.0, identical=True)
    sides = [
        drawn_scores(scores, draw, name, [metric])
        for name, scores in (("the baseline", stored.scores), ("now", now))
    ]
    [measured] = measure_against(
        rule, sides[1], replace(stored, scores=sides[0]), draw.drawn, clusters
    )
    evidence = measured.evidence
    if isinstance(evidence, PairedEvidence):
        evidence = DrawnEvidence.of(evidence, draw, clusters)
    difference = draw.share * (measured.difference or 0.0)
    # what was drawn did change, if not by ids
    return replace(measured, difference=difference, evidence=evidence, identical=False)
