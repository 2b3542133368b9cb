"""What to do after a comparison: take the best system, or ask more questions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llama_index_rag_metrics.metrics.metric_names import limits_of, lower_is_better, worst_score
from llama_index_rag_metrics.report.numbers import given, questions, rounded_up, two_digits_up
from llama_index_rag_metrics.statistics.intervals import number_clusters
from llama_index_rag_metrics.statistics.sample_size import FEWEST_CHANGED, Changes, to_be_better
from llama_index_rag_metrics.statistics.shortfalls import beats_all

from .difference import Difference
from .pairing import Paired

BEST = "{system} is the best of {systems} on {metric}."
_COUNTS = "Of {others} others on {metric}, {better} are better than {baseline} and {worse} worse."
CHOICES = {
    "questions": (
        "Not enough questions to choose: with about {needed} like these, a difference of {margin} "
        "would be detected 80 % of the time; until then {meanwhile}."
    ),
    "detectable": (
        "Not enough questions to choose: {questions} detect a difference of {detectable} 80 % of "
        "the time; until there are more, {meanwhile}."
    ),
    "unknown": "Not enough questions to choose: until there are more, {meanwhile}.",
    "keep": "No system is better than {baseline} on {metric}: keep {baseline}.",
}


def counts(differences: Sequence[Difference]) -> str:
    """Return how many of many systems are better and worse than the baseline."""
    outcomes = [difference.outcome for difference in differences]
    return _COUNTS.format(
        others=f"{len(outcomes):,}",
        metric=differences[0].metric,
        better=f"{outcomes.count('better'):,}",
        worse=f"{outcomes.count('worse'):,}",
        baseline=differences[0].baseline,
    )


def winner_of(paired: Paired, names: Sequence[str], alpha: float) -> str | None:
    """Return the system that is shown to beat all others on the first metric; None if none is."""
    metric, clusters = next(iter(paired.columns)), paired.clusters
    scores = paired.columns[metric][:, [paired.systems.index(name) for name in names]]
    is_scored = ~np.isnan(scores).any(axis=1)
    if len(names) < 2 or is_scored.sum() < 2:
        return None
    if clusters is not None:
        clusters = number_clusters(clusters[is_scored].tolist())
    sign, worst = -1.0 if lower_is_better(metric) else 1.0, worst_score(metric)
    if worst is not None:
        worst *= sign
    (lowest, highest), scores = limits_of(metric), sign * scores[is_scored]
    best, span = int(scores.mean(axis=0).argmax()), highest - lowest
    if beats_all(scores, best, span=span, worst=worst, clusters=clusters, alpha=alpha):
        return names[best]
    return None


def what_to_do(paired: Paired, differences: Sequence[Difference], alpha: float) -> str:
    """Return what would decide between the best so far and its rivals, or that there are none.

    `differences` are those from the baseline on one metric, of which no system is the best.
    """
    if not differences:
        return ""
    metric, margin, n = differences[0].metric, differences[0].margin, len(paired.query_ids)
    leader, baseline = differences[0].baseline, differences[0].baseline
    meanwhile, rivaling = f"keep {leader}", ["can't tell"]
    better = [row for row in differences if row.outcome == "better"]
    if better:
        leader = max(better, key=lambda row: row.gain).system
        meanwhile, rivaling = f"use {leader}", ["better", "alike", "can't tell"]
    rivals = [row.system for row in differences if row.changed and row.outcome in rivaling]
    keys = [(rival, metric, leader) for rival in rivals if rival != leader]
    if not keys:
        return "" if better else CHOICES["keep"].format(metric=metric, baseline=baseline)
    units = paired.units(keys)
    changes = Changes.seen(units, np.array([paired.widest(*key) for key in keys]))
    evenness = np.array([rival.evenness for rival in changes])
    if (np.count_nonzero(units.sums, axis=0) * evenness < FEWEST_CHANGED).any():
        return CHOICES["unknown"].format(meanwhile=meanwhile)
    aim = to_be_better(alpha)
    needed = max(rival.questions(aim, margin) or np.inf for rival in changes)
    detectable = max(rival.distance(aim, n) or np.inf for rival in changes)
    fields = {"margin": given(margin), "meanwhile": meanwhile, "questions": questions(n)}
    if n < needed < np.inf:
        return CHOICES["questions"].format(needed=two_digits_up(needed), **fields)
    if detectable < np.inf:
        return CHOICES["detectable"].format(detectable=rounded_up(detectable, 2), **fields)
    return CHOICES["unknown"].format(**fields)
