"""The page of a sweep in a real Chromium: its table is ordered by any column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.chromium import AA, axe_violations
from support.reported import EVIL
from support.swept import made_sweep

pytestmark = pytest.mark.browser

SWEPT = made_sweep(
    {
        "c10": ([1.0, 0.4] * 20, 90, 0.5),
        "c9": ([1.0, 0.6] * 20, 1_200, 0.012),
        EVIL: ([1.0, 0.2] * 20, 100, 1.5),
    }
)


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Any:
    opened = browser.new_page()
    opened.goto(SWEPT.to_html(tmp_path / "sweep.html").as_uri())
    opened.wait_for_selector("table.sortable button")
    yield opened
    opened.close()


def test_a_click_on_a_heading_orders_the_rows(page: Any) -> None:
    def names() -> list[str]:
        cells = page.locator("table.sortable tbody td:nth-child(2)")
        return [str(text) for text in cells.all_inner_texts()]

    def click(heading: str) -> str:
        head = page.locator("table.sortable th", has_text=heading).first
        head.get_by_role("button").click()
        return str(head.get_attribute("aria-sort"))

    assert names() == ["c9", "c10", EVIL]
    # numbers by what they are, not by how they are written: 90, 100, 1,200; 12 ms, 500 ms, 1.5 s
    assert click("tokens") == "ascending"
    assert names() == ["c10", EVIL, "c9"]
    assert click("p95") == "ascending"
    assert names() == ["c9", "c10", EVIL]
    assert click("p95") == "descending"
    assert names() == [EVIL, "c10", "c9"]
    # texts as people count: c9 before c10
    assert click("name") == "ascending"
    assert names() in ([EVIL, "c9", "c10"], ["c9", "c10", EVIL])
    assert page.locator("table.sortable [aria-sort]").count() == 1
    assert click("rank") == "ascending"
    assert names() == ["c9", "c10", EVIL]
    assert page.locator("main img").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Any, tmp_path: Path, scheme: str) -> None:
    page = browser.new_context(bypass_csp=True, color_scheme=scheme).new_page()
    page.goto(SWEPT.to_html(tmp_path / "sweep.html").as_uri())
    page.wait_for_selector("table.sortable button")
    violations = axe_violations(page, AA)
    page.context.close()
    assert violations == []
