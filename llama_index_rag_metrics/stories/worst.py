"""The questions with the worst scores, and where relevant passages are lost, counted over all."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report import whereabouts as w
from llama_index_rag_metrics.report.escape import terminal
from llama_index_rag_metrics.report.figure import MOST_ABREAST
from llama_index_rag_metrics.report.numbers import counted, digits_of, questions, score
from llama_index_rag_metrics.report.query_lines import found_line
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.errors import UnknownMetric, check_integer

from .answers import query_answers
from .label_view import System, metrics_of

MOST_QUESTIONS = 20_000  # of more questions it isn't looked up where their passages are
_ITEMS = 3  # how many retrieved passages of a question are listed
_QUESTIONS = "Questions"
_DECISIONS = {
    "none": "None of {all} is shown.",
    "alike, first": "{lowest} {all} score {ends} on {metric}; here is the first.",
    "alike": "{lowest} {all} score {ends} on {metric}; here are the first {shown:,}.",
    "every": "All {all}, {order} first, score {ends} on {metric}.",
    "one": "The worst of {all} scores {ends} on {metric}.",
    "some": "The {shown:,} worst of {all} score {ends} on {metric}.",
}
_VERBS = {w.NEVER: ("was", "were"), w.DROPPED: ("was", "were")}
_REMEDY = "{passages} came {other_id}. {remedy}"


class Losses(NamedTuple):
    """What one system lost of the relevant passages, over the questions of one metric."""

    system: str
    wanted: int  # how many are relevant where it is known what came; of alternatives, one
    by_loss: Mapping[str, int]  # how many were lost in each of the ways of `LOSSES` that occur
    questions: int = 0  # how many questions there are, and
    without: int = 0  # how many of them got no relevant passage
    min_score: float | None = None  # below which passages are left out, where that is known

    def __str__(self) -> str:
        if not self.by_loss and self.wanted == 1:
            return "the relevant passage was found"
        if not self.by_loss:
            return f"all {self.wanted:,} relevant passages were found"
        of_passages = f" of {counted(self.wanted, 'relevant passage', 'relevant passages')}"
        parts = []
        for loss, n in self.by_loss.items():
            was, were = _VERBS.get(loss, ("is", "are"))
            part = f"{n:,}{of_passages} {was if n == 1 else were} {loss}"
            if loss == w.NEVER:
                part += w.reaching(self.min_score)
            parts.append(part)
            of_passages = ""  # said once
        return ", ".join(parts)


def losses(systems: Sequence[System], metric: str, *, stages: bool = False) -> list[Losses]:
    """What each system lost over the metric's questions, if these aren't many and it is known."""
    columns = [system.by_query(metric) for system in systems]
    if max(map(len, columns), default=0) > MOST_QUESTIONS:
        return []
    tallies = [Counter[str]() for _ in systems]
    query_ids: dict[str, None] = {}
    for column in columns:
        query_ids |= dict.fromkeys(column)
    for query_id in query_ids:
        story = query_answers(query_id, systems, metric, stages=stages, brief=True)
        for number, (column, tally) in enumerate(zip(columns, tallies, strict=True)):
            if query_id not in column:
                continue
            places = [w.where_found(story, number, need) for need in story.wanted]
            ways = [place.loss for place in places if place.words and place.loss != w.UNMET]
            tally["wanted"] += len(ways)
            tally["questions"] += bool(ways)
            tally["without"] += bool(ways) and all(ways)
            tally.update(filter(None, ways))
    counts = []
    for system, tally in zip(systems, tallies, strict=True):
        if tally["wanted"]:
            by_loss = {loss: tally[loss] for loss in w.LOSSES if tally[loss]}
            amounts = tally["questions"], tally["without"], system.run.min_score
            counts.append(Losses(terminal(system.name), tally["wanted"], by_loss, *amounts))
    return counts


def losses_line(counts: Sequence[Losses]) -> str:
    """What each system lost, in one sentence; "" where nobody knows, or where systems are many."""
    if not counts or len(counts) > MOST_ABREAST:
        return ""
    if len(counts) > 1:
        parts = [f"{of_system.system}: {of_system}" for of_system in counts]
        return f"{'; '.join(parts)}."
    text = f"{counts[0]}."
    return text[0].upper() + text[1:]


def _remedy(n: int) -> list[m.Statement]:
    """What to do about relevant passages that came under other ids, if there are any."""
    if not n:
        return []
    passages = counted(n, "relevant passage", "relevant passages")
    sentence = _REMEDY.format(passages=passages, other_id=w.OTHER_ID, remedy=w.REMEDY)
    return [m.Statement(sentence, "open", command=w.MOVE)]


class HardQuestions(Reportable, list[tuple[str, float]]):
    """Pairs of query id and score, the worst first, which print as their stories.

    Examples:
        >>> from llama_index_rag_metrics import evaluate
        >>> dataset = {"queries": {"q1": "x?"}, "corpus": {}, "relevant_docs": {"q1": ["d1"]}}
        >>> list(evaluate(lambda query: ["d2"], dataset, ["mrr"]).worst("mrr"))
        [('q1', 0.0)]
    """

    def __init__(self, system: System, metric: str, n: int) -> None:
        self.system, self.metric, self.stories = system, metric, hardest([system], metric, n)
        self.scores = system.scores.by_query(metric)
        super().__init__((story.query_id, self.scores[story.query_id]) for story in self.stories)

    def report(self, *, full: bool = False) -> m.Report:
        """What was asked, wanted and retrieved; as a table, one row per question."""
        system, metric = self.system, self.metric
        invalid = system.invalid(metric)
        n_lowest = [*self.scores.values()].count(self[0][1]) if self else 0
        decision = [self._decision(n_lowest)]
        listing = m.Listing(_QUESTIONS, self.stories, most=_ITEMS)
        if invalid:  # the first is an example of all
            decision = [m.Statement(f"{invalid}.", "alarm")]
            listing = m.Listing(_QUESTIONS, self.stories[:1], more=n_lowest - 1, most=_ITEMS)
        elif not system.scores.repeats:  # then rankings are those of the first run, scores of all
            counts = losses([system], metric)
            decision += _remedy(sum(of_system.by_loss.get(w.OTHER_ID, 0) for of_system in counts))
            lead = losses_line(counts)
            listing = m.Listing(_QUESTIONS, self.stories, most=_ITEMS, lead=lead)
        columns: dict[str, Sequence[Any]] = {
            "query_id": [story.query_id for story in self.stories],
            "score": [value for _, value in self],
            "question": [story.text for story in self.stories],
        }
        title = listing_title(metric)
        return m.Report(title, decision=decision, listings=[listing], records=m.Records(columns))

    def _decision(self, n_lowest: int) -> m.Statement:
        n, n_shown = len(self.scores), len(self)
        if not self:
            return m.Statement(_DECISIONS["none"].format(all=questions(n)), "open")
        kind = "some"
        if n_lowest > n_shown == 1:
            kind = "alike, first"
        elif n_lowest > n_shown:
            kind = "alike"
        elif n_shown == n > 1:
            kind = "every"
        elif n_shown == 1:
            kind = "one"
        ends = [score(value, digits=digits_of(1)) for _, value in (self[0], self[-1])]
        sentence = _DECISIONS[kind].format(
            all=questions(n),
            lowest="All" if n_lowest == n else f"{n_lowest:,} of",
            ends=" to ".join(dict.fromkeys(ends)),
            metric=self.metric,
            shown=n_shown,
            order=listing_title(self.metric).partition(" ")[0].lower(),
        )
        return m.Statement(sentence, evidence=_QUESTIONS)

    def __repr__(self) -> str:
        return str(self)


def listing_title(metric: str) -> str:
    if lower_is_better(metric):
        return f"Highest {metric}"
    return f"Lowest {metric}"


def worst_of(system: System, metric: str | None, n: int) -> HardQuestions:
    """The n questions of the worst scores, on the first metric for None; ties keep their order."""
    check_integer("n", n, 0)
    return HardQuestions(system, metric or m.headline(metrics_of([system])), n)


def story_report(query_id: str, systems: Sequence[System], metric: str, depth: int) -> m.Report:
    """One question: the first items of each system, or of each run of one, and what was wanted."""
    if len(systems) == 1 and systems[0].scores.repeats:
        systems = systems[0].repeats
    columns = [system.by_query(metric) for system in systems]
    story = query_answers(query_id, systems, metric, columns)
    sentence = found_line(story)
    if any(system.scores.repeats for system in systems):
        sentence = f"In the first run: {sentence}"
    n_elsewhere = sum(len(answer.same_text) for answer in story.answers)
    decision = [m.Statement(sentence), *_remedy(n_elsewhere)]
    listing = m.Listing(metric, [story], most=depth)
    return m.Report(f"Question {query_id}", decision=decision, listings=[listing])


def hardest(
    systems: Sequence[System], metric: str, n: int, *, stages: bool = False
) -> list[m.QueryAnswers]:
    """The questions with the worst scores, averaged over the systems; ties keep their order."""
    if not any(metric in system.scores for system in systems):
        raise UnknownMetric(metric, systems[0].scores.metric_names)
    columns = [system.by_query(metric) for system in systems]
    values_of: dict[str, list[float]] = defaultdict(list)
    for column in columns:
        for query_id, value in column.items():
            values_of[query_id].append(value)
    sign = -1 if lower_is_better(metric) else 1
    means = {}
    for query_id, values in values_of.items():
        means[query_id] = sign * math.fsum(values) / len(values)
    worst_ids = sorted(means, key=means.__getitem__)[:n]
    return [query_answers(name, systems, metric, columns, stages=stages) for name in worst_ids]
