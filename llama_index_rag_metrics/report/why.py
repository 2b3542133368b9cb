"""Why a question failed, as far as it can be known: facts, in a sentence or two."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index_rag_metrics.report import whereabouts as w
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.excerpts import titled
from llama_index_rag_metrics.report.model import Answer, CallAnswer, Item, QueryAnswers
from llama_index_rag_metrics.report.query_lines import short_ids_of
from llama_index_rag_metrics.report.words import LATIN, script_of, shared_words, words_of

_SYSTEMS = 2  # of more systems, words aren't compared
_LINES = 3
_WORDS, _RANKS = 4, 3
_LONGEST = 4_000  # the words of longer texts aren't looked at


def why_lines(query: QueryAnswers) -> list[str]:
    """Why the systems, or the last stage, missed what is relevant; one line for those alike."""
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
        places = [(need, w.where_found(query, number, need)) for need in query.wanted]
        self.lost = [pair for pair in places if pair[1].loss not in ("", w.UNMET)]
        self.n = query.more + sum(place.loss != w.UNMET for _, place in places)
        self.noun = "groups" if any(len(need) > 1 for need in query.wanted) else "relevant passages"
        # beside what is too deep, "missed" would be both
        self.missed = "unretrieved" if self._of(w.BELOW, w.OVER) else "missed"

    def why(self) -> str:
        if self.answer.error is not None or not self.lost:
            return ""
        if self._of(w.OTHER_ID):
            return self._other_id()
        if self.answer.calls is not None:
            return self._deep() or self._calls(self.answer.calls)
        if not self.answer.retrieved and not self.answer.more:
            return ""  # which is said where the ranking would be
        if dropped := self._of(w.DROPPED):
            how = dropped[0][1].words
            if self.n == 1:
                return _sentence(how)
            return f"{self._count(len(dropped))} dropped, the first {how.removeprefix('dropped ')}."
        parts = (self._best(), self._deep(), self._never())
        return " ".join(filter(None, parts))

    def _of(self, *losses: str) -> list[tuple[Sequence[Item], w.Whereabouts]]:
        return [(need, place) for need, place in self.lost if place.loss in losses]

    def _count(self, n: int, verb: str = "was were") -> str:
        """Such as "2 of 3 relevant passages were"."""
        return f"{n:,} of {self.n:,} {self.noun} {verb.split()[n > 1]}"

    def _best(self) -> str:
        """Where the best passage is, if what was lost has lower grades."""
        lost = [need for need, _ in self.lost]
        worth = max(_grade(need) for need in lost)
        better = [need for need in self.query.wanted if need not in lost and _grade(need) > worth]
        places = [place for need in better if (place := w.best_place(self.answer, need))]
        return f"The highest grade is at rank {min(places).rank:,}." if places else ""

    def _other_id(self) -> str:
        same = self.answer.same_text
        elsewhere = self._of(w.OTHER_ID)
        rank = min(same[item.id].rank for need, _ in elsewhere for item in need if item.id in same)
        remedy = "match by text, or move the labels"
        if self.n == 1:
            return f"The relevant text came at rank {rank:,} {w.OTHER_ID}: {remedy}."
        n = len(elsewhere)
        first = f"the first at rank {rank:,}" if n > 1 else f"at rank {rank:,}"
        return f"{n:,} of {self.n:,} relevant texts came {w.OTHER_ID}, {first}: {remedy}."

    def _deep(self) -> str:
        """Of what is in the ranking beyond where the metric stops reading."""
        deep, cutoff = self._of(w.BELOW, w.OVER), self.query.cutoff
        if not deep or cutoff is None:
            return ""
        places = [w.best_place(self.answer, need) for need, _ in deep]
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

    def _calls(self, calls: Sequence[CallAnswer]) -> str:
        if not calls:
            return "It made no search."
        if in_call := self._of(w.IN_CALL):
            if self.n == 1:
                return _sentence(in_call[0][1].words)
            return f"{self._count(len(in_call))} brought by a search, but dropped from the result."
        is_one, searches = len(calls) == 1, f"{len(calls):,} searches"
        if n_found := self.n - len(self.lost):
            which = "Its only search" if is_one else f"Its {searches}"
            return f"{which} brought {n_found:,} of {self.n:,} {self.noun}."
        nothing = "Its only search brought no" if is_one else f"None of its {searches} brought a"
        return f"{nothing} relevant passage{self._asked(calls)}."

    def _asked(self, calls: Sequence[CallAnswer]) -> str:
        """How few of the question's words were searched for, if fewer than half."""
        asked = shared_words(self.query.text, self.query.text)
        sought = shared_words(self.query.text, " ".join(call.query for call in calls))
        if script_of(self.query.text) != LATIN or 2 * len(sought) >= len(asked):
            return ""
        it = "it asked" if len(calls) == 1 else "they asked"
        if not sought:
            return f"; {it} for none of the question's content words"
        return f"; {it} for {len(sought):,} of the question's {len(asked):,} content words"

    def _never(self) -> str:
        """Of what wasn't retrieved: its script, its words, or else how much it is."""
        if not (never := self._of(w.NEVER)):
            return ""
        missed = [item for need, _ in never for item in need if item.grade]
        script = self._script(missed)
        own = script_of(self.query.text)
        if script and all(script_of(item.text or "") != own for item in missed):
            return script
        return " ".join(filter(None, (self._words(missed, len(never)), script)))

    def _script(self, missed: Sequence[Item]) -> str:
        """How many of them are in another script than the question."""
        asked = script_of(self.query.text)
        scripts = [script for item in missed if (script := script_of(item.text or ""))]
        others = [script for script in scripts if script != asked] if asked else []
        if not others:
            return ""
        n, is_or_are = len(others), "is" if len(others) == 1 else "are"
        which = f"{n:,} of {len(missed):,} {self.missed} passages"
        if n == len(missed):
            which = f"The {self.missed} passage" if n == 1 else f"The {n:,} {self.missed} passages"
        names = " and ".join(dict.fromkeys(others))
        return f"{which} {is_or_are} in {names} characters, the question in {asked} ones."

    def _words(self, missed: Sequence[Item], n_never: int) -> str:
        """What they share with the question, beside what came; or else how many they are."""
        how_many = f"None of the {self.n:,} {self.noun} was retrieved"
        if n_never < self.n:
            verb = "wasn't weren't"
            how_many = f"{self._count(n_never, verb)} retrieved"
        elif self.n == 1:
            how_many = "The relevant passage wasn't retrieved"
        if not self._are_words_known(missed):
            return f"{how_many}."
        question = self.query.text
        rank, came = self._rival()
        shared = [shared_words(question, item.text or "") for item in missed]
        rival = shared_words(question, came)
        beside = f"; rank {rank:,} shares {_quoted(rival)}" if rival else ""
        if not any(shared):
            one = "passage shares" if len(missed) == 1 else "passages share"
            return f"The {self.missed} {one} no content word with the question{beside}."
        # the best of them, and of those of one grade what shares most
        best = max(range(len(missed)), key=lambda at: (missed[at].grade, len(shared[at])))
        if not shared[best]:
            return f"{how_many}."
        named = "it"
        if len(missed) > 1:
            name = titled(missed[best].text)[0]
            named = f"“{name}”" if name else short_ids_of(self.query)[missed[best].id]
        if len(rival) > len(shared[best]):
            only = f"{named} shares only {_quoted(shared[best])} with the question"
            return f"{how_many}: {only}{beside}."
        shares = f"{named} shares {_quoted(shared[best])} with the question"
        return f"{how_many}; words don't explain it: {shares}."

    def _rival(self) -> tuple[int, str]:
        """The rank and the text of the first that came and isn't relevant."""
        ranked = zip(self.answer.all_ranks, self.answer.retrieved or (), strict=False)
        others = ((rank, item.text or "") for rank, item in ranked if rank and not item.is_hit)
        return next(others, (0, ""))

    def _are_words_known(self, missed: Sequence[Item]) -> bool:
        """Whether all texts are known, and in a script whose words these stems can see."""
        texts = [item.text or "" for item in missed]
        rank, came = self._rival()
        if not all(0 < len(text) <= _LONGEST for text in (*texts, *([came] if rank else ()))):
            return False
        if self.answer.is_stored or len(self.query.answers) > _SYSTEMS:
            return False
        question = self.query.text
        is_latin = script_of(question) == LATIN and bool(words_of(question))
        return is_latin and any(script_of(text) == LATIN for text in texts)


def _grade(need: Sequence[Item]) -> float:
    return max((item.grade for item in need), default=0.0)


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _quoted(words: Sequence[str]) -> str:
    more = f" and {len(words) - _WORDS:,} more" if len(words) > _WORDS else ""
    return ", ".join(f"“{plain(word)}”" for word in words[:_WORDS]) + more
