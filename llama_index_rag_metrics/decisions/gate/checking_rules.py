"""check_rules() and assert_retrieval(): may a change be merged?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from llama_index_rag_metrics.decisions.comparison.pairing import (
    Results,
    scored_otherwise,
    scores_of,
)
from llama_index_rag_metrics.evaluation.evaluation_results import EvaluationResults, system_of
from llama_index_rag_metrics.report.escape import terminal as one_line
from llama_index_rag_metrics.report.failures import failure_lines
from llama_index_rag_metrics.report.model import Failure
from llama_index_rag_metrics.report.terminal import to_text
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import GateFailed, InconclusiveGate, InvalidInput
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.stories.answers import query_answers
from llama_index_rag_metrics.stories.first_line import nothing_measured

from .baseline import BaselineLike, baseline_scores, check_same_questions
from .deciding import decide
from .gate_report import GateReport
from .measuring import Measured, measure_against, measure_alone
from .rules import Rule, RuleLike, parse_rules
from .verdict import Verdict, WorstQuestion

_WORST = 5
"""How many of the worst questions a verdict has."""

_WIDTH = 120
"""How wide the message of a failed assertion is."""

_HOW_TO_ACCEPT = "`rag-metrics gate --accept`, or pytest --rag-accept, writes one"
_CHOOSE_FIRST = (
    "with that many questions an unchanged system passes 80 % of the time. Choose the number "
    "first: testing again as questions are added lets more losses pass"
)
_ADJUSTED = (
    "adjusted for {rules} rules (Holm): an unchanged system fails no more often than with one rule"
)
_EQUAL_SCORES = (
    "equal scores prove little with few questions; only identical rankings pass without proof"
)
_UNKNOWN_RANKINGS = (
    ". Rankings are known to scores of `evaluate`, of `score`, and of score_rankings with a Run"
)
_SCORED_OTHERWISE = ". Score both with the same max_retrieved and judged_only"


def check_rules(
    results: Results,
    rules: RuleLike,
    *,
    baseline: BaselineLike | None = None,
    clusters: str | None = None,
) -> GateReport:
    """Check results against rules.

    A rule against the baseline is decided by the one-sided bounds of the paired differences: it
    passes where even the worse bound is within the limit, fails where even the better bound is
    beyond it, and is inconclusive in between. All rules together fail an unchanged
    system in at most 1 - confidence of the cases; each passes a change exactly at its limit in
    about as many. If all rankings are identical, few queries are enough. A rule fails where fewer
    than 95 % of the queries, or of their runs, have a value.

    Args:
        results: of an evaluation, or bare scores, which know no rankings to show.
        rules: such as "ndcg@10 >= baseline - 0.02"; see `Rule`.
        baseline: what rules with the word baseline are measured against: results, or the file that
            their `to_json()` wrote.
        clusters: what queries belong to, as for `compare`; clusters are taken as a whole.

    Raises:
        InvalidInput: a rule or an argument can't be used, a score is infinite, or there are no
            scores by a rule's metric, or no baseline.
        InvalidInput: the baseline is of other queries, other questions or other labels.
        UnknownMetric: a rule names no metric.

    Examples:
        >>> before = Scores(["q1", "q2"], {"mrr": [1.0, 0.5], "recall@5": [1.0, 1.0]})
        >>> after = Scores(["q1", "q2"], {"mrr": [1.0, 0.5], "recall@5": [1.0, 0.0]})
        >>> for verdict in check_rules(
        ...     after, ["mrr >= baseline - 0.1 as observed", "recall@5 >= 0.8"], baseline=before
        ... ):
        ...     print(verdict.outcome, "-", verdict.sentence)
        pass - mrr is 0.75 against 0.75 in the baseline, no change; a loss of up to 0.1 is allowed \
(2 questions).
        fail - recall@5 is 0.50, must be at least 0.8 (2 questions).
    """
    parsed, scores = parse_rules(rules), scores_of(results)
    previous = None
    if baseline is not None:
        previous = baseline_scores(baseline, scores.name)
    measured: list[Measured] = []
    notes: list[str] = []
    for rule in parsed:
        if not rule.baseline:
            measured.append(measure_alone(rule, scores, clusters))
            continue
        if previous is None:
            expected = "a baseline, since the rule compares with it"
            remedy = f"The rule is '{rule}'; {_HOW_TO_ACCEPT}."
            raise InvalidInput("baseline", None, expected, remedy)
        check_same_questions(previous, scores)
        notes += scored_otherwise({"the baseline": previous, "these scores": scores})
        measured.append(measure_against(rule, scores, previous, clusters))
    verdicts = []
    for verdict, numbers in zip(decide(parsed, measured), measured, strict=True):
        worst = tuple(_worst_questions(results, verdict, numbers))
        verdicts.append(replace(verdict, worst=worst))
        notes += numbers.notes
    notes += _failures(verdicts, scores)
    notes += _remarks(verdicts, scores, previous)
    notes += _notes_of_scores({verdict.metric for verdict in verdicts}, scores)
    causes = _causes(scores)
    about = {}
    if isinstance(results, EvaluationResults) and results.about.get("dataset"):
        about["dataset"] = results.about["dataset"]
    return GateReport(
        tuple(verdicts),
        scores.name,
        tuple(causes),
        tuple(note for note in dict.fromkeys(notes) if f"{note}." not in causes),
        about,
    )


def assert_retrieval(
    results: Results,
    *rules: str | Rule,
    baseline: BaselineLike | None = None,
    strict: bool = False,
    clusters: str | None = None,
) -> GateReport:
    """Assert that results satisfy rules.

    Args:
        results, baseline, clusters: as of `check_rules`.
        rules: such as "ndcg@10 >= baseline - 0.02", "recall@5 >= 0.8"; see `Rule`.
        strict: whether an inconclusive rule fails, too; else it is a warning.

    Raises:
        GateFailed: an AssertionError: a rule is broken. It shows the rules, the numbers with their
            bounds, and the worst queries: what was asked, wanted and retrieved.
        InvalidInput: a rule can't be used, or there are no scores by its metric, or no baseline.
        InvalidInput: the baseline is of other queries.
        UnknownMetric: a rule names no metric.

    Examples:
        >>> from llama_index_rag_metrics import Scores
        >>> scores = Scores(["q1", "q2"], {"recall@5": [1.0, 0.5]})
        >>> assert_retrieval(scores, "recall@5 >= 0.7").outcome
        'pass'
    """
    __tracebackhide__ = True
    report = check_rules(results, rules, baseline=baseline, clusters=clusters)
    if report.broken(strict=strict):
        content = report.report()
        # pytest's summary has the first line alone, which therefore decides
        decision = one_line(content.decision[0].text)
        raise GateFailed(f"{decision}\n{to_text(content, width=_WIDTH)}")
    for verdict in report.broken(strict=True):
        warn_caller(InconclusiveGate(verdict.sentence))
    return report


def _worst_questions(
    results: Results, verdict: Verdict, measured: Measured
) -> Iterator[WorstQuestion]:
    """The questions that lost most against the baseline, or else scored worst, worst first."""
    if verdict.outcome == "pass" or not measured.scores:
        return
    improvements = {
        query_id: verdict.rule.improvement(score - (previous or 0.0))
        for query_id, (score, previous) in measured.scores.items()
    }
    ceiling = 0.0
    if not verdict.rule.baseline:
        ceiling = max(improvements.values())
        if ceiling == min(improvements.values()):
            ceiling = math.inf
    losing = [query_id for query_id, amount in improvements.items() if amount < ceiling]
    system = system_of(results)
    for query_id in sorted(losing, key=improvements.__getitem__)[:_WORST]:
        story = query_answers(query_id, [system], measured.metric)
        yield WorstQuestion(query_id, *measured.scores[query_id], story=story)


def _causes(scores: Scores) -> list[str]:
    """Why scores may be low: nothing was measured, or labels don't fit; and who graded."""
    causes = [f"{note}." for note in scores.label_notes]
    if scores.failed and not scores.is_measured:
        causes.insert(0, nothing_measured(scores.counts, [*scores.failed.values()]))
    return causes


def _notes_of_scores(decided: set[str], scores: Scores) -> Iterator[str]:
    """The notes of the scores that aren't of other metrics alone."""
    for note in scores.notes:
        subjects = note.partition(": ")[0].split(", ")
        metrics = {name for name in scores if name in subjects or note.startswith(f"{name} ")}
        if not metrics or metrics & decided:
            yield note


def _failures(verdicts: Sequence[Verdict], scores: Scores) -> list[str]:
    """Which questions failed, where a rule isn't kept because of them."""
    failures = [Failure("", query_id, error) for query_id, error in scores.failed.items()]
    for verdict in verdicts:
        is_incomplete = verdict.metric == "failed" or verdict.n < verdict.expected
        if is_incomplete and verdict.outcome != "pass":
            return [f"failed: {line.text}" for line in failure_lines(failures)]
    return []


def _remarks(verdicts: Sequence[Verdict], scores: Scores, previous: Scores | None) -> Iterator[str]:
    """How to read the verdicts that don't pass."""
    undecided = [verdict for verdict in verdicts if verdict.outcome == "inconclusive"]
    if any(verdict.needed for verdict in undecided):
        yield _CHOOSE_FIRST
    if any(verdict.together > 1 for verdict in verdicts if verdict.outcome != "pass"):
        yield _ADJUSTED.format(rules=max(verdict.together for verdict in verdicts))
    if previous is None or all(verdict.difference != 0.0 for verdict in undecided):
        return
    query_ids = (*scores.query_ids, *scores.excluded)
    reason = ""
    if scored_otherwise({"": previous, "now": scores}):
        reason = _SCORED_OTHERWISE
    if not all(scores.rankings.get(each) and previous.rankings.get(each) for each in query_ids):
        reason = _UNKNOWN_RANKINGS
    yield f"{_EQUAL_SCORES}{reason}"
