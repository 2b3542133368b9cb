"""From p values to verdicts: corrected family by family, with what could have been detected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from llama_index_rag_metrics.comparison.difference import Difference, Settings
from llama_index_rag_metrics.comparison.pairing import Paired
from llama_index_rag_metrics.comparison.result import Comparison
from llama_index_rag_metrics.comparison.sentences import verdict
from llama_index_rag_metrics.judging import FloatArray, IntArray
from llama_index_rag_metrics.statistics.corrections import MaxT, correct, distinct, max_t
from llama_index_rag_metrics.statistics.power import detectable_differences
from llama_index_rag_metrics.statistics.resampling import Units


def decided(parts: Sequence[Comparison], paired: Paired) -> list[Comparison]:
    """Comparisons with corrected p values and verdicts, corrected for all of them together.

    Those of the primary metric are one family, those of all other metrics another.

    Args:
        parts: the comparison of all queries, or those of the slices.
        paired: the scores of all queries.
    """
    rows = [(part, difference) for part in parts for difference in part]
    if not rows:
        return list(parts)
    settings = parts[0].settings
    (columns, clusters), (changes, _) = (
        paired.in_order(np.stack(list(side), axis=1))
        for side in zip(*(_columns(*row, paired) for row in rows), strict=True)
    )
    units = Units.of(columns, clusters, changes)
    decisions = iter(_decide([difference for _, difference in rows], units, paired, settings))
    return [replace(part, differences=tuple(next(decisions) for _ in part)) for part in parts]


def _columns(
    part: Comparison, difference: Difference, paired: Paired
) -> tuple[FloatArray, FloatArray]:
    """(queries,) what the differences say, and the differences; NaN outside the part."""
    system, baseline, metric = difference.system, difference.baseline, difference.metric
    evidence = part.paired.evidence(system, metric, baseline)
    changes = part.paired.differences(system, baseline, metric)
    if len(part.query_ids) == len(paired.query_ids):
        return evidence, changes
    rows = {query_id: row for row, query_id in enumerate(paired.query_ids)}
    inside = [rows[query_id] for query_id in part.query_ids]
    whole = np.full((2, len(rows)), np.nan)
    whole[:, inside] = evidence, changes
    return whole[0], whole[1]


def _decide(
    differences: Sequence[Difference], units: Units, paired: Paired, settings: Settings
) -> list[Difference]:
    primary = np.array([difference.metric == settings.primary for difference in differences])
    families = [np.flatnonzero(primary), np.flatnonzero(~primary)]
    p_values = np.array([difference.p_of(settings.test) for difference in differences])
    corrected, levels = _corrected(p_values, families, units, settings)
    widest = np.array([paired.widest(difference.metric) for difference in differences])
    comparisons = np.ones(len(differences), np.int64)
    detectable: dict[int, float | None] = {}
    for family, level in zip(families, levels, strict=True):
        if settings.correction != "none":
            once = settings.correction == "max-t"
            comparisons[family] = len(distinct(units, family) if once else family)
        smallest = detectable_differences(units.columns(family), widest[family], alpha=level)
        detectable |= dict(zip(family.tolist(), smallest, strict=True))
    rows = [
        replace(
            difference,
            p_corrected=float(corrected[position]),
            significant=bool(corrected[position] <= settings.alpha),
            # what Wilcoxon's test detects isn't a difference of means
            detectable=None if settings.test == "wilcoxon" else detectable[position],
            primary=bool(primary[position]),
            comparisons=int(comparisons[position]),
        )
        for position, difference in enumerate(differences)
    ]
    return [replace(difference, verdict=verdict(difference, settings)) for difference in rows]


def _corrected(
    p_values: FloatArray, families: Sequence[IntArray], units: Units, settings: Settings
) -> MaxT:
    """Corrected p values, and of each family the level for a difference alone."""
    if settings.correction == "max-t":
        options = {"resamples": settings.resamples, "seed": settings.seed}
        return max_t(units, p_values, families, alpha=settings.alpha, **options)
    corrected = p_values.copy()
    levels = []
    for family in families:
        corrected[family] = correct(p_values[family], settings.correction)
        shares = 1 if settings.correction == "none" else max(1, len(family))
        levels.append(settings.alpha / shares)
    return MaxT(corrected, levels)
