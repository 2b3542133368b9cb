"""A comparison, rounded: the tables that terminal, notebook, Markdown, LaTeX and HTML set."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from llama_index_rag_metrics.comparison import Comparison, Difference, Holes, MeanInterval
from llama_index_rag_metrics.report.summary import (
    NO_VALUE,
    Cell,
    Row,
    System,
    Tone,
    count_rows,
    number,
    plain,
    remarks,
    system_of,
)

_MOST_NAMES = 3


class Table(NamedTuple):
    """A table as it is shown: a title, the head of each column but the first, and rows."""

    title: str
    head: Sequence[str]
    rows: Sequence[Row]
    first: str = "metric"


def compared_systems(comparison: Comparison) -> list[System]:
    """The systems of a comparison, the baseline first."""
    systems = []
    for name in (comparison.baseline, *_others(comparison)):
        results = comparison.results[name]
        given = comparison.systems[name] if results is None else results
        systems.append(system_of(plain(str(name)), given))
    return systems


def title_of(comparison: Comparison) -> str:
    """Such as "hybrid and lsa against bm25"."""
    return f"{_listed(_others(comparison))} against {plain(comparison.baseline)}"


def headline_of(comparison: Comparison) -> str:
    """The metric that a decision is about."""
    return comparison.settings.primary


def verdicts(comparison: Comparison, metric: str | None = None) -> list[tuple[Tone, str]]:
    """Of each other system, by one metric: the tone and the sentence.

    By the primary metric, with the decision before them, unless another one is named.
    """
    shown = headline_of(comparison) if metric is None else metric
    found = [(tone(one), plain(one.verdict)) for one in comparison if one.metric == shown]
    if metric is not None or len(found) < 2:
        return found
    return [("normal", plain(comparison.decision)), *found]


def tone(found: Difference) -> Tone:
    """How a difference looks: better, worse, or neither."""
    if not found.significant:
        return "normal"
    return "best" if found.difference > 0 else "alarm"


def settings_of(comparison: Comparison) -> str:
    """How the numbers were made, in one sentence."""
    made = comparison.settings
    tests = {
        "randomisation": "randomisation test",
        "t": "paired t-test",
        "wilcoxon": "Wilcoxon's signed-rank test",
    }
    if made.correction == "none":
        corrected = "not corrected for their number"
    else:
        by = _CORRECTIONS[made.correction]
        corrected = (
            f"corrected ({by}) for the systems compared by {made.primary}, the primary metric"
        )
        if len(comparison.metric_names) > 1:
            corrected += ", and apart from it for all others"
    how = (
        "with pseudo-queries"
        if made.method == "t"
        else f"by the bootstrap (BCa, {made.resamples:,} resamples)"
    )
    return (
        f"{made.confidence * 100:g} % intervals {how}; p of the {tests[made.test]}, two-sided, "
        f"{plain(corrected)}; seed {made.seed}."
    )


_CORRECTIONS = {
    "max-t": "max-t",
    "holm": "Holm",
    "bonferroni": "Bonferroni",
    "benjamini-hochberg": "Benjamini–Hochberg",
}


def mean_table(comparison: Comparison) -> Table:
    """The mean of every system by every metric, with its interval."""
    systems = [comparison.baseline, *_others(comparison)]
    rows = [
        Row(plain(metric), [Cell(mean_text(comparison.means[one, metric])) for one in systems])
        for metric in comparison.metric_names
    ]
    return Table(
        f"Means with {_percent(comparison)} intervals", [plain(str(one)) for one in systems], rows
    )


def count_table(comparison: Comparison) -> Table:
    """How many queries each system was asked, and what became of them."""
    systems = compared_systems(comparison)
    return Table("Queries", [one.name for one in systems], list(count_rows(systems)), first="")


def difference_tables(comparison: Comparison) -> list[Table]:
    """One table a system: its difference from the baseline by every metric."""
    return [_differences(comparison, name) for name in _others(comparison)]


def slice_tables(comparison: Comparison) -> list[Table]:
    """One table a system: its difference by the headline's metric in every slice."""
    if not comparison.slices:
        return []
    metric, key = headline_of(comparison), comparison.settings.slices
    tables = []
    for name in _others(comparison):
        rows = []
        for value, part in comparison.slices.items():
            label = "without" if value is None else plain(str(value))
            rows.append(_difference_row(f"{label} ({part[name, metric].n})", part[name, metric]))
        title = f"{plain(metric)} of {plain(name)} by {plain(str(key))}"
        tables.append(Table(title, _difference_head(comparison, name), rows, first=plain(str(key))))
    return tables


def hole_tables(comparison: Comparison) -> list[Table]:
    """One table a system with unjudged items within k: its means as if these were judged."""
    head = ["unjudged within k", "as scored", "if not relevant", "if relevant", ""]
    return [
        Table(
            f"Unjudged items of {plain(str(name))}",
            head,
            [_hole_row(one) for one in found if one.unjudged],
        )
        for name, found in comparison.holes.items()
        if any(one.unjudged for one in found)
    ]


def tukey_table(comparison: Comparison) -> Table | None:
    """All pairs of three or more systems, by the headline's metric."""
    metric = headline_of(comparison)
    rows = [
        Row(
            f"{plain(one.system)} − {plain(one.other)}",
            [
                Cell(signed(one.difference)),
                Cell(interval_text(one.low, one.high)),
                Cell(p_text(one.p), "best" if one.p <= comparison.settings.alpha else "normal"),
            ],
        )
        for one in comparison.tukey
        if one.metric == metric
    ]
    if not rows:
        return None
    head = ["difference", f"{_percent(comparison)} interval", "p"]
    return Table(f"All pairs by {plain(metric)} (Tukey)", head, rows, first="pair")


def remarks_of(comparison: Comparison) -> list[str]:
    """What a reader of the numbers should know: of the comparison, its intervals, its systems."""
    notes = _gathered((one.note, f"{one.metric} of {one.system}") for one in comparison)
    own = [plain(note) for note in comparison.notes]
    return [*own, *notes, *(one for one in remarks(compared_systems(comparison)) if one not in own)]


def mean_remarks(comparison: Comparison) -> list[str]:
    """Why some means of `mean_table` have no interval, or a rough one."""
    return _gathered(
        (found.note, f"{metric} of {system}")
        for (system, metric), found in comparison.means.items()
    )


def mean_text(found: MeanInterval) -> str:
    """A mean with its interval, such as "0.5252 [0.4310, 0.6194]"."""
    if not found.n:
        return NO_VALUE
    if found.low is None or found.high is None:
        return number(found.mean)
    return f"{number(found.mean)} [{number(found.low)}, {number(found.high)}]"


def interval_text(low: float | None, high: float | None) -> str:
    """The interval of a difference."""
    return NO_VALUE if low is None or high is None else f"{signed(low)} to {signed(high)}"


def signed(difference: float) -> str:
    """A difference; the sign is a true minus."""
    shown = number(abs(difference))
    if shown == number(0):
        return shown
    return f"{'+' if difference > 0 else '−'}{shown}"


def p_text(p: float) -> str:
    """A p value in two digits."""
    return "< 0.0001" if p < 0.0001 else f"{p:.2g}"


def _differences(comparison: Comparison, name: str) -> Table:
    rows = [
        _difference_row(_label(comparison, metric), comparison[name, metric])
        for metric in comparison.metric_names
    ]
    title = f"{plain(str(name))} against {plain(comparison.baseline)}"
    return Table(title, _difference_head(comparison, name), rows)


def _label(comparison: Comparison, metric: str) -> str:
    one_of_several = len(comparison.metric_names) > 1 and metric == headline_of(comparison)
    return f"{plain(metric)} (primary)" if one_of_several else plain(metric)


def _difference_head(comparison: Comparison, name: str) -> list[str]:
    corrected = "p" if comparison.settings.correction == "none" else "corrected p"
    return [
        plain(comparison.baseline),
        plain(str(name)),
        "difference",
        f"{_percent(comparison)} interval",
        corrected,
        "better / same / worse",
        "effect size",
    ]


def _difference_row(label: str, found: Difference) -> Row:
    if not found.n:
        return Row(label, [Cell(NO_VALUE, "quiet")] * 7)
    shown = tone(found)
    effect = NO_VALUE if found.effect_size is None else f"{found.effect_size:+.2f}"
    return Row(
        label,
        [
            Cell(number(found.baseline_mean)),
            Cell(number(found.mean)),
            Cell(signed(found.difference), shown),
            Cell(interval_text(found.low, found.high)),
            Cell(p_text(found.p_corrected), shown),
            Cell(f"{found.wins} / {found.ties} / {found.losses}"),
            Cell(effect.replace("-", "−")),
        ],
    )


def _hole_row(found: Holes) -> Row:
    share = found.unjudged / found.retrieved if found.retrieved else math.nan
    return Row(
        plain(found.metric),
        [
            Cell(f"{found.unjudged:,} of {found.retrieved:,} ({share:.0%})"),
            Cell(number(found.mean)),
            Cell(number(found.not_relevant)),
            Cell(number(found.relevant)),
            Cell("bounds" if found.bounds else "two cases", "quiet"),
        ],
    )


def _others(comparison: Comparison) -> list[str]:
    return [one for one in comparison.systems if one != comparison.baseline]


def _percent(comparison: Comparison) -> str:
    return f"{comparison.settings.confidence * 100:g} %"


def _gathered(notes: Iterable[tuple[str, str]]) -> list[str]:
    """Each note once, after what it holds for; the empty ones left out."""
    holders: dict[str, list[str]] = {}
    for note, holder in notes:
        if note:
            holders.setdefault(note, []).append(holder)
    return [f"{_listed(where)}: {plain(note)}" for note, where in holders.items()]


def _listed(names: Sequence[str]) -> str:
    return " and ".join(_joined([plain(str(one)) for one in names]))


def _joined(names: Sequence[str]) -> Iterator[str]:
    if len(names) > _MOST_NAMES:
        names = [*names[: _MOST_NAMES - 1], f"{len(names) - _MOST_NAMES + 1} more"]
    if names[:-1]:
        yield ", ".join(names[:-1])
    yield names[-1]
