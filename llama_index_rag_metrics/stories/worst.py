"""The questions with the worst scores, and where relevant passages are lost, counted over all."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from llama_index_rag_metrics.metrics.metric_names import lower_is_better
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report import whereabouts as w
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.figure import MOST_ABREAST
from llama_index_rag_metrics.report.numbers import counted, digits_of, questions, score
from llama_index_rag_metrics.report.query_lines import found_line
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.report.whereabouts import OTHER_ID
from llama_index_rag_metrics.runtime.amounts import check_integer
from llama_index_rag_metrics.runtime.errors import UnknownMetric
from llama_index_rag_metrics.stories.answers import placed_answers, query_answers
from llama_index_rag_metrics.stories.label_view import System, metrics_of

MOST_QUESTIONS = 20_000  # of more questions it isn't looked up where their passages are


class Losses(NamedTuple):
    """What one system lost of the relevant passages, over the questions of one metric."""

    system: str
    wanted: int  # how many are relevant where it is known what came; of alternatives, one
    by_loss: Mapping[str, int]  # how many were lost in each of the ways of `LOSSES` that occur
    questions: int = 0  # how many questions there are, and
    without: int = 0  # how many of them got no relevant passage
    min_score: float | None = None  # below which passages are left out, where that is known

    @property
    def lost(self) -> int:
        return sum(self.by_loss.values())

    def __str__(self) -> str:
        if not self.by_loss:
            many = f"all {self.wanted:,} relevant passages were found"
            return many if self.wanted > 1 else "the relevant passage was found"
        of = f"of {self.wanted:,} relevant passage{'' if self.wanted == 1 else 's'}"
        above = w.reaching(self.min_score)
        named = {f"{loss}{above * (loss == w.NEVER)}": n for loss, n in self.by_loss.items()}
        (loss, n), *others = named.items()
        first = f"{n:,} {of} {_is(loss, n)} {loss}"
        return ", ".join([first, *(f"{n:,} {_is(loss, n)} {loss}" for loss, n in others)])


def _is(loss: str, n: int) -> str:
    return ("was", "were")[n > 1] if loss.startswith((w.NEVER, w.DROPPED)) else ("is", "are")[n > 1]


def losses(systems: Sequence[System], metric: str, *, stages: bool = False) -> list[Losses]:
    """What each system lost over the metric's questions, if these aren't many and it is known."""
    columns = [system.by_query(metric) for system in systems]
    if max(map(len, columns), default=0) > MOST_QUESTIONS:
        return []
    tallies = [Counter[str]() for _ in systems]
    story_of = placed_answers(systems, metric, stages=stages)
    for query_id in dict.fromkeys(query_id for column in columns for query_id in column):
        story = story_of(query_id)
        for number, (column, tally) in enumerate(zip(columns, tallies, strict=True)):
            if query_id not in column:
                continue
            places = [w.where_found(story, number, need) for need in story.wanted]
            if story.more and (number or all(place.loss for place in places)):
                tally["unsure"] += 1
            if lost := [place.loss for place in places if place.words and place.loss != w.UNMET]:
                # those that aren't kept were placed better
                tally["wanted"] += len(lost) + story.more
                tally["questions"] += 1
                tally["without"] += all(lost)
                tally.update(filter(None, lost))
    return [
        Losses(
            plain(system.name),
            tally["wanted"],
            {loss: tally[loss] for loss in w.LOSSES if tally[loss]},
            tally["questions"],
            tally["without"],
            system.run.min_score,
        )
        for system, tally in zip(systems, tallies, strict=True)
        if tally["wanted"] and not tally["unsure"]
    ]


def losses_line(known: Sequence[Losses]) -> str:
    """What each system lost, in one sentence; "" where nobody knows, or where systems are many."""
    if not known or len(known) > MOST_ABREAST:
        return ""
    if len(known) > 1:
        return f"{'; '.join(f'{each.system}: {each}' for each in known)}."
    text = f"{known[0]}."
    return text[0].upper() + text[1:]


def remedy(n: int) -> list[m.Statement]:
    """What to do about relevant passages that came under other ids, if there are any."""
    came = f"{counted(n, 'relevant passage', 'relevant passages')} came {w.OTHER_ID}. {w.REMEDY}"
    return [m.Statement(came, "open", command=w.MOVE)] if n else []


_ITEMS = 3
_QUESTIONS = "Questions"


class _Pair(NamedTuple):
    query_id: str
    score: float


class HardQuestion(_Pair):
    """A query id and its score, a pair; it prints as what was asked, wanted and retrieved."""

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
        from llama_index_rag_metrics.report.html import fragment

        return fragment(self._report())

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
    """One question: the first items of each system, or of each run of one, and what was wanted."""
    runs = systems[0].repeats if len(systems) == 1 else []
    if runs:
        systems = runs
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
