"""Where each system has what a question wants, or how it lost it: facts, and how many there are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import NamedTuple, TypeVar

from llama_index_rag_metrics.rankings.matching.likeness import CONTAINED, likeness, same_text
from llama_index_rag_metrics.rankings.matching.matched import BY_ID
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report.model import MOST_ABREAST
from llama_index_rag_metrics.report.text import by_holder, difference, sentence
from llama_index_rag_metrics.runtime.containers import picked

from .label_view import Item, LabelView, System, columns_of

T = TypeVar("T")

NEVER = "never retrieved"
NOT_INDEXED = "not in the index"
BELOW = "below the cutoff"
OVER = "over the token budget"
OTHER_ID = "under another id"
IN_PART = "in part under another id"
DROPPED = "dropped by a stage"
IN_CALL = "in a search, not in the result"
LOSSES = (NEVER, NOT_INDEXED, BELOW, OVER, OTHER_ID, IN_PART, DROPPED, IN_CALL)
UNMET = "no relevant passage meets it"  # said of a group, or a facet, that nothing can meet

# stages of every pipeline: who retrieves, and where metrics stop
RETRIEVER, CUT, BUDGET = "retriever", "metric's cutoff", "token budget"
MOST_QUESTIONS = 20_000  # with more questions, places aren't looked up
_TELLING = 40  # parts of fewer characters may be alike by chance


class Whereabouts(NamedTuple):
    """Where a system has a relevant passage, or how it lost it; with neither, it isn't known."""

    loss: str = ""  # "" where it wasn't lost
    rank: int | None = None  # None where the ranking doesn't have it
    item: str = ""  # the retrieved passage that is the relevant one, or has its text
    was: int | None = None  # the rank of its text, or the one before it was dropped
    search: int | None = None  # the first of an agent's searches that had it
    stage: str = ""  # of a pipeline's stages, the one that lost it

    @property
    def is_known(self) -> bool:
        return bool(self.loss or self.rank)

    @property
    def cause(self) -> str:
        return f"dropped by {self.stage}" if self.loss == DROPPED else self.loss


NOWHERE = Whereabouts()


class SystemAnswer:
    def __init__(self, system: System, query_id: str, metric: str, view: LabelView) -> None:
        matched, ranking = system.judged_by(metric), system.run.get(query_id)
        self.system, self.view, self.ranking = system, view, ranking
        self.judged = matched.relevance.get(query_id) or Relevance()
        spans = self.judged.spans or {}
        # what the metric wants by this system's labels
        self.needs = view.wanted(self.judged, {**spans, **matched.passages.get(query_id, {})})
        self.error = system.scores.failed.get(query_id)
        self.is_valid = not system.invalid(metric)
        self.is_known = False  # whether it is known what was found; not if the matcher failed
        self.labels: dict[str, Sequence[str]] = {}  # passage to the labels that it stands for
        self.ranks: dict[str, int] = {}  # passage to rank, without copies of labels above it
        self.places: dict[str, Whereabouts] = {}  # label to where the ranking or a search has it
        self.text_scores: dict[str, float] = {}  # of a metric of texts, text to its score
        if ranking is None:
            return
        self.error = ranking.error
        self.is_known = ranking.error is None and query_id not in matched.errors
        if matched.matcher == BY_ID:
            self._read_labels(ranking)
        else:
            stands_for = matched.stands_for.get(query_id, ())
            self.labels.update(zip(ranking.ids, stands_for, strict=False))
        for number, call in enumerate(ranking.calls or (), 1):
            for item in call.ids:
                place = Whereabouts(IN_CALL, item=item, search=number)
                for label in picked(self.judged.grades, self.labels.get(item, ())):
                    self.places.setdefault(label, place)
        self._find(ranking)
        result = system.computed.get(metric, {}).get(query_id)
        if view.of_texts and result is not None:
            texts = ranking.without_copies(ranking.texts or ranking.ids).texts or ()
            self.text_scores.update(zip(texts, result.metadata.get("scores", ()), strict=False))

    def _read_labels(self, ranking: Ranking) -> None:
        for items in (ranking, *(ranking.calls or ())):
            labels_of_items = self.view.labels_of(items, self.judged)
            for item, labels in zip(items.ids, labels_of_items, strict=True):
                self.labels.setdefault(item, labels)  # of copies the first counts

    def _find(self, ranking: Ranking) -> None:
        """Give each passage its rank, and each label its place; copies have no rank."""
        ranks: dict[str, int] = {}  # of labels, or of passages where these are recognised by place
        costs = dict(zip(reversed(ranking.ids), reversed(ranking.tokens or ()), strict=False))
        n_tokens = 0
        for item in ranking.ids:
            n_tokens += costs.pop(item, 0)
            names = labels = self.labels.get(item, ())
            if self.view.by_place or not labels:
                names = [item]
            for name in names:
                if name not in ranks:
                    ranks[name] = len(ranks) + 1
                    self.ranks.setdefault(item, ranks[name])
            for label in picked(self.judged.grades, labels):
                place = self.places.get(label, NOWHERE)
                if place.rank is None:
                    rank = ranks[item if self.view.by_place else label]
                    self.places[label] = self._place(rank, n_tokens, item, place.search)

    def _place(self, rank: int, n_tokens: int, item: str, search: int | None) -> Whereabouts:
        place = Whereabouts("", rank, item, search=search)
        if self.view.k is not None and rank > self.view.k:
            return place._replace(loss=BELOW, stage=CUT)
        if self.view.budget is not None and n_tokens > self.view.budget:
            return place._replace(loss=OVER, stage=BUDGET)
        return place

    @cached_property
    def texts(self) -> dict[str, str | None]:
        texts: dict[str, str | None] = {}
        if self.ranking is not None:
            for items in (self.ranking, *(self.ranking.calls or ())):
                for number, item in enumerate(items.ids):
                    if items.texts is not None:
                        texts.setdefault(item, items.texts[number])
                    elif item not in texts:
                        texts[item] = self.system.text_of(item)
        return texts

    def grade_of(self, item: str) -> float | None:
        grades = picked(self.judged.grades, self.labels.get(item, ()))
        return max(grades.values(), default=None)

    def is_hit(self, item: str) -> bool:
        grade = self.grade_of(item)
        return grade is not None and grade >= self.view.min_grade

    def whereabouts(self, need: Sequence[Item]) -> Whereabouts:
        if not self.is_known:
            return NOWHERE
        if not need[0].grade:
            return Whereabouts(UNMET)
        names = list(map(attrgetter("id"), need))
        places = sorted(
            picked(self.places, names).values(),
            key=lambda place: (place.rank or math.inf, place.search or 0),
        )
        if places and not self.system.is_in_doubt:
            return places[0]
        # after a new ingestion, ids are others, or were used again, and perhaps chunks are others
        texts = [item.text.strip() for item in need if item.text and not item.passage]
        for retrieved, rank in self.ranks.items():
            text = (self.texts[retrieved] or "").strip()
            if retrieved not in names and any(_is_same(label_text, text) for label_text in texts):
                return Whereabouts(OTHER_ID, None, retrieved, rank, stage=RETRIEVER)
            if not self.is_valid and likeness(texts, [text]).max(initial=0) >= CONTAINED:
                places.append(Whereabouts(IN_PART, None, retrieved, rank, stage=RETRIEVER))
        if places:
            return places[0]
        if set(names).issubset(self.system.retrieval.absent):
            return Whereabouts(NOT_INDEXED, stage=RETRIEVER)
        return Whereabouts(NEVER, stage=RETRIEVER)


def _is_same(label_text: str, text: str) -> bool:
    shorter, longer = sorted((label_text, text), key=len)
    is_telling = len(shorter) >= max(_TELLING, len(label_text) / 2)
    return text == label_text or (is_telling and shorter in longer)


class Need(NamedTuple):
    """A passage that is wanted, or alternatives of which any meets it."""

    items: Sequence[Item]
    places: Sequence[Whereabouts]  # where each system has it or how it was lost

    @property
    def ids(self) -> list[str]:
        return [item.id for item in self.items]

    def other_text(self, text: str) -> str:
        """Return how a text differs from the wanted ones; "" if it has one, or one is unknown."""
        words = ""
        for item in self.items:
            if not item.text or isinstance(item.passage, Span) or same_text(text, item.text):
                return ""
            words = difference(item.text, text)[1]
        return words


class QuestionView:
    """One question as a metric sees it; the systems may be the `stages` of one pipeline."""

    def __init__(
        self, query_id: str, systems: Sequence[System], metric: str, *, stages: bool = False
    ) -> None:
        self.query_id, self.systems, self.stages = query_id, systems, stages
        self.view = LabelView.of(metric)
        self.answers = [SystemAnswer(system, query_id, metric, self.view) for system in systems]
        self.needs: list[Need] = []  # what is wanted, best grade first
        for items in next((answer.needs for answer in self.answers if answer.needs), []):
            need = []
            for item in items:
                text = next(filter(None, self._texts(item)), None)
                need.append(item._replace(text=text))
            places = [answer.whereabouts(need) for answer in self.answers]
            if stages:
                places = list(self._through_stages(need, places))
            self.needs.append(Need(need, places))
        # how many systems with rankings decide whether a need is missed
        self.n_deciding = sum(bool(system.run) for _, system in self.deciding(systems))

    def deciding(self, facts: Sequence[T]) -> list[tuple[SystemAnswer, T]]:
        pairs = list(zip(self.answers, facts, strict=True))
        return pairs[-1:] if self.stages else pairs

    @property
    def end(self) -> str:
        """The stage of a pipeline at which the metric stops reading; "" where it reads all."""
        if self.view.k is not None:
            return CUT
        if self.view.budget is not None:
            return BUDGET
        return ""

    def _texts(self, item: Item) -> Iterator[str | None]:
        yield item.text
        for answer in self.answers:
            if item.passage is not None:
                yield answer.system.text_of(item.passage)
            yield answer.system.text_of(item.id)
        for answer in self.answers:
            if item.id in answer.places:
                yield answer.texts[answer.places[item.id].item]

    def _through_stages(
        self, need: Sequence[Item], places: Sequence[Whereabouts]
    ) -> Iterator[Whereabouts]:
        """Return where each stage has a need; the stage after the last that had it lost it."""
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
    """What one system lost of the relevant passages, counted over questions."""

    def __init__(self, system: System) -> None:
        self.system, self.min_score = system.name, system.run.min_score
        self.depth = system.run.depth
        self.of_run = " (in the first run)" * bool(system.scores.repeats)
        self.n_wanted = 0  # relevant passages of known rankings; alternatives count once
        self.n_questions = self.n_without = 0  # and those that got no relevant passage
        self.by_loss = Counter[str]()  # how many were lost in each way, as `Whereabouts.cause`

    def add(self, places: Iterable[Whereabouts]) -> None:
        losses = [place.cause for place in places if place.is_known and place.loss != UNMET]
        self.by_loss.update(filter(None, losses))
        self.n_wanted += len(losses)
        self.n_questions += bool(losses)
        self.n_without += bool(losses) and all(losses) and OTHER_ID not in losses

    def __str__(self) -> str:
        is_one = self.n_wanted == 1
        total, parts = f" of {self.n_wanted:,} relevant passages", []
        for loss in dict.fromkeys((*LOSSES, *self.by_loss)):
            n = self.by_loss[loss]
            if n:
                verbs = ("was", "were") if loss.startswith(("never", "dropped")) else ("is", "are")
                passages = "the relevant passage" if is_one else f"{n:,}{total}"
                parts.append(f"{passages} {verbs[n > 1]} {loss}{reaching(self.min_score, loss)}")
                total = ""
        if not parts:
            passages = f"all {self.n_wanted:,} relevant passages were"
            parts.append(f"{'the relevant passage was' if is_one else passages} found")
        return ", ".join(parts) + self.of_run


def reaching(min_score: float | None, loss: str) -> str:
    if min_score is None or loss != NEVER:
        return ""
    return f" with a score of {min_score:g} or more"


def losses(systems: Sequence[System], metric: str) -> list[Losses]:
    query_ids = dict.fromkeys(chain(*columns_of(systems, metric)))
    if len(query_ids) > MOST_QUESTIONS:
        return []
    return losses_of(systems, (QuestionView(query_id, systems, metric) for query_id in query_ids))


def losses_of(systems: Sequence[System], questions: Iterable[QuestionView]) -> list[Losses]:
    counts = list(map(Losses, systems))
    for question in questions:
        for number, of_system in enumerate(counts):
            of_system.add(need.places[number] for need in question.needs)
    return counts


def losses_sentence(counts: Sequence[Losses]) -> str:
    pairs = [(str(of_system), of_system.system) for of_system in counts if of_system.n_wanted]
    if not pairs or len(pairs) > MOST_ABREAST:
        return ""
    lines = by_holder(pairs, len(counts))
    if lines == [pairs[0][0]]:
        return sentence(lines[0])
    return f"{'; '.join(lines)}."


def absent_labels(
    relevance: Mapping[str, Relevance], run: Run, indexed: Collection[str]
) -> frozenset[str]:
    """Return the labels that an index lacks; none where it isn't all that can be retrieved."""
    ids = frozenset(indexed)
    if all(ids.issuperset(ranking.ids) for ranking in run.values()):
        return frozenset().union(*relevance.values()) - ids
    return frozenset()
