"""Draw the picture of the README anew: `python docs/pictures/draw.py` (extra `dev`, and Chromium).

It runs the README's first lines of code, and shows parts of their report as Chromium does.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).parent
README = HERE.parent.parent / "README.md"
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)
QUESTION = "May my 3D model keep going"
WIDTH, MARGIN = 1000, 10


def shown(tab: Page, first: str, most: int) -> Image.Image:
    """The page from an element's top on, as wide as it is."""
    tab.evaluate("scrollTo(0, 0)")
    box = tab.locator(first).first.bounding_box()
    assert box is not None
    part = {"x": 0.0, "y": box["y"] - MARGIN, "width": WIDTH, "height": min(box["height"], most)}
    part["height"] += 2 * MARGIN
    return Image.open(BytesIO(tab.screenshot(clip=part, full_page=True)))  # type: ignore[arg-type]


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    [code, *_] = CODE.findall(README.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        os.chdir(folder)
        exec(code, {})
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": 1200})
        tab.goto(Path(folder, "report.html").as_uri())
        tab.wait_for_selector("#plots[data-ready]")
        tab.fill("#search", QUESTION)
        tab.locator("button.unfold", has_text=QUESTION).click()
        tab.locator(".sides").wait_for()
        parts = [shown(tab, "section", 400), shown(tab, "#queries", 620)]
        os.chdir(HERE)
        browser.close()
    whole = Image.new("RGB", (WIDTH, sum(part.height for part in parts)))
    whole.paste(parts[0], (0, 0))
    whole.paste(parts[1], (0, parts[0].height))
    whole.save(HERE / "report.png", optimize=True)


if __name__ == "__main__":
    main()
