"""Sessions, call by call: the relevant items that each found, and its cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Call, Run

if TYPE_CHECKING:
    import pandas as pd

_LEAST_GRADE = 1.0


@dataclass(frozen=True, slots=True)
class SessionCall:
    """One call of a session, judged."""

    query_id: str
    number: int  # which of the question's calls, from 1 on
    query: str  # what was asked, in the agent's words
    asked_by: str  # the tool or the step that asked; "" where that isn't known
    retrieved: int  # how many distinct items the call retrieved
    new_relevant: int  # how many of them are relevant and were in no earlier call
    recall: float | None  # of all calls up to this; None where nothing is known to be relevant
    is_repeated: bool  # whether an earlier call asked the same
    tokens: int | None  # of what came, if they were counted
    latency: float | None  # seconds, if it was timed
    error: str | None

    @property
    def is_wasted(self) -> bool:
        """Whether it brought no new relevant item."""
        return self.new_relevant == 0


class Sessions(list[SessionCall]):
    """All calls of a run, question by question, in order.

    Args:
        run: what was retrieved; rankings without calls are left out.
        relevance: query id to what is relevant.

    Examples:
        >>> from llama_index_rag_metrics.rankings.run import Call
        >>> from llama_index_rag_metrics.rankings.run import combine_calls
        >>> calls = [Call(["a", "x"], query="Saturn"), Call(["x"], query="rings")]
        >>> sessions = Sessions(Run({"q1": combine_calls(calls)}), {"q1": Relevance(["a", "b"])})
        >>> [(call.query, call.new_relevant, call.recall) for call in sessions]
        [('Saturn', 1, 0.5), ('rings', 0, 0.5)]
    """

    def __init__(self, run: Run, relevance: Mapping[str, Relevance]) -> None:
        for query_id, ranking in run.items():
            grades = relevance.get(query_id, Relevance()).grades
            relevant = {item for item, grade in grades.items() if grade >= _LEAST_GRADE}
            self.extend(_judged(query_id, ranking.calls or (), relevant))
        self._n_questions = len(run.calls)
        self._of_first = " in the first run" if run.repeats else ""

    def of(self, query_id: str) -> list[SessionCall]:
        """The calls of one question."""
        return [call for call in self if call.query_id == query_id]

    def to_pandas(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame([asdict(call) for call in self])

    def __repr__(self) -> str:
        return f"<Sessions: {len(self)} calls for {self._n_questions} questions{self._of_first}>"


def _judged(query_id: str, calls: Iterable[Call], relevant: set[str]) -> Iterator[SessionCall]:
    """The calls of one question; the same words to the same tool are repeated."""
    words_before: set[tuple[str, str]] = set()
    retrieved: set[str] = set()
    for number, call in enumerate(calls, 1):
        words = call.asked_by, " ".join(call.query.casefold().split())
        new = relevant.intersection(call.ids) - retrieved
        retrieved |= new
        yield SessionCall(
            query_id,
            number,
            call.query,
            call.asked_by,
            retrieved=len(set(call.ids)),
            new_relevant=len(new),
            recall=len(retrieved) / len(relevant) if relevant else None,
            is_repeated=words in words_before,
            tokens=None if call.tokens is None else sum(call.tokens),
            latency=call.latency,
            error=call.error,
        )
        words_before.add(words)
