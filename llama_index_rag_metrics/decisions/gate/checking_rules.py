"""check_rules() and assert_retrieval(): may a change be merged?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from llama_index_rag_metrics.decisions.comparison.pairing import (
    Results,
    scored_otherwise,
    scores_of,
)
from llama_index_rag_metrics.evaluation.evaluation_results import system_of
from llama_index_rag_metrics.report.escape import terminal as one_line
from llama_index_rag_metrics.report.failures import failure_lines
from llama_index_rag_metrics.report.model import Failure
from llama_index_rag_metrics.report.terminal import to_text
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import GateFailed, InconclusiveGate, InvalidInput
from llama_index_rag_metrics.runtime.masking import join_first
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.scores_export import read_json
from llama_index_rag_metrics.stories.answers import query_answers
from llama_index_rag_metrics.stories.first_line import nothing_measured

from .gate_report import GateReport
from .measuring import Measured, decide, measure
from .rules import Rule, RuleLike, parse_rules
from .verdict import Verdict, WorstQuestion

BaselineLike: TypeAlias = "Results | str | Path"
"""The results of before, or the file that their `to_json()` wrote."""

_WORST = 5  # how many of the worst questions a verdict has
_WIDTH = 120  # of the message of a failed assertion
_HOW_TO_ACCEPT = "`rag-metrics gate --accept`, or pytest --rag-accept, writes"
_CHOOSE_FIRST = (
    "with that many questions an unchanged system passes 80 % of the time. Choose the number "
    "first: testing again as questions are added lets more losses pass"
)
_ADJUSTED = (
    "adjusted for {rules} rules (Holm): an unchanged system fails no more often than with one rule"
)
_EQUAL_SCORES = (
    "equal scores prove little with few questions; identical rankings pass without proof, where "
    "both sides know them (`evaluate`, or score_rankings with a Run) and read as much of them"
)


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
    beyond it, and is inconclusive in between. All rules together fail an unchanged system in at
    most 1 - confidence of the cases. A rule fails where fewer than 95 % of the queries, or of their
    runs, have a value.

    Args:
        results: of an evaluation, or bare scores, which know no rankings to show.
        rules: such as "ndcg@10 >= baseline - 0.02"; see `Rule`.
        baseline: what rules with the word baseline are measured against: results, or the file that
            their `to_json()` wrote.
        clusters: what queries belong to, as for `compare`; clusters are taken as a whole.

    Raises:
        InvalidInput: a rule or an argument can't be used, a score is infinite, there are no scores
            by a rule's metric, or no baseline, or it is of other queries, questions or labels.
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
    notes: list[str] = []
    if any(rule.baseline for rule in parsed):
        if previous is None:
            remedy = f"{_HOW_TO_ACCEPT} one."
            raise InvalidInput("baseline", None, "a baseline, since a rule names it", remedy)
        _check_same_questions(previous, scores)
        notes += scored_otherwise({"the baseline": previous, "these scores": scores})
    measured = [measure(rule, scores, previous, clusters) for rule in parsed]
    verdicts = []
    for verdict, numbers in zip(decide(measured), measured, strict=True):
        worst = tuple(_worst_questions(results, verdict, numbers))
        verdicts.append(replace(verdict, worst=worst))
    causes = [f"{note}." for note in scores.label_notes]
    if scores.failed and not scores.is_measured:
        causes.insert(0, nothing_measured(scores.counts, [*scores.failed.values()]))
    notes += [*_remarks(verdicts, scores), *scores.notes]
    unsaid = [note for note in dict.fromkeys(notes) if f"{note}." not in causes]
    return GateReport(tuple(verdicts), scores.name, tuple(causes), tuple(unsaid))


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
        InvalidInput, UnknownMetric: as of `check_rules`.

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


def read_scores(path: str | Path, system: str | None = None) -> Scores:
    """Return the scores of one system, from a file of `to_json()` or `rag-metrics evaluate --json`.

    Raises:
        FileFormatError: the file has something else.
        InvalidInput: the file has several systems, and none of this name.
    """
    return _one_of(read_json(Path(path)), system)


def baseline_scores(baseline: BaselineLike, name: str) -> Scores:
    """Return the scores of a baseline; of a file of several systems, those of this name."""
    if not isinstance(baseline, (str, Path)):
        return scores_of(baseline, "baseline")
    if not Path(baseline).is_file():
        raise InvalidInput("baseline", str(baseline), "a file", f"{_HOW_TO_ACCEPT} it.")
    by_name = read_json(Path(baseline))
    return _one_of(by_name, name if name in by_name else None)


def _one_of(by_name: Mapping[str, Scores], system: str | None) -> Scores:
    if "" in by_name or (system is None and len(by_name) == 1):
        return next(iter(by_name.values()))
    if system is None or system not in by_name:
        raise InvalidInput("--system", system, " or ".join(map(repr, by_name)))
    return by_name[system]


def _check_same_questions(before: Scores, now: Scores) -> None:
    """Refuse a baseline of other questions or labels; what one side doesn't know isn't compared."""
    ids_before = {*before.query_ids, *before.excluded}
    ids_now = {*now.query_ids, *now.excluded}
    differences = {
        "missing now": ids_before - ids_now,
        "new": ids_now - ids_before,
        "with another question": _unequal(before.queries, now.queries),
        "with other labels": _unequal(before.labels, now.labels),
    }
    listed = {reason: sorted(map(str, ids)) for reason, ids in differences.items() if ids}
    if listed:
        parts = [f"{len(ids)} {reason} ({join_first(ids)})" for reason, ids in listed.items()]
        sentence = f"the baseline has other questions: {'; '.join(parts)}."
        remedy = "Accept these results: rag-metrics gate --accept, or pytest --rag-accept."
        raise InvalidInput("baseline", "", sentence=sentence, remedy=remedy)


def _unequal(before: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    both = [(query_id, before[query_id], now[query_id]) for query_id in before.keys() & now.keys()]
    return {query_id for query_id, one, other in both if one and other and one != other}


def _worst_questions(
    results: Results, verdict: Verdict, measured: Measured
) -> Iterator[WorstQuestion]:
    """Yield the questions that lost most against the baseline, or are farthest off the limit."""
    rule = verdict.rule
    losses: dict[str, float] = {}
    if verdict.outcome == "pass":
        return
    for query_id, (score, previous) in measured.scores.items():
        loss = -rule.improvement(score - (rule.value if previous is None else previous))
        if loss > 0:
            losses[query_id] = loss
    system = system_of(results)
    for query_id in sorted(losses, key=losses.__getitem__, reverse=True)[:_WORST]:
        story = query_answers(query_id, [system], verdict.metric)
        yield WorstQuestion(query_id, *measured.scores[query_id], story=story)


def _remarks(verdicts: Sequence[Verdict], scores: Scores) -> Iterator[str]:
    """Yield which questions failed, and how to read the verdicts that don't pass."""
    open_rules = [verdict for verdict in verdicts if verdict.outcome != "pass"]
    if any(verdict.metric == "failed" or verdict.n < verdict.expected for verdict in open_rules):
        failures = [Failure("", query_id, error) for query_id, error in scores.failed.items()]
        yield from (f"failed: {line.text}" for line in failure_lines(failures))
    if any(verdict.needed for verdict in open_rules):
        yield _CHOOSE_FIRST
    together = max((verdict.together for verdict in open_rules), default=1)
    if together > 1:
        yield _ADJUSTED.format(rules=together)
    undecided = [verdict for verdict in open_rules if verdict.outcome == "inconclusive"]
    if any(verdict.difference == 0 for verdict in undecided):
        yield _EQUAL_SCORES
