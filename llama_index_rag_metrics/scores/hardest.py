"""The questions with the worst scores, as data that prints as their stories."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.metrics.passes import Passes
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.numbers import digits_of, questions, score
from llama_index_rag_metrics.report.query_lines import found_line
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.report.whereabouts import OTHER_ID
from llama_index_rag_metrics.runtime.amounts import check_integer
from llama_index_rag_metrics.runtime.errors import UnknownMetric
from llama_index_rag_metrics.scores.losses import Losses, losses, losses_line, remedy
from llama_index_rag_metrics.scores.stories import query_answers
from llama_index_rag_metrics.scores.systems import System, metrics_of

_ITEMS = 3
_QUESTIONS = "Questions"


class _Pair(NamedTuple):
    query_id: str
    score: float


class HardQuestion(_Pair):
    """A query id and its score, a pair; it prints as what was asked, wanted and retrieved.

    Attributes:
        story: what was asked, wanted and retrieved, as far as it is known.
    """

    story: m.QueryAnswers

    def __new__(cls, query_id: str, score: float, story: m.QueryAnswers) -> HardQuestion:
        pair = super().__new__(cls, query_id, score)
        pair.story = story
        return pair

    def __getnewargs__(self) -> tuple[str, float, m.QueryAnswers]:
        return self.query_id, self.score, self.story

    @property
    def question(self) -> str:
        return self.story.text

    @property
    def wanted(self) -> Sequence[Sequence[m.Item]]:
        """What is relevant, best grade first; any item of an entry meets that need."""
        return self.story.wanted

    @property
    def got(self) -> Sequence[m.ReportedItem]:
        """What was retrieved, best first; of stored scores the first five items."""
        return self.story.answers[0].retrieved or ()

    def __repr__(self) -> str:
        from llama_index_rag_metrics.report.terminal import to_text

        return to_text(self._report()).strip()

    def _repr_html_(self) -> str:
        from llama_index_rag_metrics.report.notebook import to_notebook

        return to_notebook(self._report())

    def _report(self) -> m.Report:
        return m.Report("", listings=[m.Listing("", [self.story], most=_ITEMS)])


class HardQuestions(Reportable, list[HardQuestion]):
    """Pairs of query id and score, the worst first, which print as their stories.

    Examples:
        >>> from llama_index_rag_metrics import evaluate
        >>> dataset = {"queries": {"q1": "x?"}, "corpus": {}, "relevant_docs": {"q1": ["d1"]}}
        >>> worst = evaluate(lambda query: ["d2"], dataset, ["mrr"]).worst("mrr")
        >>> [(query_id, score)] = worst
        >>> query_id, score, worst[0].wanted[0][0].id
        ('q1', 0.0, 'd1')
    """

    def __init__(
        self,
        worst: Iterable[HardQuestion],
        metric: str,
        n: int,
        n_lowest: int,
        lost: Sequence[Losses] = (),
        invalid: str = "",
    ) -> None:
        super().__init__(worst)
        self.metric, self.n, self.n_lowest, self.lost = metric, n, n_lowest, lost
        self.invalid = invalid

    def report(self, *, full: bool = False) -> m.Report:
        """What was asked, wanted and retrieved; as a table, one row per question."""
        stories = [question.story for question in self]
        rows = [question._asdict() | {"question": question.question} for question in self]
        if self.invalid:  # the first is an example of all
            decision = [m.Statement(f"{self.invalid}.", "alarm")]
            more = self.n_lowest - 1
            listing = m.Listing(_QUESTIONS, stories[:1], more=more, most=_ITEMS)
        else:
            n_elsewhere = sum(each.by_loss.get(OTHER_ID, 0) for each in self.lost)
            decision = [self._decision(), *remedy(n_elsewhere)]
            listing = m.Listing(_QUESTIONS, stories, most=_ITEMS, lead=losses_line(self.lost))
        return m.Report(
            title=listing_title(self.metric),
            decision=decision,
            listings=[listing],
            records=m.Records.of(rows, ("query_id", "score", "question")),
        )

    def _decision(self) -> m.Statement:
        if not self:
            return m.Statement(f"None of {questions(self.n)} is shown.", "open")
        first, last = (score(self[end].score, digits=digits_of(1)) for end in (0, -1))
        ends = first if first == last else f"{first} to {last}"
        if self.n_lowest > len(self):
            known = "All" if self.n_lowest == self.n else f"{self.n_lowest:,} of"
            of_all = f"{known} {questions(self.n)} score {ends} on {self.metric}; here"
            some = "is the first" if len(self) == 1 else f"are the first {len(self):,}"
            return m.Statement(f"{of_all} {some}.", evidence=_QUESTIONS)
        of_all = f"The {len(self):,} worst of {questions(self.n)} score"
        if len(self) == self.n > 1:
            first_ones = listing_title(self.metric).partition(" ")[0].lower()
            of_all = f"All {questions(self.n)}, {first_ones} first, score"
        elif len(self) == 1:
            of_all = f"The worst of {questions(self.n)} scores"
        return m.Statement(f"{of_all} {ends} on {self.metric}.", evidence=_QUESTIONS)

    def __repr__(self) -> str:
        return str(self)


def listing_title(metric: str) -> str:
    return f"{'Highest' if lower_is_better(metric) else 'Lowest'} {metric}"


def worst_of(system: System, metric: str | None, n: int) -> HardQuestions:
    """The n questions of the worst scores, on the headline for None; ties keep their order."""
    check_integer("n", n, 0)
    metric = m.headline(metrics_of([system])) if metric is None else metric
    scores = system.scores.by_query(metric)
    stories = hardest([system], metric, n)
    worst = [HardQuestion(each.query_id, scores[each.query_id], each) for each in stories]
    n_lowest = sum(each == worst[0].score for each in scores.values()) if worst else 0
    # rankings are those of the first run, scores of all
    lost = [] if system.scores.repeats else losses([system], metric)
    return HardQuestions(worst, metric, len(scores), n_lowest, lost, system.invalid(metric))


def story_report(query_id: str, systems: Sequence[System], metric: str, depth: int) -> m.Report:
    """One question: the first `depth` items of each system, or of each run of one, and what was
    wanted."""
    runs = systems[0].repeats if len(systems) == 1 else []
    if runs:
        systems, metric = runs, Passes.split(metric)[1]
    columns = [system.by_query(metric) for system in systems]
    story = query_answers(query_id, systems, metric, columns)
    n_elsewhere = sum(len(answer.same_text) for answer in story.answers)
    of_several = any(system.scores.repeats for system in systems)
    found = f"{'In the first run: ' if of_several else ''}{found_line(story)}"
    decision = [m.Statement(found), *remedy(n_elsewhere)]
    listing = m.Listing(metric, [story], most=depth)
    return m.Report(f"Question {query_id}", decision=decision, listings=[listing])


def hardest(
    systems: Sequence[System], metric: str, n: int, *, stages: bool = False
) -> list[m.QueryAnswers]:
    """The questions with the worst scores, averaged over the systems; ties keep their order."""
    if not any(metric in system.scores for system in systems):
        raise UnknownMetric(metric, systems[0].scores.metric_names)
    columns = [system.by_query(metric) for system in systems]
    known: dict[str, list[float]] = defaultdict(list)
    for query_id, value in (pair for column in columns for pair in column.items()):
        known[query_id].append(value)
    sign = -1 if lower_is_better(metric) else 1
    ids = sorted(known, key=lambda each: sign * math.fsum(known[each]) / len(known[each]))
    return [query_answers(each, systems, metric, columns, stages=stages) for each in ids[:n]]
