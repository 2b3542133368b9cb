"""Why a question failed, as far as it can be known: facts, in a sentence or two."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.model import Answer, Item, QueryAnswers
from llama_index_rag_metrics.report.query_lines import (
    BELOW,
    DROPPED,
    IN_CALL,
    NEVER,
    OTHER_ID,
    OVER,
    UNMET,
    Place,
    best_place,
    short_names,
    titled,
    where_found,
)
from llama_index_rag_metrics.report.words import LATIN, script_of, shared_words, words_of

_SYSTEMS = 2
"""Of more systems, words aren't compared."""

_LINES = 3
_WORDS, _RANKS = 4, 3
_LONGEST = 4_000
"""The words of longer texts aren't looked at."""


def why_lines(query: QueryAnswers) -> list[str]:
    """Why the systems missed what is relevant, one line for those of which the same holds.

    Of stages, why the last one did. Nothing is said of what failed with an error, returned nothing
    or missed nothing, and where no ranking is known.

    >>> from llama_index_rag_metrics.report.model import Cutoff, Found
    >>> answer = Answer("bm25", score=None, retrieved=[], more=9, found={"io": Found(7)})
    >>> why_lines(QueryAnswers("q1", "", [[Item("io", 1)]], [answer], cutoff=Cutoff(5)))
    ['Found at rank 7; only the first 5 count.']
    """
    numbers = range(len(query.answers))
    said: dict[str, list[str]] = {}
    for number in numbers[-1:] if query.stages else numbers:
        if text := _Story(query, number).why():
            said.setdefault(text, []).append(plain(query.answers[number].system))
    if query.stages or len(query.answers) == 1:
        return list(said)
    if [len(of) for of in said.values()] == [len(query.answers)]:
        return list(said)
    return [f"{', '.join(of)}: {text}" for text, of in list(said.items())[:_LINES]]


class _Story:
    """One system's answer, and where it met or lost each need."""

    def __init__(self, query: QueryAnswers, number: int) -> None:
        self.query, self.number = query, number
        self.answer: Answer = query.answers[number]
        places = [(need, where_found(query, number, need)) for need in query.wanted]
        self.lost = [(need, place) for need, place in places if place.loss and place.loss != UNMET]
        self.n = query.more + sum(place.loss != UNMET for _, place in places)
        self.noun = "groups" if any(len(need) > 1 for need in query.wanted) else "relevant passages"
        # beside what is too deep, "missed" would be both
        self.missed = "unretrieved" if self._of(BELOW, OVER) else "missed"

    def why(self) -> str:
        if self.answer.error is not None or not self.lost:
            return ""
        if self._of(OTHER_ID):
            return self._other_id()
        if self.answer.calls is not None:
            found_deep = self._deep()
            return found_deep if found_deep else self._calls(self.answer.calls)
        if not self.answer.retrieved and not self.answer.more:
            return ""  # which is said where the ranking would be
        if dropped := self._of(DROPPED):
            how = dropped[0][1].words
            if self.n == 1:
                return _sentence(how)
            return f"{self._count(len(dropped))} dropped, the first {how.removeprefix('dropped ')}."
        return " ".join(filter(None, (self._deep(), self._never())))

    def _of(self, *losses: str) -> list[tuple[Sequence[Item], Place]]:
        return [(need, place) for need, place in self.lost if place.loss in losses]

    def _count(self, n: int, verb: str = "was were") -> str:
        """Such as "2 of 3 relevant passages were"."""
        return f"{n:,} of {self.n:,} {self.noun} {verb.split()[n > 1]}"

    def _other_id(self) -> str:
        same = self.answer.same_text
        elsewhere = self._of(OTHER_ID)
        rank = min(same[item.id].rank for need, _ in elsewhere for item in need if item.id in same)
        remedy = "match by text, or move the labels"
        if self.n == 1:
            return f"The relevant text came at rank {rank:,} under another id: {remedy}."
        n = len(elsewhere)
        first = f"the first at rank {rank:,}" if n > 1 else f"at rank {rank:,}"
        return f"{n:,} of {self.n:,} relevant texts came under another id, {first}: {remedy}."

    def _deep(self) -> str:
        """Of what is in the ranking beyond where the metric stops reading."""
        deep, cutoff = self._of(BELOW, OVER), self.query.cutoff
        if not deep or cutoff is None:
            return ""
        places = [best_place(self.answer, need) for need, _ in deep]
        ranks = sorted(place.rank for place in places if place is not None)
        first, last = [f"{rank:,}" for rank in ranks[:_RANKS]], ""
        if len(ranks) > _RANKS:
            last = f" and {len(ranks) - _RANKS:,} more"
        elif len(first) > 1:
            last = f" and {first.pop()}"
        where = f"at rank{'s' if len(ranks) > 1 else ''} {', '.join(first)}{last}"
        unit = f"only the first {cutoff.at:,}{'' if cutoff.unit == 'items' else ' tokens'} count"
        start = "Found" if self.n == 1 else self._count(len(ranks), "is are")
        return f"{start} {where}; {unit}."

    def _calls(self, calls: Sequence[object]) -> str:
        if not calls:
            return "It made no search."
        if in_call := self._of(IN_CALL):
            if self.n == 1:
                return _sentence(in_call[0][1].words)
            return f"{self._count(len(in_call))} brought by a search, but dropped from the result."
        n_found = self.n - len(self.lost)
        its = "Its only search" if len(calls) == 1 else f"Its {len(calls):,} searches"
        if n_found:
            return f"{its} brought {n_found:,} of {self.n:,} {self.noun}."
        if len(calls) == 1:
            return f"{its} brought no relevant passage."
        return f"None of its {len(calls):,} searches brought a relevant passage."

    def _never(self) -> str:
        """Of what wasn't retrieved: its script, its words, or else how much it is."""
        never = self._of(NEVER)
        if not never:
            return ""
        missed = [item for need, _ in never for item in need if item.grade]
        told = [*filter(None, (self._words(missed), self._script(missed)))]
        if told:
            return " ".join(told)
        if self.n == 1:
            return "The relevant passage wasn't retrieved."
        if len(never) == self.n:
            return f"None of the {self.n:,} {self.noun} was retrieved."
        verb = "wasn't weren't"
        return f"{self._count(len(never), verb)} retrieved."

    def _script(self, missed: Sequence[Item]) -> str:
        """How many of them are in another script than the question."""
        asked = script_of(self.query.text)
        scripts = [script for item in missed if (script := script_of(item.text or ""))]
        others = [script for script in scripts if script != asked] if asked else []
        if not others:
            return ""
        names = ", ".join(dict.fromkeys(others))
        end = f"in another script ({names})"
        n = len(others)
        if n == len(missed):
            passages = "passage is" if n == 1 else "passages are"
            return f"The {'' if n == 1 else f'{n:,} '}{self.missed} {passages} {end}."
        is_or_are = "is" if n == 1 else "are"
        return f"{n:,} of {len(missed):,} {self.missed} passages {is_or_are} {end}."

    def _words(self, missed: Sequence[Item]) -> str:
        """What shares fewer words with the question than what came; "" where that isn't so."""
        question = self.query.text
        texts = [item.text or "" for item in missed]
        ranked = zip(self.answer.all_ranks, self.answer.retrieved or (), strict=False)
        others = ((rank, item.text or "") for rank, item in ranked if rank and not item.is_hit)
        rank, came = next(others, (0, ""))
        is_known = all(0 < len(text) <= _LONGEST for text in (*texts, *([came] if rank else ())))
        if not is_known or self.answer.is_stored or len(self.query.answers) > _SYSTEMS:
            return ""
        # other scripts inflect words, or don't part them, as these stems can't see
        if script_of(question) != LATIN or not words_of(question):
            return ""
        if all(script_of(text) != LATIN for text in texts):
            return ""
        shared = [shared_words(question, text) for text in texts]
        most = max(shared, key=len)
        rival = shared_words(question, came)
        beside = f"; rank {rank:,} shares {_quoted(rival)}" if rival else ""
        if not most:
            one = "passage shares" if len(missed) == 1 else "passages share"
            return f"The {self.missed} {one} no word with the question{beside}."
        if len(rival) <= len(most):
            return ""
        item = missed[shared.index(most)]
        name = titled(item.text)[0]
        named = f"“{name}”" if name else short_names(self.query)[item.id]
        if len(missed) == 1:
            return f"{named} shares only {_quoted(most)} with the question{beside}."
        of = f"Of the {len(missed):,} {self.missed} passages, {named} shares most words"
        return f"{of} with the question: {_quoted(most)}{beside}."


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _quoted(words: Sequence[str]) -> str:
    more = f" and {len(words) - _WORDS:,} more" if len(words) > _WORDS else ""
    return ", ".join(f"“{plain(word)}”" for word in words[:_WORDS]) + more
