"""The HTML report in a real Chromium: opened from disk, sorted, searched, filtered, unfolded.

Skips where Chromium or playwright is absent, except in CI.
"""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.chromium import AA, axe_violations
from support.reported import EVIL, METRICS, QUERIES, baseline, comparison, other, results
from support.tab import DRAWN, Tab

from llama_index_rag_metrics import (
    Ranking,
    RetrievalDataset,
    Scores,
    check_labels,
    check_rules,
    compare,
    evaluate,
)
from llama_index_rag_metrics.report.model import Statement

pytestmark = pytest.mark.browser


@pytest.fixture
def tab(open_report: Callable[..., Tab]) -> Tab:
    return open_report(comparison())


def test_the_verdict_comes_first_and_hostile_names_are_text(tab: Tab) -> None:
    verdicts = tab.page.locator("main > section.card").first.locator(".verdict")

    assert EVIL in verdicts.first.inner_text()
    assert "baseline on ndcg@3" in verdicts.first.inner_text()
    assert tab.page.locator("h1").inner_text() == f"{EVIL} against baseline"
    assert verdicts.first.is_visible()
    assert tab.page.locator("img").count() == 0


def test_a_quiet_verdict_has_the_size_of_a_verdict(open_report: Callable[..., Tab]) -> None:
    decision = [Statement("It is so.", "quiet"), Statement("Take it.")]
    report = dataclasses.replace(comparison().report(full=True), decision=decision)
    quiet = open_report(report).page.locator(".verdict.quiet")
    look = "element => [getComputedStyle(element).fontSize, getComputedStyle(element).margin]"
    # .95rem of 16px, and the .6rem below of every verdict that isn't the last
    assert quiet.evaluate(look) == ["15.2px", "0px 0px 9.6px"]


def test_hostile_queries_texts_and_errors_are_text(tab: Tab) -> None:
    cells = tab.page.locator("#queries .unfold").all_inner_texts()

    assert sorted(cell.splitlines()[0] for cell in cells) == sorted(QUERIES.values())
    place = tab.unfold("q4")
    assert f"failed: ValueError: {EVIL}" in place.inner_text()
    assert tab.page.evaluate("document.querySelectorAll('main script').length") == 0


def test_the_table_sorts_with_missing_values_last(tab: Tab) -> None:
    # ndcg@3 of the baseline: q1 (2/log2 3 + 1/log2 4)/(2 + 1/log2 3) = 0.67, q2, q4, q5: 1, q3 none
    assert tab.rows()[-1] == "q3 no known relevant passage"
    tab.sort("baseline", "ascending")
    assert tab.rows()[0].startswith("q1")
    assert tab.rows()[-1].startswith("q3")
    tab.sort("baseline", "descending")
    assert tab.rows()[-2].startswith("q1")
    assert tab.rows()[-1].startswith("q3")


def test_the_table_searches(tab: Tab) -> None:
    search = tab.page.locator("#search")
    for text, found in {"日本語": ["q2"], "<SCRIPT>": ["q1", "q2", "q3"], "Q5": ["q5"]}.items():
        search.fill(text)
        tab.page.wait_for_function(
            "() => !/looking/.test(document.querySelector('#searching').innerText)"
        )
        assert sorted(row[:2] for row in tab.rows()) == found, text
    search.fill("no such query")
    assert tab.rows() == []


def test_the_table_filters_by_outcome_and_metadata(tab: Tab) -> None:
    def shown(**chosen: str) -> set[str]:
        tab.page.select_option("#show", label=chosen.get("show", "all questions"))
        tab.page.select_option("#slices select", label=chosen.get("language", "all"))
        return {row[:2] for row in tab.rows()}

    assert shown() == {"q1", "q2", "q3", "q4", "q5"}
    assert shown(show="better than the baseline") == {"q1"}  # a moved from 2 to 1
    assert shown(show="worse than the baseline") == {"q2", "q4", "q5"}
    assert shown(show="failed") == {"q4"}
    assert shown(show="nothing retrieved") == {"q5"}
    assert shown(show="no known relevant passage") == {"q3"}
    assert shown(language="ja") == {"q2"}
    assert shown(language="en", show="worse than the baseline") == {"q4", "q5"}


def test_another_metric_changes_the_scores(tab: Tab) -> None:
    tab.page.select_option("#metric", label="mrr")
    row = tab.page.locator("#queries tbody tr", has_text="q2").first
    # the relevant item moved from rank 1 to 2
    assert row.locator("td.score").all_inner_texts() == ["1.00", "0.50", "▼ 0.50"]


def test_a_query_folds_again(tab: Tab) -> None:
    tab.unfold("q2")
    button = tab.page.locator("#queries .unfold[aria-expanded=true]")
    button.click()
    tab.page.locator("#queries .unfolded").wait_for(state="detached")
    assert tab.page.locator("#queries .unfold[aria-expanded=true]").count() == 0


def test_queries_that_need_a_look_stand_on_their_own(tab: Tab) -> None:
    place = tab.page.locator("#to-check")
    kinds = place.locator("> details > summary").all_inner_texts()
    assert kinds == ["failed (1)", "nothing retrieved (1)", "no known relevant passage (1)"]
    place.locator("> details").first.locator("summary").click()
    place.locator("details details summary").first.click()
    place.get_by_text("failed: ValueError").wait_for()
    assert EVIL in place.inner_text()
    tab.page.locator(".contents").get_by_role("link", name="Questions to check").click()
    assert tab.page.evaluate("location.hash") == "#to-check"


@pytest.mark.parametrize("width", [375, 660, 760, 900, 1280])
def test_no_width_scrolls_sideways(open_report: Callable[..., Tab], width: int) -> None:
    names = {"baseline": baseline(), "a" * 80: other(), "第三個系統": baseline()}
    tab = open_report(compare(names, "baseline"), viewport={"width": width, "height": 800})
    tab.unfold("q1")
    for fold in tab.page.locator("section > details > summary").all():
        fold.click()
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    assert "第三個系統" in tab.page.locator("#figure-means text").all_text_contents()


@pytest.mark.parametrize("width", [660, 760, 900])
def test_on_a_tablet_no_name_is_broken_and_no_column_is_cut_off(
    open_report: Callable[..., Tab], width: int
) -> None:
    tab = open_report(comparison(), viewport={"width": width, "height": 800})
    for table in tab.page.locator("table.numbers:visible").all():
        heights, inside = table.evaluate(
            """table => [
              [...table.querySelectorAll("tbody th")].map(cell => {
                const range = document.createRange();
                range.selectNodeContents(cell);
                return new Set([...range.getClientRects()].map(line => line.top)).size;
              }),
              table.getBoundingClientRect().right
                <= table.closest(".card").getBoundingClientRect().right,
            ]"""
        )
        assert set(heights) == {1}  # a metric's name in one line
        assert inside


@pytest.mark.parametrize("paper", ["A4", "Letter"])
def test_on_paper_nothing_is_cut_off(
    browser: Any, tmp_path: Path, paper: str, open_report: Callable[..., Tab]
) -> None:
    if (pdftotext := shutil.which("pdftotext")) is None:
        pytest.skip("needs pdftotext: apt-get install poppler-utils")
    tab = open_report(comparison(), DRAWN)
    path = tmp_path / "report.pdf"
    tab.page.pdf(path=path, format=paper)
    command = [pdftotext, "-layout", str(path), "-"]
    pages = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\f")
    first = " ".join(pages[0].split())

    assert comparison().report().decision[0].text[:60] in first  # no empty first page
    for heading in ("recall@2", "interval"):
        assert heading in first
    tally = next(iter(comparison()))
    assert f"{tally.wins} / {tally.ties} / {tally.losses}" in first  # in the last column
    # what is folded on the screen, since paper can't be clicked
    for folded in ("latency p50", "What the metrics mean", "Range 0 to 1."):
        assert folded in " ".join(" ".join(pages).split())
    assert tab.page.locator("main > .card > details[open]").count() == 0


def closed_gate() -> Any:
    """A gate with a verdict of each kind, whose evidence holds hostile names."""
    rules = ["recall@2 >= 0.9", "mrr >= baseline - 0.01", "queries >= 1"]
    gate = check_rules(other(), rules, baseline=baseline())
    assert [verdict.outcome for verdict in gate] == ["fail", "inconclusive", "pass"]
    return gate


def test_a_gate_shows_its_evidence(open_report: Callable[..., Tab]) -> None:
    tab = open_report(closed_gate(), "footer")
    assert tab.page.locator(".verdict .chip").all_inner_texts() == ["fail", "inconclusive"]
    # the failed query is among the worst of both rules, and shown once
    worst = tab.page.locator("li", has_text="the retriever fails")
    assert [line for line in worst.inner_text().split("\n") if line] == [
        "the retriever fails q4",
        "relevant: d [1]",
        f"{EVIL} 0.00",
        f"failed: ValueError: {EVIL}",
    ]
    contrasts = tab.page.evaluate(CONTRASTS)
    assert min(contrasts.values()) >= 4.5, contrasts


def test_without_plots_and_questions_no_metric_is_chosen(open_report: Callable[..., Tab]) -> None:
    dataset = RetrievalDataset({"q": "Which?"}, {"q": ["d"]}, {"d": "A text."})
    tab = open_report(check_labels(dataset), "footer")
    tab.page.locator("#actions button").first.wait_for()
    assert tab.page.locator("#choice").is_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_a_gate(browser: Any, tmp_path: Path, scheme: str) -> None:
    page = browser.new_context(bypass_csp=True, color_scheme=scheme).new_page()
    page.goto(closed_gate().to_html(tmp_path / "gate.html").as_uri())
    violations = axe_violations(page, [*AA, "best-practice"])
    page.context.close()
    assert violations == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_that_shuts_a_reader_out(
    browser: Any, tmp_path: Path, scheme: str
) -> None:
    page = browser.new_context(bypass_csp=True, color_scheme=scheme).new_page()
    page.goto(comparison().to_html(tmp_path / "report.html").as_uri())
    page.wait_for_selector(DRAWN)
    page.locator("#queries .unfold").first.click()
    page.wait_for_selector(".unfolded")
    for fold in page.locator("section > details > summary").all():
        fold.click()
    violations = axe_violations(page, [*AA, "best-practice"])
    page.context.close()
    assert violations == []


def test_a_query_unfolds_and_a_column_sorts_by_keyboard(tab: Tab) -> None:
    tab.page.locator("#queries .unfold", has_text="q1").focus()
    tab.page.keyboard.press("Enter")
    tab.page.locator("#queries .unfolded").wait_for()
    heading = tab.page.locator("#queries thead th", has_text="baseline").first
    before = heading.get_attribute("aria-sort")
    heading.locator("[role=button], .dt-column-order").first.focus()
    tab.page.keyboard.press("Enter")
    heading.locator("xpath=self::*[@aria-sort='ascending']").wait_for()
    assert before != "ascending"


def test_ten_systems_are_legible(open_report: Callable[..., Tab]) -> None:
    systems = {"baseline": baseline(), **{f"system {n}": other() for n in range(9)}}
    tab = open_report(compare(systems, "baseline"))
    matrix = tab.page.locator("section", has_text="Who beats whom").locator("table").first
    assert matrix.locator("tbody tr").count() == 10
    assert matrix.locator("thead th").count() == 11
    assert tab.page.locator("#queries thead th").count() == 11
    row = tab.page.locator("#queries tbody tr").first
    assert row.bounding_box()["height"] < 120
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_dark_mode_is_dark_and_readable(open_report: Callable[..., Tab]) -> None:
    tab = open_report(comparison(), color_scheme="dark")
    tab.unfold("q1")
    contrasts = tab.page.evaluate(CONTRASTS)
    assert min(contrasts.values()) >= 4.5, contrasts
    assert (
        tab.page.evaluate(f"({LUMINANCE})(getComputedStyle(document.body).backgroundColor)") < 0.1
    )


def test_light_mode_is_readable(tab: Tab) -> None:
    tab.unfold("q1")
    contrasts = tab.page.evaluate(CONTRASTS)
    assert min(contrasts.values()) >= 4.5, contrasts
    assert (
        tab.page.evaluate(f"({LUMINANCE})(getComputedStyle(document.body).backgroundColor)") > 0.8
    )


def test_a_page_opened_in_the_dark_prints_black_on_white(open_report: Callable[..., Tab]) -> None:
    tab = open_report(comparison(), DRAWN, color_scheme="dark")
    tab.page.emulate_media(media="print", color_scheme="dark")
    label = tab.page.locator("#figure-means text").first
    fill = label.evaluate("label => getComputedStyle(label).fill")
    assert fill == "rgb(0, 0, 0)"
    assert tab.page.evaluate(PAGE) == "rgb(255, 255, 255)"
    assert tab.page.locator("#search").is_hidden()


def test_pages_of_many_queries_hold_only_one_page_of_rows(open_report: Callable[..., Tab]) -> None:
    queries = {f"q{n}": f"query q{n}" for n in range(2_000)}
    scores = Scores(list(queries), {"mrr": [1.0] * 2_000}, queries=queries)
    from llama_index_rag_metrics import write_html

    class Reported:
        def to_html(self, path: Path) -> Path:
            return write_html(scores, path)

    tab = open_report(Reported())
    assert tab.page.locator("#queries tbody tr").count() == 25
    assert "2,000" in tab.page.locator(".dt-info").inner_text()
    assert "Bare scores have no rankings" in tab.unfold("q7").inner_text()


def test_results_without_a_baseline_show_no_movement(open_report: Callable[..., Tab]) -> None:
    reported = results({"q1": Ranking(["a", "x"], texts=["a", "x"])}, "one")
    tab = open_report(reported)
    place = tab.unfold("q1")
    place.get_by_text("Relevant passages: 1 of 2 missed").wait_for()  # of one element
    assert place.locator(".move").count() == 0
    assert tab.page.locator("#queries thead th").all_inner_texts() == ["question", "one"]
    assert tab.page.locator("#metric option").all_inner_texts() == METRICS


def test_the_runs_of_a_question_stand_side_by_side(open_report: Callable[..., Tab]) -> None:
    found = iter([["a", "x"], ["y", "x"], ["x", "a"]])
    dataset = RetrievalDataset({"q1": EVIL}, {"q1": ["a"]}, {"a": "moons", "x": EVIL})
    asked = evaluate(lambda _: next(found), dataset, ["mrr"], name="agent", repeats=3, workers=1)
    tab = open_report(asked)
    heads = tab.page.locator("#queries thead th").all_inner_texts()
    assert heads == ["question", "agent", "run 1", "run 2", "run 3"]
    cells = tab.page.locator("#queries tbody td").all_inner_texts()
    assert cells[1:] == ["0.50", "1.00", "0.00", "0.50"]
    wanted, mean, *runs = tab.unfold("q1").locator(".side").all_inner_texts()
    assert "run 2: never retrieved" in wanted
    assert "mean of the runs" in mean
    assert [run.splitlines()[0][:5] for run in runs] == ["run 1", "run 2", "run 3"]
    assert ["moons" in run for run in runs] == [True, False, True]
    assert tab.page.locator("img").count() == 0


def test_the_numbers_are_there_without_scripts(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(comparison().to_html(tmp_path / "report.html").as_uri())
    assert "baseline on ndcg@3" in page.locator(".verdict").first.inner_text()
    assert page.locator("table.numbers").first.is_visible()
    context.close()


PAGE = "getComputedStyle(document.body).backgroundColor"
LUMINANCE = """colour => {
  const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).slice(0, 3).map(v => {
    const s = v / 255;
    return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}"""
CONTRASTS = f"""() => {{
  const luminance = {LUMINANCE};
  const behind = element => {{
    for (let at = element; at; at = at.parentElement) {{
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$|transparent/.test(colour)) return colour;
    }}
    return "rgb(255, 255, 255)";
  }};
  const found = {{}};
  for (const name of ["h1", ".verdict", ".chip", "table.numbers td", "table.numbers thead th",
      "#queries td.score", "#queries .unfold", ".side h4", ".ranking .excerpt", ".ranking .id",
      ".ranking .grade", ".ranking .move", ".ranking .lost", "mark", "#search", ".dt-info", "a",
      "button.copy", "footer"]) {{
    for (const element of document.querySelectorAll(name)) {{
      const pair = [getComputedStyle(element).color, behind(element)].map(luminance);
      const [low, high] = pair.sort((a, b) => a - b);
      const ratio = (high + 0.05) / (low + 0.05);
      found[name] = Math.min(found[name] ?? 99, ratio);
    }}
  }}
  return found;
}}"""
"""The lowest contrast of text and what is behind it, by selector; WCAG 2 AA wants 4.5."""
