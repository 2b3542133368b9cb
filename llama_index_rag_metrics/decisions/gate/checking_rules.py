"""check_rules(), assert_retrieval(), update_baseline(): may a change be merged, and kept?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TypeAlias

from llama_index_rag_metrics.decisions.clusters import Clusters
from llama_index_rag_metrics.decisions.comparison.pairing import (
    Results,
    scored_otherwise,
    scores_of,
)
from llama_index_rag_metrics.decisions.gate.baseline import Baseline, Fingerprint
from llama_index_rag_metrics.decisions.gate.measuring import (
    Measured,
    measure_against,
    measure_alone,
    name_in,
)
from llama_index_rag_metrics.decisions.gate.rules import Rule, RuleLike, parse_rules
from llama_index_rag_metrics.decisions.gate.verdicts import GateReport, Verdict, WorstQuery, decide
from llama_index_rag_metrics.evaluation.results.evaluation_results import (
    EvaluationResults,
    system_of,
)
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.failures import failure_lines
from llama_index_rag_metrics.report.model import Failure
from llama_index_rag_metrics.report.terminal import to_text
from llama_index_rag_metrics.runtime.amounts import check_integer
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import (
    BaselineMismatch,
    GateFailed,
    InconclusiveGate,
    InvalidInput,
)
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.first_line import nothing_measured
from llama_index_rag_metrics.scores.stories import query_answers

BaselineLike: TypeAlias = "Baseline | Results | str | Path"
"""A baseline, the results that make one, or the file that holds one."""


def check_rules(
    results: Results,
    rules: RuleLike,
    *,
    baseline: BaselineLike | None = None,
    clusters: Clusters | None = None,
    worst: int = 5,
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
        baseline: what rules with the word baseline are measured against.
        clusters: what queries belong to, as for `compare`; clusters are taken as a whole.
        worst: how many of the worst queries to keep in a verdict.

    Raises:
        InvalidInput: a rule or an argument can't be used, a score is infinite, or there are no
            scores by a rule's metric, or no baseline.
        BaselineMismatch: the baseline is of other queries, other questions or other judgements.
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
    check_integer("worst", worst, 0)
    parsed, scores, stored = parse_rules(rules), scores_of(results), _stored(baseline)
    same: Sequence[str] = ()
    notes: list[str] = []
    if relative := [rule for rule in parsed if rule.baseline]:
        if stored is None:
            expected = "a baseline, since the rule compares with it"
            way = "--update-baseline, or pytest --rag-update-baseline, stores one"
            raise InvalidInput("baseline", None, expected, f"The rule is '{relative[0]}'; {way}.")
        same = stored.check_queries(results)
        notes += _on_baseline(stored, scores)
    measured = [
        (rule, measure_against(rule, scores, stored, same, clusters))
        if rule.baseline and stored is not None
        else (rule, measure_alone(rule, scores, clusters))
        for rule in parsed
    ]
    notes += [note for _, measure in measured for note in measure.notes]
    verdicts = [
        replace(verdict, worst=tuple(_worst_queries(results, rule, measure, worst)))
        for verdict, (rule, measure) in zip(decide(measured), measured, strict=True)
    ]
    if scores.failed and not scores.is_measured:
        notes.insert(0, nothing_measured(scores.counts, [*scores.failed.values()]))
    if any(
        verdict.outcome != "pass" and (verdict.metric == "failed" or verdict.n < verdict.expected)
        for verdict in verdicts
    ):
        failed = [Failure("", *pair) for pair in scores.failed.items()]
        notes += [f"failed: {line.text}" for line in failure_lines(failed) if worst]
    notes += _remarks(verdicts, scores, stored)
    notes += _notes_on({verdict.metric for verdict in verdicts}, scores)
    distinct = tuple(dict.fromkeys(notes))
    about = results.about if isinstance(results, EvaluationResults) else {}
    known = {"dataset": about["dataset"]} if about.get("dataset") else {}
    return GateReport(tuple(verdicts), scores.name, distinct, known)


def assert_retrieval(
    results: Results,
    *rules: str | Rule,
    baseline: BaselineLike | None = None,
    strict: bool = False,
    clusters: Clusters | None = None,
    worst: int = 5,
) -> GateReport:
    """Assert that results satisfy rules.

    Args:
        results: of an evaluation, or bare scores, which know no rankings to show.
        rules: such as "ndcg@10 >= baseline - 0.02", "recall@5 >= 0.8"; see `Rule`.
        baseline: what rules with the word baseline are measured against: results, or the file of
            a stored `Baseline`.
        strict: whether an inconclusive rule fails, too; else it is a warning.
        clusters: what queries belong to, as for `compare`.
        worst: how many of the worst queries to show for each broken rule.

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
    report = check_rules(results, rules, baseline=baseline, clusters=clusters, worst=worst)
    if report.broken(strict=strict):
        raise GateFailed(_told(report))
    for verdict in report.broken(strict=True):
        warn_caller(InconclusiveGate(verdict.sentence))
    return report


def _notes_on(decided: set[str], scores: Scores) -> Iterator[str]:
    """The notes of the scores that aren't of other metrics alone."""
    for note in scores.notes:
        first = note.partition(": ")[0].split(", ")
        metrics = {each for each in scores if each in first or note.startswith(f"{each} ")}
        if not metrics or metrics & decided:
            yield note


def _told(report: GateReport) -> str:
    """The report; pytest's summary shows the first line alone, which therefore decides."""
    shown = report.report()
    return f"{plain(shown.decision[0].text)}\n{to_text(shown, width=120)}"


def _stored(baseline: BaselineLike | None) -> Baseline | None:
    if baseline is None or isinstance(baseline, Baseline):
        return baseline
    if isinstance(baseline, (str, Path)):
        return Baseline.load(baseline)
    if isinstance(baseline, (EvaluationResults, Scores)):
        return Baseline.of(baseline)
    expected = "a Baseline, the path of one, or the results that make one"
    raise InvalidInput("baseline", baseline, expected)


def _on_baseline(stored: Baseline, scores: Scores) -> Iterator[str]:
    """What to know of the baseline beside its numbers."""
    from llama_index_rag_metrics import __version__

    if stored.version != __version__:
        yield (
            f"the baseline was stored by version {stored.version or 'unknown'} of this package, "
            f"and this is {__version__}"
        )
    yield from scored_otherwise({"the baseline": stored.scores, "these scores": scores})


def _worst_queries(
    results: Results, rule: Rule, measured: Measured, n: int
) -> Iterator[WorstQuery]:
    """The n queries that lost most against the baseline, or else scored worst, worst first."""
    sign = -1.0 if rule.lower_is_better else 1.0
    goodness = {
        query_id: sign * (now - (before or 0.0))
        for query_id, (now, before) in measured.columns.items()
    }
    is_varied = len(set(goodness.values())) > 1
    ceiling = 0.0 if rule.baseline else max(goodness.values()) if is_varied else inf
    below = [query_id for query_id, good in goodness.items() if good < ceiling]
    system = system_of(results)
    scores = system.scores
    for query_id in sorted(below, key=lambda query_id: goodness[query_id])[:n]:
        story = query_answers(query_id, [system], measured.metric)
        yield WorstQuery(
            query_id, scores.queries.get(query_id, ""), *measured.columns[query_id], story=story
        )


def _remarks(verdicts: Sequence[Verdict], scores: Scores, stored: Baseline | None) -> Iterator[str]:
    open_ones = [verdict for verdict in verdicts if verdict.outcome == "inconclusive"]
    if any(verdict.needed for verdict in open_ones):
        yield (
            "with that many questions an unchanged system passes 80 % of the time. Choose the "
            "number first: testing again as questions are added lets more losses pass"
        )
    if any(verdict.together > 1 for verdict in verdicts if verdict.outcome != "pass"):
        most = max(verdict.together for verdict in verdicts)
        yield (
            f"adjusted for {most} rules (Holm): an unchanged system fails no more often than "
            "with one rule"
        )
    if stored is not None and any(
        verdict.rule.baseline and verdict.rule.confidence is not None and verdict.difference == 0.0
        for verdict in open_ones
    ):
        yield (
            "equal scores prove little with few questions; only identical rankings pass without "
            f"proof{_unlike(scores, stored)}"
        )


def _unlike(scores: Scores, stored: Baseline) -> str:
    """Why rankings that may be identical aren't taken for it."""
    query_ids = (*scores.query_ids, *scores.excluded)
    known = (stored.fingerprints.get(each, Fingerprint()).ranking for each in query_ids)
    if not all(known) or not all(map(scores.rankings.get, query_ids)):
        return (
            ". Rankings are known to scores of `evaluate`, of `score`, and of score_rankings "
            "with a Run; score older ones again"
        )
    if scored_otherwise({"": stored.scores, "now": scores}):
        return ". Score both with the same max_retrieved and judged_only"
    return ""


def update_baseline(
    path: str | Path,
    results: Results,
    *,
    metrics: Sequence[str] | None = None,
    rules: RuleLike = (),
    judged_by: RuleLike | None = None,
) -> Baseline:
    """Store results as the baseline.

    Without `rules`, those that the file has stay; without `judged_by`, the rules that are kept must
    hold. Where the file is of other questions, those against it aren't judged.

    Raises:
        GateFailed: the results break a rule; nothing was stored.
        FileFormatError: the file isn't a baseline.
        InvalidInput: a rule or a query id can't be used, or a score is infinite.
        UnknownMetric: there are no scores by one of the metrics.
    """
    __tracebackhide__ = True
    target = Path(path)
    before = Baseline.load(target) if target.is_file() else None
    kept = parse_rules(rules) if rules else () if before is None else before.rules
    stored = Baseline.of(results, metrics=metrics, rules=kept)
    judging = kept if judged_by is None else parse_rules(judged_by) if judged_by else ()
    report = _report_on_new(results, before, judging)
    if report.broken():
        refusal = (
            f"{target} stays as it was, since a rule is broken. To store it anyway, delete the "
            "file first."
        )
        raise GateFailed(f"{_told(report)}\n\n{refusal}")
    stored.save(target)
    return stored


def _report_on_new(results: Results, before: Baseline | None, rules: Sequence[Rule]) -> GateReport:
    """The verdicts on what is to be stored; none where there is nothing to judge."""
    scores, judging = scores_of(results), [rule for rule in rules if not rule.baseline]
    if before is not None and _is_of_same_queries(before, results):
        known = before.scores
        judging = [
            rule for rule in rules if not rule.baseline or name_in(scores, rule.metric) in known
        ]
    if not judging:
        return GateReport(())
    return check_rules(results, judging, baseline=before)


def _is_of_same_queries(before: Baseline, results: Results) -> bool:
    try:
        before.check_queries(results)
    except BaselineMismatch:
        return False
    return True
