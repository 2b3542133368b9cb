"""Where each system has what a question wants, or how it lost it: facts, and how many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, product
from operator import attrgetter, itemgetter
from typing import NamedTuple

from llama_index_rag_metrics.rankings.matching.matched import BY_ID
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.report.escape import terminal
from llama_index_rag_metrics.report.figure import MOST_ABREAST

from .label_view import Item, LabelView, System, columns_of

NEVER = "never retrieved"
NOT_INDEXED = "not in the index"
BELOW = "below the cutoff"
OVER = "over the token budget"
OTHER_ID = "under another id"
DROPPED = "dropped by a stage"
IN_CALL = "in a search, not in the result"
LOSSES = (NEVER, NOT_INDEXED, BELOW, OVER, OTHER_ID, DROPPED, IN_CALL)
"""The ways in which a relevant passage is lost."""
UNMET = "no relevant passage meets it"
"""What is said of a group, or a facet, that nothing can meet."""

# stages of every pipeline: who retrieves, and where metrics stop
RETRIEVER, CUT, BUDGET = "retriever", "metric's cutoff", "token budget"
MOST_QUESTIONS = 20_000  # of more questions it isn't looked up where their passages are
_TELLING = 40  # texts of fewer characters may be alike by chance
_VERBS = {NEVER: ("was", "were"), DROPPED: ("was", "were")}


class Whereabouts(NamedTuple):
    """Where a system has a relevant passage, or how it lost it; without both, nobody knows."""

    loss: str = ""  # "" where it wasn't lost
    rank: int | None = None  # None where the ranking doesn't have it
    item: str = ""  # the retrieved passage that is the relevant one, or has its text
    was: int | None = None  # the rank of its text, or the one before it was dropped
    search: int | None = None  # the first of an agent's searches that had it
    stage: str = ""  # of a pipeline's stages, the one that lost it

    @property
    def is_known(self) -> bool:
        return bool(self.loss or self.rank)


class SystemAnswer:
    """What one system gave for a question, as a metric reads it.

    Attributes:
        needs: what the metric wants by this system's labels.
        labels: of each retrieved passage, the labels that it stands for.
        calls: the same of each of an agent's searches.
        ranks: of each retrieved passage, None for a copy.
        places: label to where the ranking has it.
        is_known: whether anybody knows what was found: not where the matcher failed.
    """

    def __init__(self, system: System, query_id: str, metric: str, view: LabelView) -> None:
        matched, ranking = system.judged_by(metric), system.run.get(query_id)
        self.system, self.view, self.ranking = system, view, ranking
        self.judged = matched.relevance.get(query_id) or Relevance()
        spans = self.judged.spans or {}
        self.needs = view.wanted(self.judged, {**spans, **matched.passages.get(query_id, {})})
        self.error = system.scores.failed.get(query_id)
        self.is_known = False
        self.labels: list[Sequence[str]] = []
        self.calls: list[list[Sequence[str]]] = []
        self.ranks: list[int | None] = []
        self.places: dict[str, Whereabouts] = {}
        if ranking is None:
            return
        self.error = ranking.error
        self.is_known = ranking.error is None and query_id not in matched.errors
        calls = ranking.calls or ()
        if matched.matcher == BY_ID:
            self.labels = view.labels_of(ranking, self.judged)
            self.calls = [view.labels_of(call, self.judged) for call in calls]
        else:
            nothing: list[Sequence[str]] = [()] * len(ranking.ids)
            self.labels = [*(matched.stands_for.get(query_id) or nothing)]
            labels = dict(zip(ranking.ids, self.labels, strict=True))
            for call in calls:
                self.calls.append([labels.get(item, ()) for item in call.ids])
        self._find(ranking)

    def _find(self, ranking: Ranking) -> None:
        """Give each passage its rank, and each label its place; copies have no rank."""
        counted: dict[str, Whereabouts] = {}
        costs = dict(zip(reversed(ranking.ids), reversed(ranking.tokens or ()), strict=False))
        n_tokens = 0
        for item, labels in zip(ranking.ids, self.labels, strict=True):
            n_tokens += costs.pop(item, 0)
            names = labels
            if self.view.by_place:
                names = [item]
            n_before, rank = len(counted), None
            for name in names:
                if name not in counted:
                    counted[name] = self._place(len(counted) + 1, n_tokens, item)
                    rank = n_before + 1
            self.ranks.append(rank)
        self.places = counted
        if self.view.by_place:
            self.places = {}
            for item, labels in zip(ranking.ids, self.labels, strict=True):
                for label in labels:
                    self.places.setdefault(label, counted[item])

    def _place(self, rank: int, n_tokens: int, item: str) -> Whereabouts:
        if self.view.k is not None and rank > self.view.k:
            return Whereabouts(BELOW, rank, item, stage=CUT)
        if self.view.budget is not None and n_tokens > self.view.budget:
            return Whereabouts(OVER, rank, item, stage=BUDGET)
        return Whereabouts("", rank, item)

    def grade_of(self, labels: Sequence[str]) -> float | None:
        """The best grade of labels; None where nothing of it was judged."""
        grades = self.judged.grades
        return max((grades[name] for name in labels if name in grades), default=None)

    def texts_of(self, items: Ranking) -> Sequence[str | None]:
        text_of = self.system.retrieval.text_of
        if items.texts is not None:
            return items.texts
        if text_of is None:
            return [None] * len(items.ids)
        return [*map(text_of, items.ids)]

    def whereabouts(self, need: Sequence[Item]) -> Whereabouts:
        """Where it has what meets a need, or how it lost that."""
        if not self.is_known:
            return Whereabouts()
        names = {item.id for item in need if item.grade}
        if not names:
            return Whereabouts(UNMET)
        search = None
        for number, labels in enumerate(self.calls, 1):
            if search is None and not names.isdisjoint(chain(*labels)):
                search = number
        places = [self.places[name] for name in names if name in self.places]
        if places:
            return min(places, key=attrgetter("rank"))._replace(search=search)
        if search is not None:
            return Whereabouts(IN_CALL, search=search)
        place_of_text = self._same_text(
            [item.text for item in need if item.text and not item.passage]
        )
        if place_of_text is not None:
            return place_of_text
        if names.issubset(self.system.retrieval.absent):
            return Whereabouts(NOT_INDEXED, stage=RETRIEVER)
        return Whereabouts(NEVER, stage=RETRIEVER)

    def _same_text(self, texts: Sequence[str]) -> Whereabouts | None:
        """The first passage with one of these texts: after a new ingestion, ids are others."""
        for rank, (item, text) in enumerate(self._stripped_texts.items(), 1):
            if any(_is_same(label_text.strip(), text) for label_text in texts):
                return Whereabouts(OTHER_ID, None, item, rank, stage=RETRIEVER)
        return None

    @cached_property
    def _stripped_texts(self) -> dict[str, str]:
        texts: dict[str, str] = {}
        if self.ranking is not None:
            for item, text in zip(self.ranking.ids, self.texts_of(self.ranking), strict=True):
                texts.setdefault(item, (text or "").strip())
        return texts


def _is_same(label_text: str, text: str) -> bool:
    """Whether a text has all of a labelled one, or is at least half of it."""
    shorter, longer = sorted((label_text, text), key=len)
    return len(shorter) >= max(_TELLING, len(label_text) / 2) and shorter in longer


class Question:
    """One question as a metric sees it; the systems may be the `stages` of one pipeline.

    Attributes:
        needs: what is wanted, best grade first; any item of a need meets it.
        deciding: which of the answers decide whether a need is missed: the last stage, or all.
        places: of each need, where each system has it or how it was lost.
    """

    def __init__(
        self, query_id: str, systems: Sequence[System], metric: str, *, stages: bool = False
    ) -> None:
        self.query_id, self.view = query_id, LabelView.of(metric)
        self.deciding = slice(-1, None) if stages else slice(None)
        self.answers = [SystemAnswer(system, query_id, metric, self.view) for system in systems]
        needs = next((answer.needs for answer in self.answers if answer.needs), [])
        texts = self._retrieved_texts()
        corpora = [system.retrieval.text_of for system in systems if system.retrieval.text_of]
        self.needs: list[list[Item]] = []
        for need in needs:
            items = []
            for item in need:
                places = [place for place in (item.passage, item.id) if place is not None]
                found_texts = (corpus(place) for place, corpus in product(places, corpora))
                text = item.text or next(filter(None, found_texts), texts.get(item.id))
                items.append(item._replace(text=text))
            self.needs.append(items)
        self.places: list[list[Whereabouts]] = []
        for need in self.needs:
            whereabouts = [answer.whereabouts(need) for answer in self.answers]
            if stages:
                whereabouts = list(self._through_stages(need, whereabouts))
            self.places.append(whereabouts)

    @property
    def end(self) -> str:
        """The stage of a pipeline at which the metric stops reading; "" where it reads all."""
        if self.view.k is not None:
            return CUT
        if self.view.budget is not None:
            return BUDGET
        return ""

    def losses(self) -> list[Losses]:
        """What each system lost."""
        counts = [Losses(answer.system) for answer in self.answers]
        self.count(counts)
        return counts

    def count(self, counts: Sequence[Losses]) -> None:
        """Add what each system lost to the counts of the same systems."""
        for number, of_system in enumerate(counts):
            of_system.add([*map(itemgetter(number), self.places)])

    def _retrieved_texts(self) -> dict[str, str]:
        """Label to the text of the first passage that stands for it."""
        texts: dict[str, str] = {}
        for answer in self.answers:
            if answer.ranking is None:
                continue
            parts = [answer.ranking, *(answer.ranking.calls or ())]
            for items, labels in zip(parts, [answer.labels, *answer.calls], strict=True):
                for names, text in zip(labels, answer.texts_of(items), strict=True):
                    if text:
                        for name in names:
                            texts.setdefault(name, text)
        return texts

    def _through_stages(
        self, need: Sequence[Item], places: Sequence[Whereabouts]
    ) -> Iterator[Whereabouts]:
        """Where each stage has a need; the one after the last that had it dropped it, or failed."""
        source: Whereabouts | None = None  # of the last stage that had it
        stage = ""
        for answer, place in zip(self.answers, places, strict=True):
            stage = stage or answer.system.name
            has_failed = answer.error is not None
            if place.rank is not None:
                source, stage = place, ""
                yield place
            elif source is not None and (has_failed or place.loss):
                yield Whereabouts(DROPPED, None, source.item, source.rank, stage=stage)
            elif has_failed and need[0].grade:
                yield Whereabouts(NEVER, stage=RETRIEVER)
            else:
                yield place


class Losses:
    """What one system lost of the relevant passages, counted over questions.

    Attributes:
        n_wanted: how many are relevant where it is known what came; of alternatives, one.
        by_loss: how many were lost in each of the ways of `LOSSES`.
        n_questions, n_without: how many questions there are, and how many got no relevant passage.
    """

    def __init__(self, system: System) -> None:
        self.system, self.min_score = system.name, system.run.min_score
        self.is_of_run = bool(system.scores.repeats)  # whether questions were asked several times
        self.n_wanted = self.n_questions = self.n_without = 0
        self.by_loss = Counter[str]()

    def add(self, places: Sequence[Whereabouts]) -> None:
        """Count one question."""
        losses = [place.loss for place in places if place.is_known and place.loss != UNMET]
        self.n_wanted += len(losses)
        self.n_questions += bool(losses)
        self.n_without += bool(losses) and all(losses)
        self.by_loss.update(filter(None, losses))

    def __str__(self) -> str:
        is_one = self.n_wanted == 1
        total = f" of {self.n_wanted:,} relevant passages"
        parts = []
        for loss in filter(self.by_loss.__contains__, LOSSES):
            n = self.by_loss[loss]
            verb = _VERBS.get(loss, ("is", "are"))[n > 1]
            passages = "the relevant passage" if is_one else f"{n:,}{total}"
            parts.append(f"{passages} {verb} {loss}{reaching(self.min_score, loss)}")
            total = ""
        if not parts and is_one:
            parts.append("the relevant passage was found")
        elif not parts:
            parts.append(f"all {self.n_wanted:,} relevant passages were found")
        return ", ".join(parts) + " (in the first run)" * self.is_of_run

    @property
    def sentence(self) -> str:
        text = str(self)
        return f"{text[0].upper()}{text[1:]}."


def reaching(min_score: float | None, loss: str) -> str:
    """The score below which passages are left out, of one that was never retrieved."""
    if min_score is None or loss != NEVER:
        return ""
    return f" with a score of {min_score:g} or more"


def losses(systems: Sequence[System], metric: str) -> list[Losses]:
    """What each system lost over the metric's questions, if these aren't many and it is known."""
    query_ids = dict.fromkeys(chain(*columns_of(systems, metric)))
    if len(query_ids) > MOST_QUESTIONS:
        return []
    counts = [*map(Losses, systems)]
    for query_id in query_ids:
        Question(query_id, systems, metric).count(counts)
    return counts


def losses_sentence(counts: Sequence[Losses]) -> str:
    """What each system lost, in one sentence; "" where nobody knows, or where systems are many."""
    measured = [of_system for of_system in counts if of_system.n_wanted]
    if not measured or len(measured) > MOST_ABREAST:
        return ""
    if len(counts) == 1:
        return measured[0].sentence
    return "; ".join(f"{terminal(of_system.system)}: {of_system}" for of_system in measured) + "."
