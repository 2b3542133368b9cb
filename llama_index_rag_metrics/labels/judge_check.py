"""What `check_judge` found: how steady an LLM's grades are, and whether it prefers its texts."""

from __future__ import annotations

from collections.abc import Mapping
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
class SelfPreference:
    """Grades of texts that the judge's model wrote against those of other texts, query by query.

    Attributes:
        difference: over the queries that have both kinds: the mean grade of the model's own texts
            minus that of the others, after people's grades were taken off each, if there are any.
        own: the mean of the model's own texts in these queries, after people's grades were taken
            off.
        others: the same of the others.
        n_own: how many texts of the model's own.
        n_others: how many others.
        is_controlled: whether people's grades were taken off. If not, a difference may be one of
            quality.
    """

    difference: MeanInterval
    own: float
    others: float
    n_own: int
    n_others: int
    is_controlled: bool


@dataclass(frozen=True)
class JudgeCheck(Reportable):
    """How steady an LLM's grades are, and whether it prefers its own texts.

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
        places: place in the call to how much higher the same texts are graded there than at other
            places.
        preference: how the model grades its own texts; None where none were named.
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
    places: Mapping[int, MeanInterval]
    preference: SelfPreference | None
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
