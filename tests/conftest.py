"""What holds for all tests: a busy machine fails none of them, and none needs the network."""

import os
import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from support.chromium import CHROMIUM, OPTIONS
from support.examples import THOROUGH
from support.tab import Tab, opened_tabs

MEETS_CORE = re.compile(r"^\s*(?:from|import) llama_index\b", re.MULTILINE)

for name, most in (("quick", THOROUGH // 4), ("thorough", THOROUGH)):
    settings.register_profile(
        name, max_examples=most, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile("quick")

# the tests start many processes: what the first one compiles, the others find
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# core 0.13 ships NLTK's data and yet downloads it, unless told where it lies
core = find_spec("llama_index.core")
if core and core.origin:
    os.environ.setdefault("NLTK_DATA", str(Path(core.origin).parent / "_static" / "nltk_cache"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of modules that import LlamaIndex are marked `core`."""
    paths = {item.path for item in items}
    meet_core = {path for path in paths if MEETS_CORE.search(path.read_text(encoding="utf-8"))}
    for item in items:
        if item.path in meet_core:
            item.add_marker(pytest.mark.core)


@pytest.fixture(scope="module")  # its event loop runs on in the test process until it is closed
def browser() -> Iterator[Any]:
    pytest.importorskip("playwright", reason="needs playwright: pip install '.[dev]'")
    if CHROMIUM is None and "RAG_METRICS_CI" not in os.environ:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    assert CHROMIUM is not None, "CI has Chromium"
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield running
        running.close()


@pytest.fixture
def open_report(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Tab]]:
    yield from opened_tabs(browser, tmp_path)
