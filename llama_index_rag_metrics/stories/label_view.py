"""System, one retriever of a report; LabelView, what of its labels and rankings a metric counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from llama_index_rag_metrics.metrics import metric_names
from llama_index_rag_metrics.metrics.texts import TextMetric
from llama_index_rag_metrics.rankings.judging.judged import TokenBudget
from llama_index_rag_metrics.rankings.matching.id_matcher import NOT_VALID
from llama_index_rag_metrics.rankings.matching.matched import BY_ID, Matched
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report.text import one_line
from llama_index_rag_metrics.runtime.containers import picked
from llama_index_rag_metrics.runtime.errors import RagMetricsError
from llama_index_rag_metrics.scores.label_fit import OTHER_TEXTS
from llama_index_rag_metrics.scores.retrieval import Retrieval
from llama_index_rag_metrics.scores.scores import Scores


class Item(NamedTuple):
    id: str
    grade: float  # 0 for a group or a facet that nothing meets, whose name is the id
    passage: str | Span | None = None  # what it is recognised by, if not by its id
    text: str | None = None  # what it says, from the corpus or from any system that retrieved it


class LabelView(NamedTuple):
    """How a metric reads labels and rankings; one that isn't known takes every grade above 0."""

    min_grade: float = math.ulp(0.0)  # the grade from which a passage is relevant
    in_groups: bool = True  # whether any passage of a group meets the group's need
    by_place: bool = False  # whether passages are recognised by their places in documents
    k: int | None = None  # after how many passages it stops reading a ranking, if that is known
    budget: int | None = None  # after how many tokens
    of_texts: bool = False  # whether it scores each text, whatever its label

    @classmethod
    def of(cls, name: str) -> LabelView:
        try:
            metric = metric_names.metric(name)
        except (RagMetricsError, ImportError):
            return cls()
        cutoff = getattr(metric, "cutoff", None)
        return cls(
            getattr(metric, "min_grade", cls().min_grade),
            getattr(metric, "in_groups", True),
            "spans" in getattr(metric, "needs", ()),
            cutoff if isinstance(cutoff, int) else None,
            cutoff.tokens if isinstance(cutoff, TokenBudget) else None,
            isinstance(metric, TextMetric),
        )

    def wanted(self, judged: Relevance, passages: Mapping[str, str | Span]) -> list[list[Item]]:
        """What the metric wants, best grade first; an unmet group is an item of grade 0."""
        items: dict[str, Item] = {}
        for name, grade in sorted(judged.grades.items(), key=itemgetter(1), reverse=True):
            if grade >= self.min_grade:
                passage = passages.get(name)
                text = passage if isinstance(passage, str) else None
                items[name] = Item(name, grade, passage, text)
        if not (self.in_groups and judged.alternatives):
            return [[item] for item in items.values()]
        needs = []
        for number, group in enumerate(judged.alternatives):
            name = f"group {number + 1}"
            if judged.facet_names:
                name = judged.facet_names[number]
            needs.append(list(picked(items, group).values()) or [Item(name, 0.0)])
        return needs

    def labels_of(self, items: Ranking, judged: Relevance) -> Iterator[Sequence[str]]:
        """The labels that each item stands for: its id, or by place those that it overlaps."""
        if not (self.by_place and judged.spans and items.spans):
            yield from zip(items.ids)
            return
        for span in items.spans:
            source, start, end = span or (None, 0, 0)
            names = []
            for name, label in judged.spans.items():
                if source == label.source and start < label.end and label.start < end:
                    names.append(name)
            yield names


class System(NamedTuple):
    name: str
    scores: Scores
    about: Mapping[str, str] = {}  # what was evaluated and how, label to value
    retrieval: Retrieval = Retrieval(Run())
    computed: Mapping[str, Mapping[str, Any]] = {}  # metric to query id to its result, with details

    @classmethod
    def of(cls, scores: Scores, name: str = "") -> System:
        retrieval = scores.retrieval or Retrieval(Run())
        return cls(name or one_line(scores.name) or "score", scores, {}, retrieval)

    @property
    def run(self) -> Run:
        return self.retrieval.run

    @property
    def repeats(self) -> list[System]:
        runs = enumerate(self.scores.repeats, 1)
        return [System.of(scores, f"run {number}") for number, scores in runs]

    def text_of(self, passage: str | Span) -> str | None:
        return self.retrieval.text_of and self.retrieval.text_of(passage)

    def judged_by(self, metric: str) -> Matched:
        by_id = Matched(BY_ID, self.run, self.retrieval.relevance, {}, {}, {})
        return self.retrieval.matched.get(metric, by_id)

    def invalid(self, metric: str) -> str:
        """Why a metric that compares ids has no valid score; "" where it has one."""
        view = LabelView.of(metric)
        if view.by_place or view.of_texts or self.judged_by(metric).matcher != BY_ID:
            return ""
        return next((note for note in self.scores.notes if note.startswith(NOT_VALID)), "")

    @property
    def is_in_doubt(self) -> bool:
        return OTHER_TEXTS in "".join(self.scores.label_notes)

    def mean(self, metric: str) -> float | None:
        scores = self.scores
        is_measured = scores.is_measured and metric in scores and scores.n(metric)
        return scores.means[metric] if is_measured and not self.invalid(metric) else None

    def by_query(self, metric: str) -> dict[str, float]:
        is_measured = self.scores.is_measured and metric in self.scores
        return self.scores.by_query(metric) if is_measured else {}


def columns_of(systems: Sequence[System], metric: str) -> list[dict[str, float]]:
    return [system.by_query(metric) for system in systems]


def with_retrieval(scores: Scores, retrieval: Retrieval) -> Scores:
    repeats = []
    for number, of_run in enumerate(scores.repeats):
        matched = {}
        for metric, matched_runs in retrieval.matched.items():
            matched[metric] = matched_runs
            if matched_runs.repeats:
                matched[metric] = matched_runs.repeats[number]
        of_run_retrieval = replace(retrieval, run=retrieval.run.repeats[number], matched=matched)
        repeats.append(of_run.replace(retrieval=of_run_retrieval))
    return scores.replace(retrieval=retrieval, repeats=repeats)


def metrics_of(systems: Iterable[System]) -> list[str]:
    return list(dict.fromkeys(chain.from_iterable(map(attrgetter("scores"), systems))))
