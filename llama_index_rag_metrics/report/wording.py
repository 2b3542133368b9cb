"""Why a question failed, in a sentence or two: facts, and nothing where none is known."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index_rag_metrics.report import whereabouts as w
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.model import CallAnswer, Item, QueryAnswers

_MOST_LINES = 3
_MOST_RANKS = 3

# by whether it is one, all or some of the relevant passages
_NEVER = {
    "one": "The relevant passage wasn't retrieved.",
    "all": "None of the {n:,} {noun} was retrieved.",
    "some": "{lost:,} of {n:,} {noun} {weren_t} retrieved.",
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
_REMEDY = "match by text, or move the labels"


def why_lines(query: QueryAnswers) -> list[str]:
    """Why the systems, or the last stage, missed what is relevant; one line for those alike."""
    numbers = range(len(query.answers))
    systems: dict[str, list[str]] = {}
    for number in numbers[-1:] if query.stages else numbers:
        sentence = _Misses(query, number).sentence()
        if sentence:
            systems.setdefault(sentence, []).append(plain(query.answers[number].system))
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
        self.n = query.more + sum(place.loss != w.UNMET for _, place in places)
        self.noun = "groups" if any(len(need) > 1 for need in query.wanted) else "relevant passages"

    def sentence(self) -> str:
        """The sentence of the first reason that holds; "" where nothing was lost."""
        if self.answer.error is not None or not self.lost:
            return ""
        if self._of(w.OTHER_ID):
            return self._other_id()
        if self.answer.calls is not None:
            return self._deep() or self._calls(self.answer.calls)
        if not self.answer.retrieved and not self.answer.more:
            return ""  # the ranking itself says so
        if dropped := self._of(w.DROPPED):
            how = dropped[0][1].words.removeprefix("dropped ")
            return self._text(_DROPPED, len(dropped), how=how)
        never = len(self._of(w.NEVER))
        sentences = (self._best(), self._deep(), self._text(_NEVER, never) if never else "")
        return " ".join(filter(None, sentences))

    def _text(self, templates: dict[str, str], lost: int, **fields: object) -> str:
        kind = "some"
        if self.n == 1:
            kind = "one"
        elif lost == self.n and "all" in templates:
            kind = "all"
        return templates[kind].format(**self._counts(lost), **fields)

    def _counts(self, lost: int) -> dict[str, object]:
        verbs = ("was", "is", "wasn't") if lost == 1 else ("were", "are", "weren't")
        were, are, weren_t = verbs
        counts = {"lost": lost, "n": self.n, "noun": self.noun}
        return {**counts, "were": were, "are": are, "weren_t": weren_t}

    def _of(self, *losses: str) -> list[tuple[Sequence[Item], w.Whereabouts]]:
        return [(need, place) for need, place in self.lost if place.loss in losses]

    def _best(self) -> str:
        """Where the best passage is, if what was lost has lower grades."""
        lost = [need for need, _ in self.lost]
        worth = max(map(_grade, lost))
        better = [need for need in self.query.wanted if need not in lost and _grade(need) > worth]
        places = [place for need in better if (place := w.best_place(self.answer, need))]
        return f"The highest grade is at rank {min(places).rank:,}." if places else ""

    def _other_id(self) -> str:
        same = self.answer.same_text
        elsewhere = self._of(w.OTHER_ID)
        ids = [item.id for need, _ in elsewhere for item in need if item.id in same]
        rank = min(same[name].rank for name in ids)
        where = f"the first at rank {rank:,}" if len(elsewhere) > 1 else f"at rank {rank:,}"
        return self._text(_OTHER_ID, len(elsewhere), rank=rank, where=where, remedy=_REMEDY)

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
        if not calls:
            return "It made no search."
        if in_call := self._of(w.IN_CALL):
            if self.n == 1:
                words = in_call[0][1].words
                return f"{words[0].upper()}{words[1:]}."
            return _IN_CALL.format(**self._counts(len(in_call)))
        n_found = self.n - len(self.lost)
        if n_found:
            searches = "Its only search" if len(calls) == 1 else f"Its {len(calls):,} searches"
            return f"{searches} brought {n_found:,} of {self.n:,} {self.noun}."
        if len(calls) == 1:
            return "Its only search brought no relevant passage."
        return f"None of its {len(calls):,} searches brought a relevant passage."


def _listed_ranks(ranks: Sequence[int]) -> str:
    """Such as "ranks 11, 14 and 30"."""
    words = [f"{rank:,}" for rank in ranks[:_MOST_RANKS]]
    more = len(ranks) - len(words)
    if more:
        words.append(f"{more:,} more")
    listed = words[0]
    if len(words) > 1:
        listed = f"{', '.join(words[:-1])} and {words[-1]}"
    return f"rank{'s' if len(ranks) > 1 else ''} {listed}"


def _grade(need: Sequence[Item]) -> float:
    return max((item.grade for item in need), default=0.0)
