"""What evaluate_stages returns: the results of every stage, and what each did to relevant items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

from llama_index_rag_metrics.errors import InvalidInput
from llama_index_rag_metrics.evaluation.results import EvaluationResults
from llama_index_rag_metrics.relevance import Relevance
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.run import Latency, Ranking, Run

if TYPE_CHECKING:
    from llama_index_rag_metrics.report.model import Report

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


class StageResults(Reportable, Mapping[str, EvaluationResults]):
    """The results of every stage, by its name, in order; `compare` takes it as it is.

    A stage's results are those of the pipeline up to it, and so are the latencies of its run.
    `stage_latency` has the seconds of a stage alone.

    Attributes:
        seconds: stage to the seconds that it took on each query it finished.
    """

    def __init__(
        self,
        results: Mapping[str, EvaluationResults],
        seconds: Mapping[str, Mapping[str, float]],
    ) -> None:
        self._results = dict(results)
        self.seconds = {stage: dict(of) for stage, of in seconds.items()}

    def __getitem__(self, stage: str) -> EvaluationResults:
        return self._results[stage]

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    @property
    def stage_latency(self) -> dict[str, Latency | None]:
        """Stage to the percentiles of the seconds that it took alone, without those before it."""
        return {
            stage: Run(
                {
                    query_id: Ranking(
                        latency=took, concurrency=self[stage].run[query_id].concurrency
                    )
                    for query_id, took in of.items()
                }
            ).latency
            for stage, of in self.seconds.items()
        }

    @cached_property
    def changes(self) -> tuple[StageChange, ...]:
        """What each stage did to the relevant items, in the order of stages and queries.

        Only where a rank changed, and only on queries that neither stage failed on.
        """
        return tuple(
            change
            for previous, stage in pairwise(self)
            for change in _changes(previous, self[previous], stage, self[stage])
        )

    def lost(self, stage: str) -> list[StageChange]:
        """The relevant items that a stage dropped, the best placed first."""
        return sorted(self._of(stage, "lost"), key=lambda change: change.before or 0)

    def gained(self, stage: str) -> list[StageChange]:
        """The relevant items that a stage brought in, the best placed first."""
        return sorted(self._of(stage, "gained"), key=lambda change: change.after or 0)

    def _of(self, stage: str, kind: Change) -> list[StageChange]:
        if stage not in self._results:
            raise InvalidInput("stage", stage, " or ".join(map(repr, self)))
        return [change for change in self.changes if change.stage == stage and change.kind == kind]

    def __repr__(self) -> str:
        return f"<StageResults of {' → '.join(self)}>"

    def report(self, *, full: bool = False) -> Report:
        """What every stage reaches, gains, loses and takes, and what was lost."""
        from llama_index_rag_metrics.evaluation.stage_results_report import stages_report

        return stages_report(self, full=full)


def _changes(
    previous: str, before: EvaluationResults, stage: str, after: EvaluationResults
) -> Iterator[StageChange]:
    (relevance, earlier), (_, later) = _judged(before), _judged(after)
    failed = {**before.run.failed, **after.run.failed}
    for query_id, judged in relevance.items():
        if query_id in failed or query_id not in later:
            continue
        ranks = [_ranks(run[query_id]) for run in (earlier, later)]
        for item, grade in judged.grades.items():
            was, now = (ranks_of_stage.get(item) for ranks_of_stage in ranks)
            if grade >= 1 and was != now:
                yield StageChange(stage, previous, query_id, item, grade, was, now)


def _judged(results: EvaluationResults) -> tuple[Mapping[str, Relevance], Run]:
    """Relevance and rankings: the results' own, or what the matcher made of them."""
    matched = next(iter(results.matched.values()), None)
    return (results.relevance, results.run) if matched is None else (matched.relevance, matched.run)


def _ranks(ranking: Ranking) -> dict[str, int]:
    return {item: rank for rank, item in enumerate(dict.fromkeys(ranking.ids), 1)}
