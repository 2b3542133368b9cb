"""check_rules(), assert_retrieval(), update_baseline(): may a change be merged, and kept?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TypeAlias

from llama_index_rag_metrics.decisions import OnMissing
from llama_index_rag_metrics.decisions.clusters import Clusters
from llama_index_rag_metrics.decisions.comparison.pairing import (
    Results,
    scored_otherwise,
    scores_of,
)
from llama_index_rag_metrics.decisions.gate.baseline import (
    Baseline,
    Fingerprint,
    Update,
    surroundings,
)
from llama_index_rag_metrics.decisions.gate.measuring import (
    Measured,
    measure_against,
    measure_alone,
    name_in,
)
from llama_index_rag_metrics.decisions.gate.rules import Rule, RuleLike, parse_rules
from llama_index_rag_metrics.decisions.gate.verdicts import (
    GateReport,
    Verdict,
    WorstQuery,
    decide,
    gathered,
)
from llama_index_rag_metrics.evaluation.results.evaluation_results import (
    EvaluationResults,
    system_of,
)
from llama_index_rag_metrics.report.escape import terminal as plain
from llama_index_rag_metrics.report.failures import failure_lines
from llama_index_rag_metrics.report.model import Failure
from llama_index_rag_metrics.report.numbers import questions
from llama_index_rag_metrics.report.terminal import to_text
from llama_index_rag_metrics.runtime.amounts import check_amount, check_integer
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import GateFailed, InconclusiveGate, InvalidInput
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.scores.first_line import nothing_measured
from llama_index_rag_metrics.scores.stories import query_answers

_Side: TypeAlias = "tuple[Baseline, Sequence[str]]"
"""The baseline or the anchor, and the queries in common."""

BaselineLike: TypeAlias = "Baseline | Results | str | Path"
"""A baseline, the results that make one, or the file that holds one."""

MIN_COVERAGE = 0.95
"""With fewer values than this share of the queries, a rule fails."""


def check_rules(
    results: Results,
    rules: RuleLike,
    *,
    baseline: BaselineLike | None = None,
    on_missing: OnMissing = "error",
    clusters: Clusters | None = None,
    min_coverage: float = MIN_COVERAGE,
    worst: int = 5,
) -> GateReport:
    """Check results against rules.

    A rule against the baseline is decided by the one-sided bounds of the paired differences: it
    passes where even the worse bound is within the limit, fails where even the better bound is
    beyond it, and is inconclusive in between. It is tested against the baseline's anchor, too,
    unless a rule of its own says how far the metric may be from the anchor. All rules together fail
    an unchanged system in at most 1 - confidence of the cases; each passes a change exactly at its
    limit in about as many. If all rankings are identical, few queries are enough.

    Args:
        results: of an evaluation, or bare scores, which know no rankings to show.
        rules: such as "ndcg@10 >= baseline - 0.02"; see `Rule`.
        baseline: what rules with the word baseline or anchor are measured against.
        on_missing: what to do where the baseline is of other queries, other questions or other
            judgements: raise, or compare those that are the same.
        clusters: what queries belong to, as for `compare`; clusters are taken as a whole.
        min_coverage: the share of the queries, from 0 to 1, that must have a value, or against the
            baseline one on both sides; of several runs of each, the share of the runs, too.
        worst: how many of the worst queries to keep in a verdict.

    Raises:
        InvalidInput: a rule or an argument can't be used, a score is infinite, or there are no
            scores by a rule's metric, or no baseline.
        BaselineMismatch: the baseline is of other queries.
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
    expected = "a number from 0 to 1, such as 0.95"
    check_amount("min_coverage", min_coverage, expected, lambda share: 0 <= share <= 1)
    check_integer("worst", worst, 0)
    parsed = parse_rules(rules)
    scores = scores_of(results)
    stored = _stored(baseline)
    notes: list[str] = []
    sides: dict[str, _Side] = {}
    if relative := [rule for rule in parsed if rule.baseline]:
        if stored is None:
            expected = "a baseline, since the rule compares with it"
            way = "--update-baseline, or pytest --rag-update-baseline, stores one"
            raise InvalidInput("baseline", None, expected, f"The rule is '{relative[0]}'; {way}.")
        sides = _sides(stored, results, on_missing, notes)
    measured = list(_measured(parsed, scores, sides, clusters, notes))
    notes += [note for _, measure in measured for note in measure.notes]
    each = [
        replace(verdict, worst=tuple(_worst_queries(results, rule, measure, worst)))
        for verdict, (rule, measure) in zip(decide(measured, min_coverage), measured, strict=True)
    ]
    verdicts = [*gathered(each)]
    if scores.failed and not scores.is_measured:
        notes.insert(0, nothing_measured(scores.counts, [*scores.failed.values()]))
    if any(
        verdict.outcome != "pass" and (verdict.metric == "failed" or verdict.n < verdict.expected)
        for verdict in verdicts
    ):
        failed = [Failure("", *pair) for pair in scores.failed.items()]
        notes += [f"failed: {line.text}" for line in failure_lines(failed) if worst]
    notes += _remarks(verdicts, scores, sides)
    notes += _notes_on({verdict.metric for verdict in verdicts}, scores)
    distinct = tuple(dict.fromkeys(notes))
    return GateReport(tuple(verdicts), scores.name, distinct, surroundings(results))


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


def _sides(
    stored: Baseline, results: Results, on_missing: OnMissing, notes: list[str]
) -> dict[str, _Side]:
    from llama_index_rag_metrics import __version__

    same = stored.check_queries(results, intersect=on_missing == "intersect")
    if stored.version != __version__:
        notes.append(
            f"the baseline was stored by version {stored.version or 'unknown'} of this package, "
            f"and this is {__version__}"
        )
    sides: dict[str, _Side] = {"baseline": (stored, same)}
    if stored.anchor is not None:
        sides["anchor"] = stored.anchor, stored.anchor.common_queries(results)
    scores = scores_of(results)
    now = scores.counts.queries
    for name, (reference, common) in sides.items():
        notes += scored_otherwise({f"the {name}": reference.scores, "these scores": scores})
        before = reference.scores.counts.queries
        if not len(common) == now == before:
            notes.append(
                f"rules against the {name} are decided by {questions(len(common))}, those that are "
                f"the same now ({now:,}) and in the {name} ({before:,})"
            )
    return sides


def _measured(
    rules: Sequence[Rule],
    scores: Scores,
    sides: Mapping[str, _Side],
    clusters: Clusters | None,
    notes: list[str],
) -> Iterator[tuple[Rule, Measured]]:
    """Every rule with what decides it; for rules against the baseline, the anchor, too."""
    anchored = {name_in(scores, rule.metric) for rule in rules if rule.anchor}
    for rule in rules:
        if not rule.baseline:
            yield from ((rule, part) for part in measure_alone(rule, scores, clusters))
            continue
        side = sides.get(rule.reference, sides["baseline"])
        yield from ((rule, part) for part in measure_against(rule, scores, *side, clusters))
        metric = name_in(scores, rule.metric)
        if rule.anchor or "anchor" not in sides or metric in anchored:
            continue
        again = replace(rule, anchor=True)
        if metric not in sides["anchor"][0].scores:
            notes.append(
                f"the anchor has no scores on {metric}, so losses in small steps go unnoticed; "
                "store a new anchor to notice them"
            )
        elif again not in rules:
            yield from (
                (again, part) for part in measure_against(again, scores, *sides["anchor"], clusters)
            )


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
        details = scores.details.get(measured.metric, {}).get(query_id, {})
        ranks, ids = (details.get(f"forbidden_{kind}", ()) for kind in ("ranks", "ids"))
        yield WorstQuery(
            query_id,
            scores.queries.get(query_id, ""),
            *measured.columns[query_id],
            story=story,
            leaked=tuple(zip(ranks, ids, strict=True)),
        )


def _remarks(
    verdicts: Sequence[Verdict], scores: Scores, sides: Mapping[str, _Side]
) -> Iterator[str]:
    open_ones = [verdict for verdict in verdicts if verdict.outcome == "inconclusive"]
    if any(verdict.needed for verdict in open_ones):
        yield (
            "with that many questions an unchanged system passes 80 % of the time. Choose the "
            "number first: testing again as questions are added lets more losses pass"
        )
    if any(verdict.together > 1 for verdict in verdicts if verdict.outcome != "pass"):
        most = max(verdict.together for verdict in verdicts)
        over = " and slices" if any(verdict.parts for verdict in verdicts) else ""
        yield (
            f"adjusted for {most} rules{over} (Holm): an unchanged system fails no more often than "
            "with one rule"
        )
    if any(
        verdict.rule.baseline and verdict.rule.confidence is not None and verdict.difference == 0.0
        for verdict in open_ones
    ):
        yield (
            "equal scores prove little with few questions; only identical rankings pass without "
            f"proof{_unlike(scores, sides)}"
        )


def _unlike(scores: Scores, sides: Mapping[str, _Side]) -> str:
    """Why rankings that may be identical aren't taken for it."""
    for side, common in sides.values():
        known = (side.fingerprints.get(each, Fingerprint()).ranking for each in common)
        if not all(known) or not all(map(scores.rankings.get, common)):
            return (
                ". Rankings are known to scores of `evaluate`, of `score`, and of score_rankings "
                "with a Run; score older ones again"
            )
        if scored_otherwise({"": side.scores, "now": scores}):
            return ". Score both with the same max_retrieved and judged_only"
    return ""


def update_baseline(
    path: str | Path,
    results: Results,
    *,
    metrics: Sequence[str] | None = None,
    rules: RuleLike = (),
    judged_by: RuleLike | None = None,
    min_coverage: float = MIN_COVERAGE,
    force: bool = False,
    new_anchor: bool = False,
) -> Baseline:
    """Store results as the baseline, and add an entry to its history.

    The first baseline is also the anchor, which later updates leave alone unless `new_anchor` is
    set. Without `rules`, those that the file has stay; without `judged_by`, the rules that are kept
    must hold. `force` stores results that break a rule; the history says so.

    Raises:
        GateFailed: the results break a rule, and `force` isn't set; nothing was stored.
        FileFormatError: the file isn't a baseline.
        InvalidInput: a rule or a query id can't be used, a score is infinite, or the anchor is of
            other queries and `new_anchor` isn't set.
        UnknownMetric: there are no scores by one of the metrics.
    """
    __tracebackhide__ = True
    target = Path(path)
    before = Baseline.load(target) if target.is_file() else None
    kept = parse_rules(rules) if rules else () if before is None else before.rules
    stored = Baseline.of(results, metrics=metrics, rules=kept)
    judging = kept if judged_by is None else parse_rules(judged_by) if judged_by else ()
    compared = before if before is None or not new_anchor else replace(before, anchor=None)
    report = _report_on_new(results, compared, judging, min_coverage)
    if report.broken() and not force:
        refusal = (
            f"{target} stays as it was, since a rule is broken. To store it anyway: force=True, "
            "--force or --rag-force."
        )
        raise GateFailed(f"{_told(report)}\n\n{refusal}")
    anchor = None if before is None or new_anchor else before.anchor or before
    if anchor is not None:
        _check_anchor(anchor, results, min_coverage)
        anchor = replace(anchor, rules=(), anchor=None, history=())
    update = Update.now(target.absolute().parent, stored.scores, forced=bool(report.broken()))
    history = () if before is None else before.history
    history += () if history[-1:] == (update,) else (update,)
    stored = replace(stored, anchor=anchor, history=history)
    stored.save(target)
    return stored


def _report_on_new(
    results: Results, before: Baseline | None, rules: Sequence[Rule], min_coverage: float
) -> GateReport:
    """The verdicts on what is to be stored; none where there is nothing to judge."""
    scores, judging = scores_of(results), [rule for rule in rules if not rule.baseline]
    if before is not None and before.common_queries(results):
        sides = {"baseline": before, "anchor": before.anchor or before}
        judging = [
            rule
            for rule in rules
            if not rule.baseline or name_in(scores, rule.metric) in sides[rule.reference].scores
        ]
    if not judging:
        return GateReport(())
    return check_rules(
        results, judging, baseline=before, on_missing="intersect", min_coverage=min_coverage
    )


def _check_anchor(anchor: Baseline, results: Results, min_coverage: float) -> None:
    """Refuse to keep an anchor that is of other queries: nothing could be compared with it."""
    common = len(anchor.common_queries(results))
    fewer, more = sorted(side.counts.queries for side in (anchor.scores, scores_of(results)))
    if common < min_coverage * fewer:
        expected = f"the same questions as now: only {common:,} of {questions(more)} are"
        remedy = "new_anchor=True, or --new-anchor, makes these scores the anchor."
        raise InvalidInput("anchor", questions(fewer), expected, remedy)
