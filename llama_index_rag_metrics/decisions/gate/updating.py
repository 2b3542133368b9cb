"""update_baseline(): new scores take the place of the baseline, and the anchor stays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from llama_index_rag_metrics.decisions.gate.baseline import (
    Baseline,
    Results,
    Update,
    commit_of,
    scores_of,
    today,
)
from llama_index_rag_metrics.decisions.gate.checking_rules import MIN_COVERAGE, check_rules
from llama_index_rag_metrics.decisions.gate.measuring import name_in
from llama_index_rag_metrics.decisions.gate.rules import Rule, parse_rules
from llama_index_rag_metrics.decisions.gate.verdicts import GateReport
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.report.terminal import to_text
from llama_index_rag_metrics.runtime.errors import BaselineMismatch, GateFailed, InvalidInput


def update_baseline(
    path: str | Path,
    results: Results,
    *,
    metrics: Sequence[str] | None = None,
    rules: str | Rule | Iterable[str | Rule] = (),
    judged_by: str | Rule | Iterable[str | Rule] | None = None,
    min_coverage: float = MIN_COVERAGE,
    force: bool = False,
    new_anchor: bool = False,
) -> Baseline:
    """Store results as the baseline, and add an entry to its history.

    The first baseline is also the anchor, which later updates leave alone.

    Args:
        path: the file; made where there is none.
        results: of an evaluation, or bare scores.
        metrics: which to keep; None for all.
        rules: what to keep with them; those that the file has stay where none are given.
        judged_by: the rules that must hold; None for those that are kept.
        min_coverage: the share of the queries that must have a value; see `check_rules`.
        force: whether to store results that break a rule; the history says so.
        new_anchor: whether these results become the anchor, too; the older one judges nothing.

    Returns:
        The baseline as it was stored.

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
    made = Baseline.of(results, metrics=metrics, rules=kept)
    judging = kept if judged_by is None else parse_rules(judged_by) if judged_by else ()
    compared = before if before is None or not new_anchor else replace(before, anchor=None)
    report = _report(results, compared, judging, min_coverage)
    broken = report is not None and bool(report.broken())
    if report is not None and broken and not force:
        refusal = f"{target} stays as it was, since a rule is broken; force stores it anyway."
        raise GateFailed(f"\n{to_text(report.report(), width=120)}\n\n{refusal}")
    anchor = None if before is None or new_anchor else before.anchor or before
    if anchor is not None:
        _check_anchor(anchor, results, min_coverage)
        anchor = replace(anchor, rules=(), anchor=None, history=())
    means = {metric: mean for metric, mean in made.scores.means.items() if made.scores.n(metric)}
    update = Update(today(), commit_of(target.absolute().parent), means, broken)
    history = () if before is None else before.history
    if history[-1:] != (update,):
        history = (*history, update)
    made = replace(made, anchor=anchor, history=history)
    made.save(target)
    return made


def _report(
    results: Results,
    before: Baseline | None,
    rules: Sequence[Rule],
    min_coverage: float,
) -> GateReport | None:
    """The verdicts on what is to be stored; None where there is nothing to judge.

    Rules that compare judge the queries and the metrics that the stored baseline has, too.
    """
    scores, judging = scores_of(results), [rule for rule in rules if not rule.baseline]
    if before is not None and _has_common(before, results):
        sides = {"baseline": before, "anchor": before.anchor or before}
        judging = [
            rule
            for rule in rules
            if not rule.baseline or name_in(scores, rule.metric) in sides[rule.reference].scores
        ]
    if not judging:
        return None
    return check_rules(
        results, judging, baseline=before, on_missing="intersect", min_coverage=min_coverage
    )


def _has_common(baseline: Baseline, results: Results) -> bool:
    try:
        return bool(baseline.check_queries(results, intersect=True))
    except BaselineMismatch:
        return False


def _check_anchor(anchor: Baseline, results: Results, min_coverage: float) -> None:
    """Refuse to keep an anchor that is of other queries: nothing could be compared with it."""
    try:
        common = len(anchor.check_queries(results, intersect=True))
    except BaselineMismatch:
        common = 0
    sizes = [
        len({*scores.query_ids, *scores.excluded}) for scores in (anchor.scores, scores_of(results))
    ]
    if common < min_coverage * min(sizes):
        expected = f"the same queries as now: only {common:,} of {counted(max(sizes))} are"
        remedy = "new_anchor=True, or --new-anchor, makes these scores the anchor."
        raise InvalidInput("anchor", f"{min(sizes):,} queries", expected, remedy)
