"""assert_retrieval(): rules as an assertion, in a test or anywhere else."""

from __future__ import annotations

from llama_index_rag_metrics.decisions.comparison.pairing import Clusters, OnMissing
from llama_index_rag_metrics.decisions.gate.checking_rules import (
    MIN_COVERAGE,
    BaselineLike,
    check_rules,
)
from llama_index_rag_metrics.decisions.gate.results import Results
from llama_index_rag_metrics.decisions.gate.rules import Rule
from llama_index_rag_metrics.decisions.gate.verdicts import GateReport
from llama_index_rag_metrics.report.terminal import to_text
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import GateFailed, InconclusiveGate

_WIDTH = 120


def assert_retrieval(
    results: Results,
    *rules: str | Rule,
    baseline: BaselineLike | None = None,
    strict: bool = False,
    on_missing: OnMissing = "error",
    clusters: Clusters | None = None,
    min_coverage: float = MIN_COVERAGE,
    worst: int = 5,
) -> GateReport:
    """Assert that results satisfy rules.

    Args:
        results: of an evaluation, or bare scores, which know no rankings to show.
        rules: such as "ndcg@10 >= baseline - 0.02", "recall@5 >= 0.8"; see `Rule`.
        baseline: what rules with the word baseline are measured against: results, or the file of
            a stored `Baseline`.
        strict: whether an inconclusive rule fails, too; else it is a warning.
        on_missing: what to do where the baseline is of other queries.
        clusters: what queries belong to, as for `compare`.
        min_coverage: the share of the queries that must have a value; see `check_rules`.
        worst: how many of the worst queries to show for each broken rule.

    Returns:
        The verdicts, where no rule is broken.

    Raises:
        GateFailed: an AssertionError: a rule is broken. It shows the rules, the numbers with their
            bounds, and the worst queries: what was asked, wanted and got.
        InvalidInput: a rule can't be used, or there are no scores by its metric, or no baseline.
        BaselineMismatch: the baseline is of other queries.
        UnknownMetric: a rule names no metric.

    Examples:
        >>> from llama_index_rag_metrics import Scores
        >>> scores = Scores(["q1", "q2"], {"recall@5": [1.0, 0.5]})
        >>> assert_retrieval(scores, "recall@5 >= 0.7").outcome
        'pass'
    """
    __tracebackhide__ = True
    report = check_rules(
        results,
        rules,
        baseline=baseline,
        on_missing=on_missing,
        clusters=clusters,
        min_coverage=min_coverage,
        worst=worst,
    )
    if report.broken(strict=strict):
        raise GateFailed(f"\n{to_text(report.report(), width=_WIDTH)}")
    for verdict in report.broken(strict=True):
        warn_caller(InconclusiveGate(verdict.sentence))
    return report
