"""A report in a real Chromium: opened from disk, and whatever it said or asked for."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.report.html import html_page
from llama_index_rag_metrics.report.model import Report


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

    def shown(self) -> list[str]:
        """The ids of the questions in sight, in their order."""
        return [each.get_attribute("id") for each in self.page.locator("details.q:visible").all()]


def opened_tabs(browser: Any, folder: Path) -> Iterator[Callable[..., Tab]]:
    """What opens reports; at the end no page may have complained, or asked the network."""
    tabs: list[Tab] = []

    def opened(reported: Any, address: str = "", **options: Any) -> Tab:
        path = folder / "report.html"
        if isinstance(reported, Report):
            path.write_text(html_page(reported), encoding="utf-8")
        else:
            reported.to_html(path)
        tab = Tab(browser.new_page(**{"viewport": {"width": 1280, "height": 900}, **options}))
        tabs.append(tab)
        tab.page.goto(path.as_uri() + address)
        return tab

    yield opened
    for tab in tabs:
        assert tab.trouble == []
        assert [url for url in tab.asked if not url.startswith("file:")] == []
        tab.page.close()
