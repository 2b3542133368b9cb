"""Why a question failed, in a sentence or two: facts, and nothing where none is known."""

from __future__ import annotations

from collections.abc import Sequence

from . import whereabouts as w
from .escape import terminal
from .model import CallAnswer, Item, QueryAnswers

_MOST_LINES = 3
_MOST_RANKS = 3

# by whether it is one, all or some of the relevant passages
_NEVER = {
    "one": "The relevant passage wasn't retrieved.",
    "all": "None of the {n:,} {noun} was retrieved.",
    "some": "{lost:,} of {n:,} {noun} {weren_t} retrieved.",
}
_NOT_INDEXED = {
    "one": "The relevant passage isn't in the index.",
    "all": "None of the {n:,} {noun} is in the index.",
    "some": "{lost:,} of {n:,} {noun} {aren_t} in the index.",
}
_DEEP = {
    "one": "Found at {ranks}; only the first {cutoff} count.",
    "some": "{lost:,} of {n:,} {noun} {are} at {ranks}; only the first {cutoff} count.",
}
_OTHER_ID = {
    "one": "The relevant text came at rank {rank:,} under another id: {remedy}.",
    "some": "{lost:,} of {n:,} relevant texts came under another id, {where}: {remedy}.",
}
_DROPPED = {
    "one": "Dropped {how}.",
    "some": "{lost:,} of {n:,} {noun} {were} dropped, the first {how}.",
}
_IN_CALL = "{lost:,} of {n:,} {noun} {were} brought by a search, but dropped from the result."
_CALLS = {
    "no call": "It made no search.",
    "one": "Its only search brought {found:,} of {n:,} {noun}.",
    "some": "Its {calls:,} searches brought {found:,} of {n:,} {noun}.",
    "one, nothing": "Its only search brought no relevant passage.",
    "some, nothing": "None of its {calls:,} searches brought a relevant passage.",
}
_REMEDY = "match by text, or move the labels"


def why_lines(query: QueryAnswers) -> list[str]:
    """Why the systems, or the last stage, missed what is relevant; one line for those alike."""
    numbers = range(len(query.answers))
    systems: dict[str, list[str]] = {}
    for number in numbers[-1:] if query.stages else numbers:
        sentence = _Misses(query, number).sentence()
        if sentence:
            systems.setdefault(sentence, []).append(terminal(query.answers[number].system))
    is_of_all = [len(names) for names in systems.values()] == [len(query.answers)]
    if query.stages or is_of_all:
        return list(systems)
    lines = [f"{', '.join(names)}: {sentence}" for sentence, names in systems.items()]
    return lines[:_MOST_LINES]


class _Misses:
    """The needs of a question that one system lost, and how."""

    def __init__(self, query: QueryAnswers, number: int) -> None:
        self.query = query
        self.answer = query.answers[number]
        places = [(need, w.where_found(query, number, need)) for need in query.wanted]
        self.lost = [pair for pair in places if pair[1].loss not in ("", w.UNMET)]
        self.n = sum(place.loss != w.UNMET for _, place in places)
        self.noun = "groups" if any(len(need) > 1 for need in query.wanted) else "relevant passages"

    def sentence(self) -> str:
        """The sentence of the first reason that holds; "" where nothing was lost."""
        if self.answer.error is not None or not self.lost:
            return ""
        if self._of(w.OTHER_ID):
            return self._other_id()
        if self.answer.calls is not None:
            return self._deep() or self._calls(self.answer.calls)
        if not self.answer.retrieved:
            return ""  # the ranking itself says so
        dropped = self._of(w.DROPPED)
        if dropped:
            manner = dropped[0][1].words.removeprefix("dropped ")
            return self._text(_DROPPED, len(dropped), how=manner)
        sentences = [self._best(), self._deep()]
        for loss, templates in ((w.NEVER, _NEVER), (w.NOT_INDEXED, _NOT_INDEXED)):
            n = len(self._of(loss))
            if n:
                sentences.append(self._text(templates, n))
        return " ".join(filter(None, sentences))

    def _text(self, templates: dict[str, str], lost: int, **fields: object) -> str:
        kind = "some"
        if self.n == 1:
            kind = "one"
        elif lost == self.n and "all" in templates:
            kind = "all"
        return templates[kind].format(**self._counts(lost), **fields)

    def _counts(self, lost: int) -> dict[str, object]:
        were, are = ("was", "is") if lost == 1 else ("were", "are")
        counts = {"lost": lost, "n": self.n, "noun": self.noun, "were": were, "are": are}
        return {**counts, "weren_t": f"{were}n't", "aren_t": f"{are}n't"}

    def _of(self, *losses: str) -> list[tuple[Sequence[Item], w.Whereabouts]]:
        return [(need, place) for need, place in self.lost if place.loss in losses]

    def _best(self) -> str:
        """Where the best passage is, if what was lost has lower grades."""
        missing = [need for need, _ in self.lost]
        worth = max(map(_grade, missing))
        better = [
            need for need in self.query.wanted if need not in missing and _grade(need) > worth
        ]
        ranks = [place.rank for need in better if (place := w.best_place(self.answer, need))]
        return f"The highest grade is at rank {min(ranks):,}." if ranks else ""

    def _other_id(self) -> str:
        texts = self.answer.same_text
        elsewhere = self._of(w.OTHER_ID)
        ids = [item.id for need, _ in elsewhere for item in need if item.id in texts]
        rank = min(texts[name].rank for name in ids)
        position = f"the first at rank {rank:,}" if len(elsewhere) > 1 else f"at rank {rank:,}"
        return self._text(_OTHER_ID, len(elsewhere), rank=rank, where=position, remedy=_REMEDY)

    def _deep(self) -> str:
        """Of what is in the ranking beyond where the metric stops reading."""
        deep, cutoff = self._of(w.BELOW, w.OVER), self.query.cutoff
        if not deep or cutoff is None:
            return ""
        places = [w.best_place(self.answer, need) for need, _ in deep]
        ranks = sorted(place.rank for place in places if place is not None)
        unit = "" if cutoff.unit == "items" else " tokens"
        fields = {"ranks": _listed_ranks(ranks), "cutoff": f"{cutoff.at:,}{unit}"}
        return self._text(_DEEP, len(ranks), **fields)

    def _calls(self, calls: Sequence[CallAnswer]) -> str:
        """What an agent's searches brought."""
        in_call = self._of(w.IN_CALL)
        if calls and in_call and self.n == 1:
            words = in_call[0][1].words
            return f"{words[0].upper()}{words[1:]}."
        if calls and in_call:
            return _IN_CALL.format(**self._counts(len(in_call)))
        kind = "some" if len(calls) > 1 else "one"
        n_found = self.n - len(self.lost)
        if not calls:
            kind = "no call"
        elif not n_found:
            kind += ", nothing"
        return _CALLS[kind].format(found=n_found, n=self.n, noun=self.noun, calls=len(calls))


def _listed_ranks(ranks: Sequence[int]) -> str:
    """Such as "ranks 11, 14 and 30"."""
    words = [f"{rank:,}" for rank in ranks[:_MOST_RANKS]]
    n_unlisted = len(ranks) - len(words)
    if n_unlisted:
        words.append(f"{n_unlisted:,} more")
    if len(words) == 1:
        return f"rank {words[0]}"
    return f"ranks {', '.join(words[:-1])} and {words[-1]}"


def _grade(need: Sequence[Item]) -> float:
    return max((item.grade for item in need), default=0.0)
