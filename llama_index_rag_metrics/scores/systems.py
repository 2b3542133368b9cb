"""System: one retriever of a report, with all that is known of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.rankings.matching.id_matcher import NOT_VALID
from llama_index_rag_metrics.rankings.matching.matcher_names import BY_ID, Matched
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.figure import MOST_ABREAST
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.scores.reading import Reading
from llama_index_rag_metrics.scores.scores import Scores

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
    price_per_million: float | None = None  # of tokens that a model reads, where it is known
    text_of: TextOf | None = None  # of passages that weren't retrieved

    @classmethod
    def of(cls, scores: Scores, name: str = "") -> System:
        """A system without rankings."""
        run = Run()
        run.min_score = scores.min_score
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
        if Reading.of(metric).matcher not in (None, BY_ID):
            return ""
        notes = self.scores.notes if self.judged_by(metric).matcher == BY_ID else ()
        return next((note for note in notes if note.startswith(NOT_VALID)), "")

    def valid_mean(self, metric: str) -> float | None:
        return None if self.invalid(metric) else self.mean(metric)

    def valid_by_query(self, metric: str) -> dict[str, float]:
        return {} if self.invalid(metric) else self.by_query(metric)

    @property
    def price(self) -> float | None:
        tokens = self.run.mean_tokens
        if tokens is None or self.price_per_million is None:
            return None
        return tokens * self.price_per_million / 1000

    def by_query(self, metric: str) -> dict[str, float]:
        """Query id to score; empty where nothing was measured by the metric."""
        known = self.scores.is_measured and metric in self.scores
        return self.scores.by_query(metric) if known else {}


def best_first(means: Sequence[float | None], metric: str) -> list[int]:
    """Positions of systems: as given where they are few, else by their means, the best first."""
    sign = 1 if lower_is_better(metric) else -1
    keys = [math.inf if mean is None or math.isnan(mean) else sign * mean for mean in means]
    return sorted(range(len(means)), key=keys.__getitem__ if len(means) > MOST_ABREAST else None)


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
