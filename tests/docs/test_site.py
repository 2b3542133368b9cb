"""The built documentation as readers meet it: by screen reader, on a phone, in the dark.

Needs a built site: `RAG_METRICS_SITE=site`, after `python -m sphinx docs site`.
"""

import os
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from support.chromium import AA, axe_violations

SITE = Path(os.environ.get("RAG_METRICS_SITE", ""))
PAGES = sorted(
    path.relative_to(SITE).as_posix()
    for path in (SITE.rglob("*.html") if "RAG_METRICS_SITE" in os.environ else [])
)
pytestmark = [
    pytest.mark.site,
    pytest.mark.skipif(not PAGES, reason="needs RAG_METRICS_SITE, a built site"),
]


class Links(HTMLParser):
    """Where a page leads, and what can be led to in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        fields = dict(attributes)
        if identifier := fields.get("id"):
            self.anchors.add(identifier)
        for name in ("href", "src"):
            if target := fields.get(name):
                self.targets.append(target)


links_of = cache(Links)


@pytest.mark.parametrize("page", PAGES)
def test_links_within_the_site_lead_somewhere(page: str) -> None:
    links = links_of(SITE / page)
    broken = []
    for target in links.targets:
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            continue
        path = (SITE / page).parent / unquote(parts.path) if parts.path else SITE / page
        part = unquote(parts.fragment) if path.suffix == ".html" else ""
        if not path.exists() or (part and part not in links_of(path.resolve()).anchors):
            broken.append(target)
    assert broken == []


@pytest.fixture(scope="module")
def screen(browser: Any) -> Iterator[Any]:
    context = browser.new_context(bypass_csp=True)
    yield context.new_page()
    context.close()


@pytest.fixture(scope="module")
def phone(browser: Any) -> Iterator[Any]:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 375, "height": 800})
    yield context.new_page()
    context.close()


IN_THE_DARK = sorted({"index.html", "definitions.html", "statistics.html"}.intersection(PAGES))
"""Other colours are all that changes there."""


@pytest.mark.parametrize(
    ("page", "scheme"),
    [*((page, "light") for page in PAGES), *((page, "dark") for page in IN_THE_DARK)],
)
def test_axe_finds_nothing(screen: Any, page: str, scheme: str) -> None:
    screen.emulate_media(color_scheme=scheme)
    screen.goto((SITE / page).resolve().as_uri())
    assert axe_violations(screen, AA) == []


READ = [page for page in PAGES if page != "search.html"]
"""Searching needs a script."""


@pytest.mark.parametrize("page", READ)
def test_phone_without_javascript_shows_the_page(phone: Any, page: str) -> None:
    phone.goto((SITE / page).resolve().as_uri())
    box = phone.locator("article, [role=main]").first.bounding_box()
    assert phone.locator("h1").first.is_visible()
    assert box is not None
    assert box["width"] <= 375
