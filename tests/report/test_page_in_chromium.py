"""The page in a real Chromium: searched, filtered, sorted, opened at a question, read aloud.

Skips where Chromium or playwright is absent, except in CI.
"""

from collections.abc import Callable
from typing import Any

import pytest
from support.chromium import AA, axe_violations
from support.every_result import EVERY
from support.reported import comparison
from support.tab import Tab

from llama_index_rag_metrics.report.model import (
    Cell,
    Queries,
    QueryAnswers,
    Report,
    Row,
    Table,
    Wanted,
)

pytestmark = pytest.mark.browser

OpenReport = Callable[..., Tab]


@pytest.fixture
def tab(open_report: OpenReport) -> Tab:
    return open_report(comparison())


def test_questions_are_searched_by_words_of_texts_and_ids(tab: Tab) -> None:
    search = tab.page.locator("input[type=search]")
    searches = {"日本語": ["q2"], "LONG long": ["q1"], "Q5": ["q5"], "zzz": []}
    for words, ids in searches.items():
        search.fill(words)
        tab.page.wait_for_timeout(200)
        assert tab.shown() == ids, words


def test_questions_are_filtered_by_loss_and_by_change(tab: Tab) -> None:
    def shown(value: str) -> list[str]:
        tab.page.locator("select").first.select_option(value=value)
        return tab.shown()

    assert shown("better 1") == ["q1"]
    assert shown("worse 1") == ["q4", "q5", "q2"]  # the largest loss first
    assert shown("loss failed") == ["q4"]
    assert shown("loss nothing retrieved") == ["q5"]
    assert shown("loss nothing relevant") == ["q3"]
    assert shown("all") == ["q4", "q5", "q2", "q1", "q3"]


def test_count_in_the_table_shows_those_questions(open_report: OpenReport) -> None:
    compared = comparison().report(full=True)
    assert compared.queries is not None
    name = compared.queries().systems[1]
    table = Table("", ["changes"], [Row(name, [Cell((1, 0, 3), "tally")])])
    report = Report("", tables=[table], queries=compared.queries)
    tab = open_report(report)
    tab.page.locator("a.worse").click()
    assert tab.shown() == ["q4", "q5", "q2"]
    assert tab.page.locator(".heads [role=status]").inner_text() == "3 of 5 questions"


def test_questions_are_sorted_with_those_without_a_score_last(tab: Tab) -> None:
    tab.page.locator("select").nth(1).select_option(value="worst")
    assert tab.shown()[-1] == "q3"
    tab.page.locator("select").nth(1).select_option(value="gain")
    assert tab.shown()[0] == "q1"
    tab.page.locator("select").nth(1).select_option(value="asked")
    assert tab.shown() == ["q1", "q2", "q3", "q4", "q5"]


def test_address_opens_its_question_and_a_question_changes_it(open_report: OpenReport) -> None:
    tab = open_report(comparison(), "#q4")
    assert tab.page.locator("details.q[open]").get_attribute("id") == "q4"
    tab.page.locator("#q2 > summary").click()
    tab.page.wait_for_function("() => location.hash === '#q2'")


def test_page_is_readable_without_script(open_report: OpenReport, browser: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(open_report(comparison()).page.url)
    page.locator("#q1 > summary").click()
    assert page.locator("#q1 table").is_visible()
    assert not page.locator("form").is_visible()
    context.close()


def test_folded_questions_are_searched_and_read_as_they_unfold(open_report: OpenReport) -> None:
    stories = [
        QueryAnswers(f"q{n}", "?", [Wanted(["d"], "d", f"<i>{n}</i> & more")]) for n in range(1_001)
    ]
    report = Report("", queries=lambda: Queries("mrr", ["a"], stories))
    tab = open_report(report, "#q7")
    tab.page.wait_for_selector("#q7 table")
    assert tab.page.locator("#q7 td").last.inner_text() == "d <i>7</i> & more"
    assert tab.page.locator("table").count() == 1
    tab.page.locator("input[type=search]").fill("<i>42</i> &")
    tab.page.wait_for_function(
        "document.querySelector('[role=status]').textContent.startsWith('1 of')"
    )
    assert tab.shown() == ["q42"]


def test_narrow_screen_needs_no_scrolling_to_the_side(open_report: OpenReport) -> None:
    tab = open_report(comparison(), "#q4", viewport={"width": 375, "height": 300})
    heads = tab.page.locator(".heads").bounding_box()
    assert heads["y"] + heads["height"] <= tab.page.locator("#q4").bounding_box()["y"]
    assert tab.page.evaluate("document.documentElement.scrollWidth") == 375


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", list(EVERY))
def test_page_keeps_rules_of_accessibility(open_report: OpenReport, name: str, scheme: str) -> None:
    for build in EVERY[name]:
        tab = open_report(build(), bypass_csp=True, color_scheme=scheme)
        tab.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert axe_violations(tab.page, AA) == []
