"""System: one retriever of a report; and what counts of it for a metric, and where it has that."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple, TypeAlias

from llama_index_rag_metrics.metrics.metric_names import metric as resolve
from llama_index_rag_metrics.rankings.judging.judged import TokenBudget
from llama_index_rag_metrics.rankings.matching.id_matcher import NOT_VALID
from llama_index_rag_metrics.rankings.matching.matched import BY_ID, Matched
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Items, Run
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.runtime.errors import InvalidInput, RagMetricsError
from llama_index_rag_metrics.scores.scores import Scores


class Reading(NamedTuple):
    """How a metric reads labels and rankings."""

    least: float = math.ulp(0.0)  # the grade from which a passage is relevant
    in_groups: bool = True  # whether any passage of a group meets the group's need
    by_place: bool = False  # whether passages are recognised by their places in documents
    cutoff: m.Cutoff | None = None  # where it stops reading a ranking, if that is known

    @classmethod
    def of(cls, name: str) -> Reading:
        """Of a metric that the package doesn't know, every grade above 0 and every group count."""
        try:
            metric = resolve(name)
        except (RagMetricsError, ImportError):
            return cls()
        needs = getattr(metric, "needs", ())
        cutoff = getattr(metric, "cutoff", None)
        if isinstance(cutoff, TokenBudget):
            cutoff = m.Cutoff(cutoff.tokens, "tokens")
        return cls(
            getattr(metric, "min_grade", cls().least),
            getattr(metric, "in_groups", True),
            "spans" in needs,
            m.Cutoff(cutoff) if isinstance(cutoff, int) else cutoff,
        )

    def wanted(self, judged: Relevance, passages: Mapping[str, str | Span]) -> list[list[m.Item]]:
        """What the metric wants, best grade first; an unmet group is an item of grade 0."""
        items = {
            item: m.Item(item, grade, passage, passage if isinstance(passage, str) else None)
            for item, grade in judged.grades.items()
            if grade >= self.least
            for passage in [passages.get(item)]
        }
        if not (self.in_groups and judged.alternatives):
            return [[item] for item in sorted(items.values(), key=lambda item: -item.grade)]
        names = judged.facet_names or [f"group {n}" for n, _ in enumerate(judged.alternatives, 1)]
        return [
            [items[item] for item in group if item in items] or [m.Item(name, 0.0)]
            for name, group in zip(names, judged.alternatives, strict=True)
        ]

    def names(
        self, items: Items, judged: Relevance, known: Mapping[Hashable, Sequence[str]] | None
    ) -> list[Sequence[str]]:
        """The labels that each item stands for: those `known`, or by place those it overlaps."""
        if known is not None:
            return [known.get(each, known.get(each[0], ())) for each in items.passages]
        if not (self.by_place and judged.spans and items.spans):
            return [(item,) for item in items.ids]
        return [
            [name for name, wanted in judged.spans.items() if span and _overlap(span, wanted)]
            for span in items.spans
        ]

    def placed(self, items: Items, names: Iterable[Sequence[str]]) -> Placed:
        """Where a ranking has each of the names, as the metric counts ranks and tokens."""
        places: dict[str, m.Found] = {}
        ranks: list[int | None] = []
        paid: set[str] = set()
        spent = 0
        by_item = [[item] for item in items.ids] if self.by_place else names
        costs = items.tokens or repeat(0, len(items.ids))
        for item, counted, cost in zip(items.ids, by_item, costs, strict=True):
            if item not in paid:
                spent += cost
                paid.add(item)
            before = len(places)
            for name in counted:
                if name not in places:
                    tokens = None if items.tokens is None else spent
                    places[name] = m.Found(len(places) + 1, tokens)
            ranks.append(before + 1 if len(places) > before else None)
        if not self.by_place:
            return Placed(ranks, places)
        found: dict[str, m.Found] = {}
        for item, labels in zip(items.ids, names, strict=True):
            for name in labels:
                found.setdefault(name, places[item])
        return Placed(ranks, found)


class Placed(NamedTuple):
    """The rank of each item, None where all of it came before; and the place of each name."""

    ranks: list[int | None]
    places: Mapping[str, m.Found]


def _overlap(one: Span, other: Span) -> bool:
    return one.source == other.source and one.start < other.end and other.start < one.end


# the text of a passage, by its id or its place in a document; None where it isn't known
TextOf: TypeAlias = Callable[[str | Span], str | None]


class System(NamedTuple):
    """One retriever of a report."""

    name: str
    scores: Scores
    run: Run  # what it retrieved; empty where that isn't known
    relevance: Mapping[str, Relevance]  # query id to what is relevant, by id
    matched: Mapping[str, Matched]  # metric to what its matcher made of the run, unless by id
    about: Mapping[str, str]  # what was evaluated and how, label to value
    text_of: TextOf | None = None  # of passages that weren't retrieved

    @classmethod
    def of(cls, scores: Scores, name: str = "") -> System:
        """A system without rankings."""
        run = Run()
        run.min_score = scores.selection.min_score
        return cls(name or shown_name(scores, "score"), scores, run, {}, {}, {})

    @property
    def repeats(self) -> list[System]:
        """The runs of questions that were asked several times, each as a system."""
        n = len(self.scores.repeats)
        runs = self.run.repeats if len(self.run.repeats) == n else [Run()] * n
        several = {metric: each.repeats for metric, each in self.matched.items() if each.repeats}
        repeats = []
        for number, (scores, run) in enumerate(zip(self.scores.repeats, runs, strict=True)):
            matched = {metric: of_runs[number] for metric, of_runs in several.items()}
            name = f"run {number + 1}"
            repeats.append(self._replace(name=name, scores=scores, run=run, matched=matched))
        return repeats

    def judged_by(self, metric: str) -> Matched:
        """Relevance and rankings as a metric sees them: by id, or as its matcher has them."""
        by_id = Matched(BY_ID, self.run, self.relevance, {}, {}, {})
        return self.matched.get(metric, by_id)

    def mean(self, metric: str) -> float | None:
        known = self.scores.is_measured and metric in self.scores and self.scores.n(metric)
        return self.scores.means[metric] if known else None

    def invalid(self, metric: str) -> str:
        """Why a metric that compares ids has no valid score; "" where it has one."""
        notes = self.scores.notes if self.judged_by(metric).matcher == BY_ID else ()
        return next((note for note in notes if note.startswith(NOT_VALID)), "")

    def valid_mean(self, metric: str) -> float | None:
        return None if self.invalid(metric) else self.mean(metric)

    def valid_by_query(self, metric: str) -> dict[str, float]:
        return {} if self.invalid(metric) else self.by_query(metric)

    def by_query(self, metric: str) -> dict[str, float]:
        """Query id to score; empty where nothing was measured by the metric."""
        known = self.scores.is_measured and metric in self.scores
        return self.scores.by_query(metric) if known else {}


def shown_name(scores: Scores, unnamed: str) -> str:
    return plain(scores.name) or unnamed


def metrics_of(systems: Iterable[System]) -> list[str]:
    return list(dict.fromkeys(metric for system in systems for metric in system.scores))


def check_systems(systems: Sequence[System]) -> None:
    if not systems:
        raise InvalidInput("results", list(systems), "the results of at least one retriever")


def query_text(query_id: str, systems: Sequence[System]) -> str:
    texts = (system.scores.queries.get(query_id) for system in systems)
    return next(filter(None, texts), "")
