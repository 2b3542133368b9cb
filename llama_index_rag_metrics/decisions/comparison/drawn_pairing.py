"""Pairing of drawn questions: only where two systems retrieve something else was anything labelled.

The difference over all questions is the mean of the drawn ones times the share that changed. How
far an end of the mean's interval moves with the share's own bound is the error of the share; it and
the error of the mean are independent, and add up as squares (Zou and Donner 2008). How often that
covers, beside other ways: benchmarks/README.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from llama_index_rag_metrics.decisions.clusters import Clusters
from llama_index_rag_metrics.decisions.comparison.difference import Difference
from llama_index_rag_metrics.decisions.comparison.pairing import Paired, pair
from llama_index_rag_metrics.decisions.draws import Draw
from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.report.numbers import percent, questions, significant
from llama_index_rag_metrics.runtime.arrays import FloatArray
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.mappings import name_among
from llama_index_rag_metrics.statistics.intervals import MeanInterval


@dataclass(frozen=True, kw_only=True)
class DrawnPaired(Paired):
    """The scores of two systems over the drawn questions.

    Attributes:
        draw: what was drawn of how many; of a slice, its part.
        grouped_by: what all questions belong to, as given; None for nothing.
        scores: those of the systems, of the drawn questions alone.
    """

    draw: Draw
    grouped_by: Clusters | None
    scores: dict[str, Scores]

    @property
    def weight(self) -> float:
        return self.draw.share

    def weighed_ends(self, interval: MeanInterval, confidence: float) -> MeanInterval:
        mean, low, high = interval.mean, interval.low, interval.high
        if low is None or high is None or not self.weight:
            return interval
        wide = stretched((low, high), self.draw, (1 + confidence) / 2, self.grouped_by)
        return replace(
            interval,
            low=mean - math.hypot(mean - low, wide[0] - low),
            high=mean + math.hypot(high - mean, wide[1] - high),
        )

    def widest(self, system: str, metric: str, baseline: str) -> float:
        return self.weight * super().widest(system, metric, baseline)

    def possible(self, keys: Sequence[tuple[str, str, str]], confidence: float) -> FloatArray:
        possible = super().possible(keys, confidence)
        return self.weight * possible if self.weight else possible

    def slices(self, key: str) -> dict[Hashable, Paired]:
        kept = replace(self, metadata=self.draw.metadata)
        parts = super(DrawnPaired, kept).slices(key)
        nothing = {metric: column[:0] for metric, column in self.columns.items()}
        without = replace(kept, query_ids=(), columns=nothing, clusters=None, notes=())
        known = {value: part for value, part in parts.items() if isinstance(part, DrawnPaired)}
        return {
            value: replace(known.get(value, without), draw=self.draw.in_slice(key, value))
            for value in self.draw.slice_values(key)
        }


def of_undrawn(difference: Difference, draw: Draw) -> Difference:
    """The difference in a slice of which no question is drawn, with a verdict that says why."""
    if draw.changed:
        verdict = f"{draw.found}, but none of these is drawn: draw more questions"
        return replace(difference, verdict=f"{verdict}.")
    verdict = f"{draw.found}, so {difference.metric} is the same"
    return replace(difference, difference=0.0, outcome="alike", verdict=f"{verdict}.")


def stretched(
    ends: tuple[float, float], draw: Draw, confidence: float, clusters: Clusters | None
) -> tuple[float, float]:
    """Ends of a mean times the share that changed, where the share lies at its farther bound."""
    least, most = (end / draw.share for end in draw.share_between(confidence, clusters))
    low, high = ends
    return low * (most if low < 0 else least), high * (most if high > 0 else least)


def drawn_pair(
    systems: Mapping[str, Scores],
    baseline: str,
    draw: Draw,
    metrics: Sequence[str] | None = None,
    clusters: Clusters | None = None,
) -> DrawnPaired:
    """Bring the scores of two systems onto the drawn questions."""
    if len(systems) != 2:
        remedy = "Draw for each pair of systems on its own."
        raise InvalidInput("systems", list(systems), "the two that were drawn from", remedy)
    if not draw.changed:
        sentence = f"{draw.found}: there is nothing to compare."
        raise InvalidInput("drawn", str(draw), sentence=sentence)
    other = next(name for name in systems if name != baseline)
    notes = [means_note(draw)]
    notes += check_rankings(draw, {name: systems[name].rankings for name in (baseline, other)})
    wanted, unfit = _determined(systems, baseline, draw, metrics)
    if unfit:
        notes.append(f"not compared: {'; '.join(unfit)}")
    scores = {name: drawn_scores(each, draw, name, wanted) for name, each in systems.items()}
    notes += irrelevant_note(draw, systems.values())
    paired = pair(scores, baseline, metrics=wanted, clusters=clusters)
    return DrawnPaired(
        systems=paired.systems,
        query_ids=paired.query_ids,
        columns=paired.columns,
        metadata=paired.metadata,
        clusters=paired.clusters,
        notes=(*notes, *paired.notes),
        draw=draw,
        grouped_by=clusters,
        scores=scores,
    )


def means_note(draw: Draw) -> str:
    """How means and differences belong together."""
    return (
        f"means are those of the {questions(len(draw.drawn))} drawn; a difference is that of the "
        f"means times the share that changed, {percent(significant(draw.share))}"
    )


def _determined(
    systems: Mapping[str, Scores], baseline: str, draw: Draw, metrics: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """The metrics that the first k passages determine, and why others are left out."""
    if metrics is not None:
        for name in metrics:
            check_metric(draw, name)
        return list(metrics), []
    shared = [
        name for name in systems[baseline] if all(name in scores for scores in systems.values())
    ]
    reasons = {name: draw.unseen_by(name) or _valueless(systems, draw, name) for name in shared}
    fit = [name for name, reason in reasons.items() if not reason]
    if shared and not fit:
        check_metric(draw, shared[0])
    return fit, [f"{name}, since {reason}" for name, reason in reasons.items() if reason]


def _valueless(systems: Mapping[str, Scores], draw: Draw, name: str) -> str:
    """Why a metric of which less is better can't take questions without anything relevant."""
    lacks = any(
        scores.excluded.get(query_id) == "no_relevant" and query_id not in by_query
        for scores in systems.values()
        for by_query in [scores.by_query(name)]
        for query_id in draw.drawn
    )
    return "it has no value where nothing is relevant" if lacks and lower_is_better(name) else ""


def check_metric(draw: Draw, name: str) -> None:
    """Refuse a metric that may differ where nothing else was retrieved."""
    if reason := draw.unseen_by(name):
        sentence = f"{name} can't be decided by this draw: {reason}."
        raise InvalidInput("metrics", name, sentence=sentence)


def check_rankings(draw: Draw, rankings: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Refuse other rankings than those drawn from, of the baseline and the other system.

    A note where they aren't known.
    """
    (first, before), (second, after) = rankings.items()
    found = {
        query_id: (before.get(query_id, ""), after.get(query_id, "")) for query_id in draw.asked
    }
    known = {query_id: both for query_id, both in found.items() if all(both)}
    if not known and not draw.drawn:
        expected = "scores that say what was retrieved for questions of the draw"
        raise InvalidInput("drawn", str(draw), expected)
    if not known:
        return ["the scores don't say what was retrieved, so it isn't checked against the draw"]
    there = {query_id for query_id, both in known.items() if both == draw.rankings[query_id]}
    back = {query_id for query_id, both in known.items() if both[::-1] == draw.rankings[query_id]}
    wrong = known.keys() - (there if len(there) >= len(back) else back)
    if wrong:
        remedy = "Score the very runs that were drawn from, or draw again."
        names = " and ".join(map(repr, draw.systems))
        sentence = (
            f"{first} and {second} aren't what was drawn from ({names}): they retrieve something "
            f"else for {join_first(sorted(wrong))}."
        )
        raise InvalidInput("drawn", sorted(wrong), sentence=sentence, remedy=remedy)
    return []


def drawn_scores(scores: Scores, draw: Draw, name: str, metrics: Sequence[str]) -> Scores:
    """The scores of the drawn questions alone; 0 where nothing relevant was found."""
    chosen = [name_among(metric, scores.metric_names) for metric in metrics]
    columns = {}
    for metric in chosen:
        by_query = scores.by_query(metric)
        if not lower_is_better(metric):
            nothing = {
                query_id: 0.0
                for query_id in draw.drawn
                if scores.excluded.get(query_id) == "no_relevant"
            }
            by_query = {**nothing, **by_query}
        if missing := [query_id for query_id in draw.drawn if query_id not in by_query]:
            reasons = {scores.excluded.get(query_id) for query_id in missing}
            remedy = "Label these questions, and score both systems again."
            if reasons == {"failed"}:
                remedy = "Score failed questions as 0: failed='zero'."
            elif reasons == {"no_relevant"}:
                remedy = "Nothing is relevant there: leave this metric out."
            sentence = (
                f"{name} has no {metric} for {len(missing):,} of the {len(draw.drawn):,} drawn "
                f"questions: {join_first(missing)}."
            )
            raise InvalidInput("drawn", missing, sentence=sentence, remedy=remedy)
        columns[metric] = [by_query[query_id] for query_id in draw.drawn]
    selected = scores.select(draw.drawn)
    metadata = {
        query_id: {**selected.metadata.get(query_id, {}), **draw.metadata.get(query_id, {})}
        for query_id in draw.drawn
    }
    return selected.replace(query_ids=draw.drawn, columns=columns, excluded={}, metadata=metadata)


def irrelevant_note(draw: Draw, systems: Iterable[Scores]) -> list[str]:
    """How many drawn questions count as no difference, since nothing relevant was found."""
    excluded = [scores.excluded for scores in systems]
    n = sum(
        all(each.get(query_id) == "no_relevant" for each in excluded) for query_id in draw.drawn
    )
    what = "drawn questions without anything relevant, which count as no difference"
    return [f"{what}: {n:,}"] if n else []
