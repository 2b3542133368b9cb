"""check_rules(): may this change be merged?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TypeAlias

import numpy as np

from llama_index_rag_metrics.comparison.pairing import Clusters, OnMissing, Paired, pair
from llama_index_rag_metrics.comparison.verdict import counted
from llama_index_rag_metrics.errors import InvalidInput, RagMetricsError, UnknownMetric
from llama_index_rag_metrics.evaluation import EvaluationResults
from llama_index_rag_metrics.gate.baseline import Baseline
from llama_index_rag_metrics.gate.bounds import Bounds, bounds_of
from llama_index_rag_metrics.gate.rules import Rule, parse_rules
from llama_index_rag_metrics.gate.verdicts import GateReport, Outcome, Verdict
from llama_index_rag_metrics.gate.words import sentence
from llama_index_rag_metrics.gate.worst import worst_queries
from llama_index_rag_metrics.judging import FloatArray
from llama_index_rag_metrics.naming import metric as metric_of
from llama_index_rag_metrics.scores import Scores
from llama_index_rag_metrics.statistics.intervals import FEWEST, exact_mean
from llama_index_rag_metrics.statistics.power import queries_to_decide
from llama_index_rag_metrics.statistics.resampling import NOISE

BaselineLike: TypeAlias = "Baseline | EvaluationResults | Scores | str | Path"
"""A baseline, the results that make one, or the file that holds one."""

_NOW, _BEFORE = "now", "baseline"


def check_rules(
    results: EvaluationResults | Scores,
    rules: str | Rule | Iterable[str | Rule],
    *,
    baseline: BaselineLike | None = None,
    on_missing: OnMissing = "error",
    clusters: Clusters | None = None,
    worst: int = 5,
) -> GateReport:
    """Whether some results keep to some rules.

    A rule against the baseline is decided by the one-sided bounds of the paired differences: it
    passes where the bound on the bad side keeps to the limit, fails where the bound on the good
    side breaks it, and is inconclusive between them. Its error rates are then at most 1 -
    confidence each: of passing a change that is exactly as bad as the limit, and of failing one
    that is exactly as good. One exception: where no query changed at all, a rule that tolerates
    that passes, however few queries there are. Each rule is decided on its own, without a
    correction for their number.

    Args:
        results: of an evaluation, or bare scores, which know no rankings to show.
        rules: such as "ndcg@10 >= baseline - 0.02"; see `Rule`.
        baseline: what rules with the word baseline are measured against.
        on_missing: what to do where the baseline is of other queries, other questions or other
            judgements: raise, or compare those that are the same.
        clusters: what queries belong to, as for `compare`; clusters are resampled as a whole.
        worst: so many of the queries that speak most against a rule stand in its verdict.

    Raises:
        InvalidInput: a rule or an argument can't be used, or there are no scores by its metric, or
            no baseline.
        BaselineMismatch: the baseline is of other queries.
        UnknownMetric: no metric is called as a rule says.

    Examples:
        >>> before = Scores(["q1", "q2"], {"mrr": [1.0, 0.5], "recall@5": [1.0, 1.0]})
        >>> after = Scores(["q1", "q2"], {"mrr": [1.0, 0.5], "recall@5": [1.0, 0.0]})
        >>> for one in check_rules(
        ...     after, ["mrr >= baseline - 0.02", "recall@5 >= 0.8"], baseline=before
        ... ):
        ...     print(one.outcome, "-", one.sentence)
        pass - mrr is 0.7500, the same as in the baseline on all 2 queries.
        fail - recall@5 is 0.5000 over 2 queries; 0.8 or more is wanted.
    """
    parsed = parse_rules(rules)
    scores = results if isinstance(results, Scores) else results.scores
    stored = _stored(baseline)
    notes: list[str] = []
    paired: dict[str, Paired] = {}
    against = [one for one in parsed if one.baseline]
    if against and stored is None:
        wish = "a baseline, since the rule compares with it"
        raise InvalidInput("baseline", None, wish, f"The rule is '{against[0]}'.")
    if against and stored is not None:
        same = stored.check_queries(results, intersect=on_missing == "intersect")
        notes += _version_note(stored)
        sides = [{*one.query_ids, *one.excluded} for one in (scores, stored.scores)]
        if len(same) < len(set.union(*sides)):
            notes.append(
                f"rules against the baseline are decided by {counted(len(same))}, those that "
                f"are the same now ({len(sides[0]):,}) and in the baseline ({len(sides[1]):,})"
            )
        paired = _paired(against, scores.select(same), stored.scores.select(same), clusters, notes)
    verdicts = []
    for rule in parsed:
        measured = (
            _against_baseline(rule, paired[rule.metric])
            if rule.baseline
            else _alone(rule, scores, clusters)
        )
        found = _decide(rule, measured)
        queries = worst_queries(results, measured.columns, rule, found.metric, worst)
        verdicts.append(replace(found, worst=queries))
    if any(one.metric == "failed" and one.outcome != "pass" for one in verdicts):
        notes += _failures(scores, worst)
    return GateReport(tuple(verdicts), scores.name, tuple(dict.fromkeys(notes)))


@dataclass(frozen=True)
class Measured:
    """What a rule is decided by.

    Attributes:
        metric: the name under which the scores have its metric.
        value: the mean now, or the count.
        bounds: of the difference, or without a baseline of the mean; None decides by the value.
        n: how many queries.
        columns: query id to (score now, score before).
        baseline: the mean before.
    """

    metric: str
    value: float | int
    bounds: Bounds | None
    n: int
    columns: Mapping[str, tuple[float, float | None]]
    baseline: float | None = None


def _stored(baseline: BaselineLike | None) -> Baseline | None:
    if baseline is None or isinstance(baseline, Baseline):
        return baseline
    if isinstance(baseline, (EvaluationResults, Scores)):
        return Baseline.of(baseline)
    if isinstance(baseline, (str, Path)):
        return Baseline.load(baseline)
    wish = "a Baseline, the path of one, or the results that make one"
    raise InvalidInput("baseline", baseline, wish)


def _failures(scores: Scores, most: int) -> list[str]:
    """Which queries failed, and with what: the first ones."""
    listed = [f"{query_id} failed: {error}" for query_id, error in scores.failed.items()][:most]
    more = len(scores.failed) - len(listed)
    return [*listed, f"{more:,} more failed"] if listed and more else listed


def _version_note(stored: Baseline) -> list[str]:
    from llama_index_rag_metrics import __version__

    if stored.version == __version__:
        return []
    return [
        f"the baseline was stored by version {stored.version or 'unknown'} of this package, and "
        f"this is {__version__}"
    ]


def _paired(
    rules: Iterable[Rule],
    now: Scores,
    before: Scores,
    clusters: Clusters | None,
    notes: list[str],
) -> dict[str, Paired]:
    """The metric of each rule to its scores on both sides."""
    found = {}
    for rule in rules:
        name = _name_in(now, rule.metric)
        if name not in before:
            remedy = f"Store a new baseline from scores by {name}."
            raise InvalidInput("baseline", list(before), f"scores by {name}", remedy)
        both = {_BEFORE: before, _NOW: now}
        found[rule.metric] = pair(both, _BEFORE, metrics=[name], clusters=clusters)
        notes += found[rule.metric].notes
    return found


def _name_in(scores: Scores, name: str) -> str:
    """The name under which the scores have a metric that may be spelt as other tools do."""
    if name in scores:
        return name
    try:
        usual = metric_of(name).metric_name
    except RagMetricsError:
        near = get_close_matches(name, scores.metric_names) or list(scores)
        raise UnknownMetric(name, near) from None
    if usual not in scores:
        scored = f"one that was scored: {', '.join(scores)}"
        raise InvalidInput("metric of a rule", name, scored, f"Score by {usual}, too.")
    return usual


def _against_baseline(rule: Rule, paired: Paired) -> Measured:
    (metric,) = paired.columns
    now, before = (paired.column(one, metric) for one in (_NOW, _BEFORE))
    differences = paired.differences(_NOW, _BEFORE, metric)
    both = ~np.isnan(differences)
    lowest, highest = _range_of(metric)
    bounds = _bounds(rule, differences, (lowest - highest, highest - lowest), paired)
    rows = zip(paired.query_ids, now.tolist(), before.tolist(), both.tolist(), strict=True)
    return Measured(
        metric,
        exact_mean(now[both]),
        bounds,
        int(both.sum()),
        {query_id: (one, other) for query_id, one, other, known in rows if known},
        exact_mean(before[both]),
    )


def _alone(rule: Rule, scores: Scores, clusters: Clusters | None) -> Measured:
    counts = asdict(scores.counts)
    if rule.metric not in scores and rule.metric in counts:
        if rule.confidence is not None:
            raise InvalidInput("rule", str(rule), "no confidence, since a count is certain")
        return Measured(rule.metric, counts[rule.metric], None, scores.counts.queries, {})
    metric = _name_in(scores, rule.metric)
    columns = {one: (score, None) for one, score in scores.by_query(metric).items()}
    if rule.confidence is None or not columns:
        return Measured(metric, scores.means[metric], None, len(columns), columns)
    paired = pair({_NOW: scores}, _NOW, metrics=[metric], clusters=clusters)
    bounds = _bounds(rule, paired.column(_NOW, metric), _range_of(metric), paired)
    return Measured(metric, scores.means[metric], bounds, len(columns), columns)


def _bounds(rule: Rule, values: FloatArray, ends: tuple[float, float], paired: Paired) -> Bounds:
    """The bounds of the mean, whichever side is the good one.

    Queries are resampled in the order of their ids, so that the order of a file changes nothing.
    """
    order = np.argsort(np.array(paired.query_ids, np.str_), kind="stable")
    clusters = None if paired.clusters is None else paired.clusters[order]
    sign = -1.0 if rule.lower_is_better else 1.0
    found = bounds_of(
        sign * values[order],
        rule.confidence or 0.0,
        min(sign * one for one in ends),
        differences=rule.baseline,
        clusters=clusters,
    )
    return found.negated() if rule.lower_is_better else found


def _range_of(metric: str) -> tuple[float, float]:
    try:
        return metric_of(metric).bounds
    except RagMetricsError:
        return -math.inf, math.inf


def _decide(rule: Rule, found: Measured) -> Verdict:
    bounds = found.bounds
    outcome = _by_value(rule, found) if bounds is None else _by_bounds(rule, bounds)
    verdict = Verdict(
        rule=rule,
        metric=found.metric,
        outcome=outcome,
        value=found.value,
        baseline=found.baseline,
        difference=None if bounds is None or not rule.baseline else bounds.mean,
        lower=None if bounds is None else bounds.lower,
        upper=None if bounds is None else bounds.upper,
        n=found.n,
        method="" if bounds is None else bounds.method,
        needed=None if bounds is None or outcome != "inconclusive" else _needed(rule, bounds),
        sentence="",
    )
    return replace(verdict, sentence=sentence(verdict))


def _by_value(rule: Rule, found: Measured) -> Outcome:
    if not found.n:
        return "inconclusive"
    return "pass" if _keeps(rule, found.value) else "fail"


def _by_bounds(rule: Rule, bounds: Bounds) -> Outcome:
    bad, good = bounds.lower, bounds.upper
    if rule.lower_is_better:
        bad, good = good, bad
    if bad is not None and _keeps(rule, bad):
        return "pass"
    return "fail" if good is not None and not _keeps(rule, good) else "inconclusive"


def _keeps(rule: Rule, value: float) -> bool:
    """Whether a value keeps to the limit, rounding noise aside."""
    beyond = (rule.value - value) if rule.lower_is_better else (value - rule.value)
    return beyond > NOISE if rule.strict else beyond >= -NOISE


def _needed(rule: Rule, bounds: Bounds) -> int | None:
    """How many queries like these would decide; more than there are."""
    if not bounds.informative or abs(bounds.mean - rule.value) <= NOISE:
        return None
    needed = queries_to_decide(
        bounds.mean,
        bounds.standard_error,
        bounds.n,
        -rule.value,
        confidence=rule.confidence or 0.0,
    )
    for_bootstrap = math.ceil(bounds.n * FEWEST / bounds.informative)
    return None if needed is None else max(needed, bounds.n + 1, for_bootstrap)
