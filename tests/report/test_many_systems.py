"""More than four systems: a row for each, the best first, in a terminal and on a page."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from rich.cells import cell_len

from llama_index_rag_metrics import Scores, compare
from llama_index_rag_metrics.evaluation.results.evaluation_results import results_report
from llama_index_rag_metrics.report.terminal import to_text

KINDS = ["plain", "rerank", "hybrid", "檢索器", "hyde", "none"]
NAMES = [f"openai-3-large-{kind}" for kind in KINDS]
MEANS = [0.5, 0.75, 0.625, 0.25, 0.875, 0.0]
BEST_FIRST = ["hyde", "rerank", "hybrid", "plain", "檢索器", "none"]


def scores(mean: float) -> Scores:
    """Two questions, half the mean apart; a second metric runs the other way."""
    values = [mean / 2, mean + mean / 2 if mean <= 0.5 else 1.0]
    values[0] = 2 * mean - values[1]
    metadata = {"q1": {"kind": "a"}, "q2": {"kind": "b"}}
    columns = {"ndcg@10": values, "mrr": [1 - value for value in values]}
    return Scores(["q1", "q2"], columns, metadata=metadata)


def systems() -> dict[str, Scores]:
    return {name: scores(mean) for name, mean in zip(NAMES, MEANS, strict=True)}


def rows(text: str) -> list[list[str]]:
    """The cells of each line that begins with one of the systems."""
    lines = (line.replace("* ", "").split() for line in text.splitlines())
    return [cells for cells in lines if cells and cells[0] in BEST_FIRST]


@pytest.mark.parametrize("width", [40, 80, 140])
def test_in_a_terminal_systems_are_rows_and_metrics_columns(width: int) -> None:
    text = to_text(results_report(systems()), width=width)
    assert max(map(cell_len, text.splitlines())) <= width
    means = rows(text[text.index("─") : text.index("Counts and latency")])
    by_system = {name: [cells[1:] for cells in means if cells[0] == name] for name in BEST_FIRST}
    assert [cells[0] for cells in means][:6] == BEST_FIRST
    for name, parts in by_system.items():
        mean = MEANS[KINDS.index(name)]
        # 8 questions carry two digits
        digits = [f"{mean:.2f}", f"{1 - mean:.2f}"]
        assert [cell for part in parts for cell in part] == digits
    assert text.count("openai-3-large-…") >= 2  # said at the head, not in every row
    assert "best mean of its column" in text


def test_slices_have_a_row_for_each_system_too() -> None:
    report = results_report(systems(), slice_by=["kind"])
    (table,) = next(each for each in report.sections if each.heading == "Slices").tables
    assert table.head == ["a (1)", "b (1)"]
    assert [row.label for row in table.rows] == BEST_FIRST


def test_a_comparison_has_a_row_a_system_and_short_names() -> None:
    report = compare(systems(), NAMES[0]).report()
    first, second = report.sections[0].tables
    assert [row.label.removesuffix(" (baseline)") for row in first.rows] == BEST_FIRST
    assert [row.label for row in second.rows] == [row.label for row in first.rows]
    assert "plain (baseline)" in [row.label for row in first.rows]
    assert first.first == "openai-3-large-…"


def test_four_systems_are_columns() -> None:
    four = {name: each for name, each in systems().items() if name in NAMES[:4]}
    (table,) = results_report(four).sections[0].tables
    assert list(table.head) == NAMES[:4]
    assert not table.system_rows


def test_a_metric_that_is_better_low_is_sorted_so() -> None:
    longer = {
        name: Scores(["q"], {"returned@5": [mean]}) for name, mean in zip(NAMES, MEANS, strict=True)
    }
    (table, *_) = results_report(longer).sections[0].tables
    means = [row.cells[0].value for row in table.rows]
    assert means == sorted(MEANS)
    assert all(a <= b for a, b in pairwise(means))  # type: ignore[operator]


@pytest.mark.parametrize("width", [80, 100, 140])
def test_no_name_is_broken_within_a_word(width: int) -> None:
    names = [f"openai-3-large-chunk{size}-rerank{k}" for size in (256, 1024) for k in (3, 7, 12)]
    chosen = {name: scores(mean) for name, mean in zip(names, MEANS, strict=True)}
    text = to_text(compare(chosen, names[0]).report(), width=width)
    parts = {"openai", "3", "large", "baseline", *(f"chunk{n}" for n in (256, 1024))}
    parts |= {f"rerank{k}" for k in (3, 7, 12)}
    for line in text.splitlines():
        if first := re.match(r" {1,2}((?:openai|chunk|rerank|arge|l)\S*)", line):
            assert {*re.findall(r"\w+", first[1])} <= parts, line
