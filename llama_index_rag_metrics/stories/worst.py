"""The questions with the worst scores, and one question's report."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.numbers import questions
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.errors import check_integer
from llama_index_rag_metrics.scores.counts import name_among

from .label_view import System, columns_of, metrics_of
from .story import query_answers
from .whereabouts import Question, losses, losses_sentence

_ITEMS = 3  # how many retrieved passages of a question are listed


class HardQuestions(Reportable, list[tuple[str, float]]):
    """Pairs of query id and score, the worst first, which print as their stories.

    Examples:
        >>> from llama_index_rag_metrics import evaluate
        >>> dataset = {"queries": {"q1": "x?"}, "corpus": {}, "relevant_docs": {"q1": ["d1"]}}
        >>> list(evaluate(lambda query: ["d2"], dataset, ["mrr"]).worst("mrr"))
        [('q1', 0.0)]
    """

    def __init__(self, system: System, metric: str | None, n: int) -> None:
        check_integer("n", n, 0)
        self.system, self.metric = system, metric or next(iter(metrics_of([system])), "")
        self.stories = hardest([system], self.metric, n)
        self.scores = system.scores.by_query(self.metric)
        super().__init__((story.query_id, self.scores[story.query_id]) for story in self.stories)

    def report(self, *, full: bool = False) -> m.Report:
        """What was asked, wanted and retrieved; as a table, one row per question."""
        title, invalid = listing_title(self.metric), self.system.invalid(self.metric)
        order = f"{title[0].lower()}{title[1:]} first"
        decision = [m.Statement(f"{len(self):,} of {questions(len(self.scores))}, {order}.")]
        if invalid:
            decision.insert(0, m.Statement(f"{invalid}.", "alarm"))
        lead = losses_sentence(losses([self.system], self.metric))
        columns: dict[str, Sequence[Any]] = {
            "query_id": [story.query_id for story in self.stories],
            "score": [value for _, value in self],
            "question": [story.text for story in self.stories],
        }
        listing = m.Listing("Questions", self.stories, n_items=_ITEMS, lead=lead)
        return m.Report(title, decision=decision, listings=[listing], records=m.Records(columns))

    def __repr__(self) -> str:
        return str(self)


def listing_title(metric: str) -> str:
    if lower_is_better(metric):
        return f"Highest {metric}"
    return f"Lowest {metric}"


def hardest(systems: Sequence[System], metric: str, n: int) -> list[m.QueryAnswers]:
    """The questions with the worst scores, averaged over the systems; ties keep their order."""
    columns = columns_of(systems, name_among(metric, metrics_of(systems)))
    values_of: dict[str, list[float]] = defaultdict(list)
    for column in columns:
        for query_id, value in column.items():
            values_of[query_id].append(value)
    means = {name: math.fsum(values) / len(values) for name, values in values_of.items()}
    worst_ids = sorted(means, key=means.__getitem__, reverse=lower_is_better(metric))[:n]
    return [query_answers(name, systems, metric, columns) for name in worst_ids]


def story_report(query_id: str, systems: Sequence[System], metric: str, depth: int) -> m.Report:
    """One question: the first items of each system, or of each run of one, and what was wanted."""
    if len(systems) == 1 and systems[0].scores.repeats:
        systems = systems[0].repeats
    columns = columns_of(systems, metric)
    story = query_answers(query_id, systems, metric, columns)
    sentence = losses_sentence(Question(query_id, systems, metric).losses())
    if not sentence:
        sentence = "No ranking is known." if story.wanted else "Nothing is labelled as relevant."
    listing = m.Listing(metric, [story._replace(why=())], n_items=depth)
    return m.Report(f"Question {query_id}", decision=[m.Statement(sentence)], listings=[listing])
