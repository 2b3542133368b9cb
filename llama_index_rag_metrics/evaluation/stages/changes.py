"""What a stage of a pipeline did to the relevant items that came into it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from llama_index_rag_metrics.relevance import Relevance
from llama_index_rag_metrics.run import Ranking, Run

if TYPE_CHECKING:
    from llama_index_rag_metrics.evaluation.results.evaluation_results import EvaluationResults

Change: TypeAlias = Literal["gained", "lost", "raised", "lowered"]


@dataclass(frozen=True, slots=True)
class StageChange:
    """What a stage did to one relevant item of one query.

    Attributes:
        stage: the stage.
        previous: the stage before it.
        query_id: the query.
        item: the id of the relevant item.
        grade: its grade, 1 or more.
        before: its rank in the previous stage, None where it wasn't there.
        after: its rank in this stage, None where it isn't there.

    Examples:
        >>> from llama_index_rag_metrics import StageChange
        >>> print(StageChange("reranked", "retrieved", "q1", "d2", 1.0, before=2, after=None))
        d2: relevant, retrieved at 2, dropped by reranked
    """

    stage: str
    previous: str
    query_id: str
    item: str
    grade: float
    before: int | None
    after: int | None

    @property
    def kind(self) -> Change:
        """Whether the item came in, was dropped, or moved up or down."""
        if self.before is None:
            return "gained"
        if self.after is None:
            return "lost"
        return "raised" if self.after < self.before else "lowered"

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.item}: relevant, not retrieved, put at {self.after} by {self.stage}"
        done = "dropped" if self.after is None else f"moved to {self.after}"
        return f"{self.item}: relevant, retrieved at {self.before}, {done} by {self.stage}"


def changes_of(
    previous: str, before: EvaluationResults, stage: str, after: EvaluationResults
) -> Iterator[StageChange]:
    """What a stage did to the relevant items of the queries that neither stage failed on."""
    (relevance, earlier), (_, later) = _judged(before), _judged(after)
    failed = {**before.run.failed, **after.run.failed}
    for query_id, judged in relevance.items():
        if query_id in failed or query_id not in later:
            continue
        ranks = [_ranks(run[query_id]) for run in (earlier, later)]
        for item, grade in judged.grades.items():
            was, now = (rank_of.get(item) for rank_of in ranks)
            if grade >= 1 and was != now:
                yield StageChange(stage, previous, query_id, item, grade, was, now)


def _judged(results: EvaluationResults) -> tuple[Mapping[str, Relevance], Run]:
    """Relevance and rankings: the results' own, or what the matcher made of them."""
    matched = next(iter(results.matched.values()), None)
    return (results.relevance, results.run) if matched is None else (matched.relevance, matched.run)


def _ranks(ranking: Ranking) -> dict[str, int]:
    return {item: rank for rank, item in enumerate(dict.fromkeys(ranking.ids), 1)}
