"""Where systems have what a question wants: at which rank, or how it was lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from .escape import terminal
from .excerpts import named
from .model import Answer, Cutoff, Found, Item, QueryAnswers

WANTED = 5  # how many relevant passages are listed
WANTED_OF_CALLS = 3  # how many are listed below the calls of an agent
_FIRST_MISSED = 2  # how many of those that were missed are listed, whatever else was found
NEVER = "never retrieved"
NOT_INDEXED = "not in the index"
BELOW = "below the cutoff"
OVER = "over the token budget"
OTHER_ID = "under another id"
DROPPED = "dropped by a stage"
IN_CALL = "in a call, not in the result"
# the ways in which a relevant passage is lost
LOSSES = (NEVER, NOT_INDEXED, BELOW, OVER, OTHER_ID, DROPPED, IN_CALL)
# stages of every pipeline: who retrieves, and where metrics stop
RETRIEVER, CUT, BUDGET = "retriever", "cut", "token budget"
REMEDY = "Evaluate with matcher='text', or move the labels:"
# what to do about passages under other ids: the command moves labels to the nodes of an index
MOVE = "rag-metrics labels move dataset.json storage/ -o moved.json"
UNMET = "no relevant passage meets it"  # what is said of a group, or a facet, that nothing can meet


def reaching(min_score: float | None) -> str:
    return "" if min_score is None else f" with a score of {min_score:g} or more"


class Whereabouts(NamedTuple):
    """Where a system has a relevant passage, in words, "" where nobody knows."""

    words: str
    loss: str = ""  # how it was lost, "" where it wasn't
    stage: str = ""  # of a pipeline's stages, the one that lost it
    before: tuple[str, int] | None = None  # who had it before that, at which rank


class Standing(NamedTuple):
    """A need, by its position among those of a query, and where each system met it or didn't."""

    need: int
    places: Sequence[Whereabouts]
    is_missed: bool  # whether every system lost it; of stages, whether the last one has lost it

    @property
    def n_met(self) -> int:
        return sum(bool(place.words) and not place.loss for place in self.places)

    def words(self, names: Iterable[str]) -> list[tuple[str, str]]:
        """Each place in words, with the systems for which it holds: "" for all of them."""
        systems: dict[str, list[str]] = {}
        for place, name in zip(self.places, names, strict=True):
            if place.words:
                systems.setdefault(place.words, []).append(name)
        n = len(self.places)
        return [
            (words, "" if len(holders) == n else ", ".join(holders))
            for words, holders in systems.items()
        ]


def most_wanted(query: QueryAnswers) -> int:
    """How many relevant passages are listed: fewer where calls are."""
    return WANTED_OF_CALLS if has_calls(query) else WANTED


def has_calls(query: QueryAnswers) -> bool:
    return any(answer.calls is not None for answer in query.answers)


def standings(query: QueryAnswers, names: Mapping[str, str] | None = None) -> list[Standing]:
    """Where each need was met or lost, the least met first among the `most_wanted` and the rest."""
    unsorted = []
    for number, need in enumerate(query.wanted):
        places = [where_found(query, system, need, names) for system in range(len(query.answers))]
        places_known = [place for place in places if place.words]
        deciding = places_known[-1:] if query.stages else places_known
        is_missed = bool(places_known) and all(place.loss for place in deciding)
        unsorted.append(Standing(number, places, is_missed))
    unsorted.sort(key=lambda standing: (not standing.is_missed, standing.n_met))
    n_missed = sum(standing.is_missed for standing in unsorted)
    missed, reached = unsorted[:n_missed], unsorted[n_missed:]
    n_first = max(_FIRST_MISSED, most_wanted(query) - len(reached))
    n_met = max(0, most_wanted(query) - n_first)
    return [*missed[:n_first], *reached[:n_met], *missed[n_first:], *reached[n_met:]]


def where_found(
    query: QueryAnswers, number: int, need: Sequence[Item], names: Mapping[str, str] | None = None
) -> Whereabouts:
    """Where the system of this number met a need, by its best alternative, or lost it."""
    answer = query.answers[number]
    if answer.found is None:
        return Whereabouts("")
    if not any(item.grade for item in need):
        return Whereabouts(UNMET, UNMET)
    best = best_place(answer, need)
    if best is not None:
        return _of_rank(best, query.cutoff, answer.system)
    calls = [answer.in_call[item.id] for item in need if item.id in answer.in_call]
    if calls:
        return Whereabouts(f"call {min(calls)} had it, the result doesn't", IN_CALL)
    loss = _lost_after(query, number, need)
    texts = [answer.same_text[item.id] for item in need if item.id in answer.same_text]
    if not texts:
        return loss
    rank, item_id = min(texts)
    if loss.loss == DROPPED:
        return loss._replace(words=f"{loss.words}, its text is at rank {rank:,}")
    words = f"rank {rank:,}, {OTHER_ID} ({named(item_id, names)})"
    return loss._replace(words=words, loss=OTHER_ID)


def _lost_after(query: QueryAnswers, number: int, need: Sequence[Item]) -> Whereabouts:
    """How what isn't in a ranking was lost: at the stage after the last one that had it."""
    earlier = range(number - 1, -1, -1) if query.stages else ()
    for position in earlier:
        place = best_place(query.answers[position], need)
        if place is not None:
            previous, stage = query.answers[position].system, query.answers[position + 1].system
            words = f"dropped by {terminal(stage)} (was {place.rank:,})"
            return Whereabouts(words, DROPPED, stage, (previous, place.rank))
    absent = query.answers[number].absent
    if absent and all(item.id in absent for item in need):
        return Whereabouts(NOT_INDEXED, NOT_INDEXED, RETRIEVER)
    retriever = query.answers[0 if query.stages else number]
    return Whereabouts(f"{NEVER}{reaching(retriever.min_score)}", NEVER, RETRIEVER)


def best_place(answer: Answer, need: Sequence[Item]) -> Found | None:
    """The first place of what meets a need, wherever the metric stops reading."""
    places = answer.found or {}
    return min((places[item.id] for item in need if item.id in places), default=None)


def _of_rank(found: Found, cutoff: Cutoff | None, system: str) -> Whereabouts:
    words, previous = f"rank {found.rank:,}", (system, found.rank)
    if cutoff is None:
        return Whereabouts(words)
    reached = found.rank if cutoff.unit == "items" else found.tokens
    if reached is None or reached <= cutoff.at:
        return Whereabouts(words)
    if cutoff.unit == "items":
        return Whereabouts(f"{words}, {BELOW} {cutoff.at:,}", BELOW, CUT, previous)
    return Whereabouts(f"over the budget of {cutoff.at:,} tokens", OVER, BUDGET, previous)
