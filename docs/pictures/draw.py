"""Draw the picture of the README anew: `python docs/pictures/draw.py` (extra `dev`, and Chromium).

It runs the README's first lines of code, and shows parts of their report as Chromium does.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
README = HERE.parent.parent / "README.md"
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)
QUESTION = "May my 3D model keep going"
WIDTH, MOST = 1100, 1300


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    [code, *_] = CODE.findall(README.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        os.chdir(folder)
        exec(code, {})
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": 900})
        tab.goto(Path(folder, "report.html").as_uri())
        tab.locator("input[type=search]").fill(QUESTION)
        tab.locator("details.q:visible > summary").click()
        end = tab.evaluate(
            "document.getElementById('rag-questions').getBoundingClientRect().bottom"
        )
        clip = {"x": 0.0, "y": 0.0, "width": float(WIDTH), "height": min(end + 10, MOST)}
        tab.screenshot(path=HERE / "report.png", clip=clip, full_page=True)  # type: ignore[arg-type]
        os.chdir(HERE)
        browser.close()


if __name__ == "__main__":
    main()
