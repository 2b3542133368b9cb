"""A report in a real Chromium: opened from disk, and whatever it said or asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.report.html import html_page
from llama_index_rag_metrics.report.model import Report

FILLED = "#all-queries[data-ready]"
"""The table of queries can be used."""
DRAWN = "#plots[data-ready]"
"""Every plot is drawn, too: the last thing that the page does."""


class Tab:
    """A page, and whatever it said or asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.trouble: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.trouble.append(message.text))
        page.on("pageerror", lambda error: self.trouble.append(str(error)))
        page.on("dialog", lambda dialog: self.trouble.append(f"dialog {dialog.message}"))
        page.on("request", lambda request: self.asked.append(request.url))

    def rows(self) -> list[str]:
        """The ids of the queries in the table, in the order shown."""
        return [label.inner_text() for label in self.page.locator("#queries .unfold small").all()]

    def sort(self, heading: str, direction: str) -> None:
        """Click on the heading of a column, and wait for what that does."""
        column = self.page.locator("#queries thead th", has_text=heading).first
        column.click()
        column.locator(f"xpath=self::*[@aria-sort='{direction}']").wait_for()

    def unfold(self, query_id: str) -> Any:
        """Unfold a query; what comes out, when all that is open of it is there."""
        row = self.page.locator("#queries tbody tr", has=self.page.get_by_text(query_id)).first
        row.locator(".unfold").click()
        place = self.page.locator("#queries .unfolded").first
        place.wait_for()
        self.page.wait_for_function(
            "() => [...document.querySelectorAll('.ranking details[open]')]"
            ".every(fold => fold.querySelector('.text'))"
        )
        return place


def opened_tabs(browser: Any, folder: Path) -> Iterator[Callable[..., Tab]]:
    """What opens reports; at the end no page may have complained, or asked the network."""
    tabs: list[Tab] = []

    def opened(reported: Any, until: str = FILLED, address: str = "", **options: Any) -> Tab:
        path = folder / "report.html"
        if isinstance(reported, Report):
            path.write_text(html_page(reported), encoding="utf-8")
        else:
            reported.to_html(path)
        tab = Tab(browser.new_page(**{"viewport": {"width": 1280, "height": 900}, **options}))
        tabs.append(tab)
        tab.page.goto(path.as_uri() + address)
        tab.page.wait_for_selector(until)
        return tab

    yield opened
    for tab in tabs:
        assert tab.trouble == []
        assert [url for url in tab.asked if not url.startswith(("file:", "blob:", "data:"))] == []
        tab.page.close()
