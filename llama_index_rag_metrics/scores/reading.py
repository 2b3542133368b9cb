"""What counts for a metric: which relevant passages it wants, and where a ranking has them."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

from llama_index_rag_metrics.metrics.metric_names import metric as resolve
from llama_index_rag_metrics.rankings.judging.judged import TokenBudget
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Items
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.runtime.errors import RagMetricsError


class Reading(NamedTuple):
    """How a metric reads labels and rankings."""

    matcher: str | None = None  # the one that the metric names itself, if any
    least: float = math.ulp(0.0)  # the grade from which a passage is relevant
    in_groups: bool = True  # whether any passage of a group meets the group's need
    by_place: bool = False  # whether passages are recognised by their places in documents
    permitted: bool = False  # whether what the asker may not see isn't wanted
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
            getattr(metric, "match", None),
            getattr(metric, "min_grade", cls().least),
            getattr(metric, "in_groups", True),
            "spans" in needs,
            "forbidden" in needs,
            m.Cutoff(cutoff) if isinstance(cutoff, int) else cutoff,
        )

    def on(self, labels: Labels) -> Reading:
        """The reading as far as it matters to these labels: alike where metrics agree on them."""
        return Reading(
            least=min((grade for grade in labels.grades if grade >= self.least), default=math.inf),
            in_groups=self.in_groups and labels.in_groups,
            by_place=self.by_place and labels.by_place,
            permitted=self.permitted,
        )

    def key(self, matcher: str) -> str:
        """A name for the reading, of a metric with this matcher."""
        parts = {
            f"from {self.least:g}": self.least > PLAIN.least,
            "in groups": self.in_groups,
            "by place": self.by_place,
            "permitted": self.permitted,
        }
        return "; ".join([matcher, *(part for part, is_so in parts.items() if is_so)])

    def wanted(
        self,
        judged: Relevance,
        passages: Mapping[str, str | Span],
        forbidden: Collection[str] | None,
    ) -> list[list[m.Item]]:
        """What the metric wants, best grade first; an unmet group is an item of grade 0."""
        hidden = set(forbidden or ()) if self.permitted else ()
        items = {
            item: m.Item(item, grade, passage, passage if isinstance(passage, str) else None)
            for item, grade in judged.grades.items()
            if grade >= self.least and item not in hidden
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
        """The labels that each item stands for: `known` ones, or by place those it overlaps.

        They are known by id, and of passages whose text others of the id don't have, by passage.
        """
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


PLAIN = Reading(in_groups=False)  # passage by passage, of every grade above 0


class Labels(NamedTuple):
    """What there is in the labels of a data set that metrics may read differently."""

    grades: frozenset[float]
    in_groups: bool
    by_place: bool

    @classmethod
    def of(cls, labels: Iterable[Relevance]) -> Labels:
        labels = list(labels)
        return cls(
            frozenset(grade for judged in labels for grade in judged.grades.values()),
            any(judged.alternatives for judged in labels),
            any(judged.spans for judged in labels),
        )


class Placed(NamedTuple):
    """The rank of each item, None where all of it came before; and the place of each name."""

    ranks: list[int | None]
    places: Mapping[str, m.Found]


def _overlap(one: Span, other: Span) -> bool:
    return one.source == other.source and one.start < other.end and other.start < one.end
