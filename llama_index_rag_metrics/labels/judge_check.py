"""What `check_judge` found: how steady an LLM's grades are."""

from __future__ import annotations

from dataclasses import dataclass

from llama_index_rag_metrics.report import Report
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.cache import Usage
from llama_index_rag_metrics.statistics.intervals import MeanInterval
from llama_index_rag_metrics.statistics.kappa import Kappa


@dataclass(frozen=True)
class GradeChange:
    """The same texts graded twice.

    Attributes:
        changed: the share whose grade differs, with its interval.
        difference: the second grade minus the first, on average, with its interval.
        n: how many texts, each as often as it was graded twice.
        n_changed: how many of them got another grade.
    """

    changed: MeanInterval
    difference: MeanInterval
    n: int
    n_changed: int


@dataclass(frozen=True)
class PlaceEffect:
    """Whether grades depend on the place at which a text stands in a call.

    Attributes:
        slope: by how much the grade of the same text changes with each place further back, on
            average over the queries, with its interval. Below 0, texts at the front get more.
        p_value: two-sided, of the t-test that the mean slope is 0.
    """

    slope: MeanInterval
    p_value: float


@dataclass(frozen=True)
class JudgeCheck(Reportable):
    """How steady an LLM's grades are, and whether they depend on the place in a call.

    Attributes:
        model: what the LLM is called.
        n_queries: how many queries were looked at.
        texts_per_call: how many texts a call had at most.
        repeated: texts graded alone, twice.
        repeated_together: texts graded in the same call, twice.
        moved: texts graded at another place in the call.
        due_to_place: share that changes at another place, minus share that changes in the same call
            asked again.
        together: texts graded alone, and then with others.
        place: whether grades rise or fall with the place; None where no text was moved.
        kappa: agreement with people's grades; None where there are none.
        usage: what the check took.
        confidence: of the intervals.
        notes: what a reader of the numbers should know.

    Examples:
        >>> from llama_index.core.llms import CompletionResponse, MockLLM
        >>> from llama_index_rag_metrics import Ranking, Run, check_judge
        >>> class Steady(MockLLM):
        ...     def complete(self, prompt, formatted=False, **options):
        ...         return CompletionResponse(text="Grade: 3")
        >>> run = Run({"q1": Ranking(["a"], texts=["Enceladus has geysers."])})
        >>> check = check_judge(Steady(), {"q1": "Which moon?"}, run)
        >>> check.n_queries, check.repeated.n_changed, check.repeated.n
        (1, 0, 1)
    """

    model: str
    n_queries: int
    texts_per_call: int
    repeated: GradeChange
    repeated_together: GradeChange | None
    moved: GradeChange | None
    due_to_place: MeanInterval | None
    together: GradeChange | None
    place: PlaceEffect | None
    kappa: Kappa | None
    usage: Usage
    confidence: float
    notes: tuple[str, ...]

    def report(self, *, full: bool = False) -> Report:
        """What came of each check, in words and numbers; as a table, one row a check."""
        from llama_index_rag_metrics.labels.judge_checking_report import judge_check_report

        return judge_check_report(self)

    def __repr__(self) -> str:
        return f"<JudgeCheck of {self.model}: {self.n_queries} queries>"
