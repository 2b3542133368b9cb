"""Sessions, call by call: the relevant items that each found, and its cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from llama_index_rag_metrics.rankings.judging.judged import JudgedRankings, place_of
from llama_index_rag_metrics.rankings.judging.lists import judge
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Call, Ranking, Run
from llama_index_rag_metrics.runtime.arrays import BoolArray, IntArray
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.scoring.batches import Metrics
from llama_index_rag_metrics.scores.scoring.score_rankings import score_rankings

if TYPE_CHECKING:
    import pandas as pd


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


class Sessions(Sequence[SessionCall]):
    """All calls of a run, question by question, in order.

    Args:
        run: what was retrieved; rankings without calls are left out.
        relevance: query id to what is relevant.

    Examples:
        >>> from llama_index_rag_metrics import Call
        >>> from llama_index_rag_metrics.rankings.run import combine_calls
        >>> calls = [Call(["a", "x"], query="Saturn"), Call(["x"], query="rings")]
        >>> sessions = Sessions(Run({"q1": combine_calls(calls)}), {"q1": Relevance(["a", "b"])})
        >>> [(call.query, call.new_relevant, call.recall) for call in sessions]
        [('Saturn', 1, 0.5), ('rings', 0, 0.5)]
    """

    def __init__(self, run: Run, relevance: Mapping[str, Relevance]) -> None:
        self._run = {
            query_id: ranking for query_id, ranking in run.items() if ranking.calls is not None
        }
        self._relevance = relevance
        self._of_first = " in the first run" if run.repeats else ""
        self._calls = list(_judged(self._run, relevance))

    def of(self, query_id: str) -> list[SessionCall]:
        """The calls of one question."""
        return [call for call in self._calls if call.query_id == query_id]

    def score(self, metrics: Metrics) -> Scores:
        """Every call scored as a ranking of its own; its id is the question's and its number.

        Examples:
            >>> from llama_index_rag_metrics import Call
            >>> from llama_index_rag_metrics.rankings.run import combine_calls
            >>> run = Run({"q1": combine_calls([Call(["x"]), Call(["x", "a"])])})
            >>> Sessions(run, {"q1": Relevance(["a"])}).score("mrr").by_query("mrr")
            {'q1 call 1': 0.0, 'q1 call 2': 0.5}
        """
        calls = {
            (query_id, f"{query_id} call {number}"): call
            for query_id, ranking in self._run.items()
            for number, call in enumerate(ranking.calls or (), 1)
        }
        expected = {name: self._relevance.get(query_id) for query_id, name in calls}
        rankings = {name: call.ranking for (_, name), call in calls.items()}
        queries = {name: call.query for (_, name), call in calls.items()}
        return score_rankings(expected, rankings, metrics, queries=queries)

    def to_pandas(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame([asdict(call) for call in self._calls])

    @overload
    def __getitem__(self, position: int) -> SessionCall: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[SessionCall]: ...
    def __getitem__(self, position: int | slice) -> Any:
        return self._calls[position]

    def __len__(self) -> int:
        return len(self._calls)

    def __repr__(self) -> str:
        return f"<Sessions: {len(self)} calls for {len(self._run)} questions{self._of_first}>"


@dataclass(frozen=True, eq=False)
class JudgedCalls:
    """The calls of a batch of queries, by query, then in order.

    Attributes:
        query: (calls,) position of the query of every call.
        depth: (calls,) how many distinct items its query had retrieved when it ended.
        is_repeated: (calls,) whether an earlier call of the query asked the same retriever, or the
            same tool where that isn't known, the same.
        judged: what all calls of a query retrieved, one after another, copies dropped.
    """

    query: IntArray
    depth: IntArray
    is_repeated: BoolArray
    judged: JudgedRankings

    @classmethod
    def of(cls, relevance: Sequence[Relevance | None], rankings: Sequence[Ranking]) -> JudgedCalls:
        """The calls of rankings; one without calls is one call of its own."""
        rows: list[tuple[int, int, bool]] = []
        retrieved: list[list[str]] = []
        for number, ranking in enumerate(rankings):
            calls = ranking.calls
            seen: dict[str, None] = {}
            asked: set[tuple[str, str]] = set()
            for call in (Call(ranking.ids),) if calls is None else calls:
                words = call.retriever or call.asked_by, " ".join(call.query.casefold().split())
                seen.update(dict.fromkeys(call.ids))
                rows.append((number, len(seen), words in asked))
                asked.add(words)
            retrieved.append(list(seen))
        query, depth, is_repeated = np.array(rows, np.int64).reshape(-1, 3).T
        return cls(query, depth, is_repeated.astype(np.bool_), judge(relevance, retrieved))

    @property
    def count(self) -> IntArray:
        """(queries,) how many calls the query made."""
        return np.bincount(self.query, minlength=len(self.judged))

    def new_relevant(self, min_grade: float) -> IntArray:
        """(calls,) how many relevant items no earlier call had."""
        hits = self.judged.at(None, min_grade)
        ends = place_of(self.query, self.depth)
        first = np.searchsorted(ends, place_of(hits.query, hits.rank))
        return np.bincount(first, minlength=len(ends))


def _judged(
    run: Mapping[str, Ranking], relevance: Mapping[str, Relevance]
) -> Iterator[SessionCall]:
    judged = [relevance.get(query_id) for query_id in run]
    calls = JudgedCalls.of(judged, list(run.values()))
    n_relevant = dict(zip(run, calls.judged.count_judgements(1.0).tolist(), strict=True))
    rows = iter(zip(calls.new_relevant(1.0).tolist(), calls.is_repeated.tolist(), strict=True))
    for query_id, ranking in run.items():
        n_found = 0
        for number, call in enumerate(ranking.calls or (), 1):
            new, is_repeated = next(rows)
            n_found += new
            yield SessionCall(
                query_id,
                number,
                call.query,
                call.asked_by,
                len(set(call.ids)),
                new,
                n_found / n_relevant[query_id] if n_relevant[query_id] else None,
                is_repeated,
                None if call.tokens is None else sum(call.tokens),
                call.latency,
                call.error,
            )
