"""check_rules() and assert_retrieval(): may a change be merged?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import TypeAlias

import numpy as np

from llama_index_rag_metrics.decisions.comparison.pairing import Results, scores_of
from llama_index_rag_metrics.evaluation.evaluation_results import system_of
from llama_index_rag_metrics.report import model
from llama_index_rag_metrics.report.numbers import counted, questions
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.report.terminal import to_text
from llama_index_rag_metrics.report.text import one_line
from llama_index_rag_metrics.runtime.errors import GateFailed, InconclusiveGate, InvalidInput, warn
from llama_index_rag_metrics.scores.label_fit import check_questions, with_reuse
from llama_index_rag_metrics.scores.scores import Scores, read_json
from llama_index_rag_metrics.statistics.resampling import NOISE
from llama_index_rag_metrics.stories import results_report
from llama_index_rag_metrics.stories.first_line import with_failures
from llama_index_rag_metrics.stories.label_view import System, columns_of
from llama_index_rag_metrics.stories.story import marked_as_worse, query_answers

from .rules import parse_rules
from .verdict import Outcome, Verdict, decide, measure

BaselineLike: TypeAlias = "Results | str | Path"  # of before, or the file of their `to_json()`

_WORST, _MOST_ITEMS = 5, 3  # how many of the worst questions, and passages of each, are shown
_WIDTH = 120  # of the message of a failed assertion
_ACCEPT = "Accept these results: rag-metrics gate --accept, or pytest --rag-accept."
_NAME_IT = "Name it: baseline='FILE', or rag_baseline = FILE in pytest's configuration."
_HEAD = ("verdict", "now", "baseline", "difference", "bounds")
_HOW = (
    "Each bound holds with the rule's confidence; a rule passes if even the worse one keeps to its "
    "limit, and fails if even the better one doesn't."
)
_NO_RUN = "Of {name}, scores are known, and not what was retrieved."
_AS_OBSERVED = "A rule without bounds is decided by what was observed alone."
_TONES: dict[Outcome, model.Tone] = {"fail": "alarm", "inconclusive": "open", "pass": "best"}
_ORDER = tuple(_TONES)  # worst first
_RECORDS = (
    *("metric", "outcome", "value", "baseline", "difference", "lower", "upper", "n", "expected"),
    *("together", "identical", "needed", "decidable", "sentence"),
)


@dataclass(frozen=True, repr=False)
class GateReport(Reportable):
    """The verdicts of a gate on a system, one for each rule, in their order."""

    verdicts: tuple[Verdict, ...]
    systems: tuple[System, ...]  # the baseline, where there is one, and what was checked

    @property
    def outcome(self) -> Outcome:
        return min(map(attrgetter("outcome"), self), key=_ORDER.index)

    def broken(self, *, strict: bool = False) -> Sequence[Verdict]:
        """Return the verdicts that close the gate: failed, with `strict` also inconclusive ones."""
        closing = ("fail", "inconclusive") if strict else ("fail",)
        return [verdict for verdict in self if verdict.outcome in closing]

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    def report(self, *, full: bool = False) -> model.Report:
        """The rules that aren't kept, a table with a row a rule, and the worst questions."""
        verdicts = sorted(self, key=lambda verdict: _ORDER.index(verdict.outcome))
        *baselines, system = self.systems
        scores, n = system.scores, questions(max(map(attrgetter("n"), self)))
        extent = f"{counted(len(verdicts), 'rule', 'rules')}, {n}"
        extent = ", against ".join([extent, *map(attrgetter("name"), baselines)])
        metrics = [verdict.metric for verdict in self if verdict.metric in scores]
        decision = _decision(verdicts, scores)
        decision += with_failures([], [system], [*metrics, *scores.metric_names, ""][0])
        rules, rows = map(attrgetter("rule"), self), list(map(_row, verdicts))
        explanations, listings = dict[str, None](), dict[str, model.Listing]()
        lead = "".join(_NO_RUN.format(name=old.name) for old in baselines if not old.run)
        for verdict in verdicts:
            if verdict.lower is not None or verdict.upper is not None:
                explanations[_HOW] = None
            elif verdict.rule.confidence is None:
                explanations[_AS_OBSERVED] = None
            if verdict.worst:
                title = f"Worst questions on {verdict.metric}"
                listing = model.Listing(title, verdict.worst, n_items=_MOST_ITEMS, lead=lead)
                listings.setdefault(title, listing)
        table = model.Table("Rules", _HEAD, rows, label_head="rule", text=" ".join(explanations))
        columns = model.Records.of_fields(self.verdicts, _RECORDS).columns
        return model.Report(
            title=" of ".join(filter(None, ["Retrieval gate", scores.name])),
            lead=results_report.with_left_out(extent, system),
            outcome=model.Cell(self.outcome, "outcome", _TONES[self.outcome]),
            decision=decision,
            about=results_report.about([system]),
            tables=[table] * (len(rows) > 1),  # of one rule, the sentence says all
            listings=list(listings.values()),
            failures=results_report.failures([system]),
            notes=results_report.unsaid(scores.notes, decision),
            glossary=results_report.glossary(dict.fromkeys(metrics)),
            records=model.Records({"rule": list(map(str, rules)), **columns}),
        )


def check_rules(
    results: Results, rules: str | Iterable[str], *, baseline: BaselineLike | None = None
) -> GateReport:
    """Check results against rules.

    All rules together fail an unchanged system in at most 1 - confidence of the cases. A rule fails
    where fewer than 95 % of the questions have a value.

    Args:
        rules: one or several, such as "ndcg@10 >= baseline - 0.02"; see `Rule`.
        baseline: the results of before, or the file that their `to_json()` wrote.

    Raises:
        InvalidInput: a rule can't be used, there are no scores by its metric, or there is no
            baseline, or one of other questions or labels.

    Examples:
        >>> before, after = (Scores(["q1", "q2"], {"mrr": [1.0, mrr]}) for mrr in (0.5, 0.4))
        >>> (verdict,) = check_rules(after, "mrr >= baseline as observed", baseline=before)
        >>> print(verdict)
        fail: mrr is 0.70 against 0.75 in the baseline, a difference of −0.05, and must be at \
least baseline (2 questions).
    """
    parsed, scores = parse_rules(rules), scores_of(results)
    systems, previous = [system_of(results, scores.name or "now")], None
    if any(rule.baseline for rule in parsed):
        if baseline is None:
            raise InvalidInput("baseline", None, "a baseline, since a rule names it", _NAME_IT)
        previous = baseline_scores(baseline, scores.name)
        check_questions({"the baseline": previous, "these scores": scores}, "baseline", _ACCEPT)
        name = previous.name * (previous.name != scores.name)
        old_system = System.of(previous, name or "the baseline")
        scores = with_reuse(scores, previous, old_system.name)
        systems = [old_system, systems[0]._replace(scores=scores)]
    verdicts = []
    for verdict in decide([measure(rule, scores, previous) for rule in parsed]):
        verdicts.append(replace(verdict, worst=tuple(_worst(verdict, systems))))
    return GateReport(tuple(verdicts), tuple(systems))


def assert_retrieval(
    results: Results, *rules: str, baseline: BaselineLike | None = None, strict: bool = False
) -> GateReport:
    """Assert that results satisfy rules; arguments and errors are those of `check_rules`.

    Args:
        strict: whether an inconclusive rule fails, too; else it is a warning.

    Raises:
        GateFailed: an AssertionError: a rule is broken. It begins with the verdict, and shows the
            numbers with their bounds and the worst questions.

    Examples:
        >>> scores = Scores(["q1", "q2"], {"recall@5": [1.0, 0.5]})
        >>> assert_retrieval(scores, "recall@5 >= 0.7").outcome
        'pass'
    """
    __tracebackhide__ = True
    report = check_rules(results, rules, baseline=baseline)
    if report.broken(strict=strict):
        content = report.report()
        # pytest's summary has the first line alone, which therefore decides
        decision = one_line(content.decision[0].text)
        raise GateFailed(f"{decision}\n{to_text(content, width=_WIDTH)}")
    for verdict in report.broken(strict=True):
        warn(InconclusiveGate(verdict.sentence))
    return report


def read_scores(path: str | Path, system: str | None = None) -> Scores:
    """Return the scores of one system, from a file that `to_json()` or `evaluate --json` wrote."""
    by_name = read_json(Path(path))
    if system is None and len(by_name) == 1:
        system = next(iter(by_name))
    if system is None or system not in by_name:
        names = " or ".join(map(repr, by_name))
        raise InvalidInput("system", system, f"the name of a system in {path}, {names}")
    return by_name[system]


def baseline_scores(baseline: BaselineLike, name: str) -> Scores:
    """Return the scores of a baseline, named as its file; of several systems, those of a name."""
    if not isinstance(baseline, (str, Path)):
        return scores_of(baseline, "baseline")
    if not Path(baseline).is_file():
        raise InvalidInput("baseline", str(baseline), "a file", _ACCEPT)
    scores, *further_scores = read_json(Path(baseline)).values()
    if further_scores:
        scores = read_scores(baseline, name)
    return scores.replace(name=Path(baseline).name)


def _worst(verdict: Verdict, systems: Sequence[System]) -> Iterator[model.QueryAnswers]:
    rule, metric = verdict.rule, verdict.metric
    if verdict.outcome == "pass" or metric not in verdict.paired.columns:
        return
    query_ids, scores = verdict.paired.scored(metric)
    gains = scores[:, -1] - (scores[:, 0] if rule.baseline else rule.value)
    columns = columns_of(systems, metric)
    old, new = columns[0], columns[-1]
    losses = np.array([old.get(name, math.nan) - new.get(name, math.nan) for name in query_ids])
    gains, losses = rule.improvement(1.0) * np.array([gains, losses])
    for position in np.lexsort((-losses, gains))[:_WORST].tolist():
        if gains[position] < 0:
            story = query_answers(query_ids[position], systems, metric, columns)
            # red is what is missed now, whether the baseline had it or not
            passages = [part._replace(is_missed=bool(part.losses[-1])) for part in story.wanted]
            if losses[position] > NOISE:
                story = marked_as_worse(story)
            yield story._replace(wanted=passages)


def _decision(verdicts: Sequence[Verdict], scores: Scores) -> list[model.Statement]:
    """Return the verdicts that don't pass; if all do, which rule is closest to its limit."""
    lines = []
    for verdict in verdicts:
        if verdict.outcome != "pass" or len(verdicts) == 1:
            lines.append(model.Statement(str(verdict), _TONES[verdict.outcome], verdict.outcome))
    if lines:
        return lines
    text = f"pass: {len(verdicts):,} rules kept."
    measured = [verdict for verdict in verdicts if verdict.metric in scores]
    if measured:
        tightest = min(measured, key=attrgetter("leeway"))
        text += f" Closest to its limit: {tightest.sentence}"
    return [model.Statement(text, "best", "pass")]


def _row(verdict: Verdict) -> model.Row:
    limit = verdict.rule.value
    value = model.Cell(verdict.value, "count" if isinstance(verdict.value, int) else "score")
    difference = model.Cell.of(verdict.difference, "signed")._replace(limit=limit)
    bounds = model.Cell("score", "bounds", low=verdict.lower, high=verdict.upper, limit=limit)
    if verdict.lower is None and verdict.upper is None:
        bounds = bounds._replace(tone="quiet")
    if verdict.rule.baseline:
        bounds = bounds._replace(value="signed")
    else:
        value = value._replace(limit=limit)
    outcome = model.Cell(verdict.outcome, "outcome", _TONES[verdict.outcome])
    cells = [outcome, value, model.Cell.of(verdict.baseline, "score"), difference, bounds]
    return model.Row(str(verdict.rule), [cell._replace(digits=verdict.digits) for cell in cells])
