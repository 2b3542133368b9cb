"""Draw the picture of the report anew: `python docs/pictures/draw.py` (extra `dev`, and Chromium).

It is the report of `rag-metrics demo --html`, as Chromium shows it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

PICTURE = Path(__file__).with_name("report.png")
DRAWN = "#plots[data-ready]"


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder, "demo.html")
        demo = ["-m", "llama_index_rag_metrics", "demo", "--no-progress", "--html", str(page)]
        subprocess.run([sys.executable, *demo], check=True, stdout=subprocess.DEVNULL)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1100, "height": 1340})
        tab.goto(page.as_uri())
        tab.wait_for_selector(DRAWN)
        tab.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main()
