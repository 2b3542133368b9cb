"""A real Chromium, and axe-core in it; what is absent skips the test, except in CI."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
AA = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]


def axe_violations(page: Any, rules: list[str]) -> list[tuple[str, list[str]]]:
    """The rules that the page breaks, each with the elements that break it.

    The context of the page must be made with `bypass_csp=True`.
    """
    page.evaluate(_axe())
    violations = page.evaluate(f"axe.run(document, {{ runOnly: {rules} }})")["violations"]
    return [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in violations]


@cache
def _axe() -> str:
    """The script of axe-core, which npm installs."""
    npm = shutil.which("npm")
    folder = ""
    if npm:
        asked = [npm, "root", "-g"]
        folder = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    script = Path(folder) / "axe-core" / "axe.min.js"
    if not script.is_file():
        assert "RAG_METRICS_CI" not in os.environ, "CI has axe-core"
        pytest.skip("needs axe-core: npm install -g axe-core@4")
    return script.read_text(encoding="utf-8")
