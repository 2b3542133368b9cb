"""What the theme leaves out: levels of its headings, and what a keyboard can scroll."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ADDED = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    '<summary aria-label="Toggle hidden content">': "<summary>",
}


def mend(app: Any, exception: Exception | None) -> None:
    """Add the attributes to every page, once all are written."""
    if exception is None and app.builder.format == "html":
        for path in Path(app.outdir).rglob("*.html"):
            text = path.read_text(encoding="utf-8")
            for without, with_attribute in ADDED.items():
                text = text.replace(without, with_attribute)
            path.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    """Register the hook."""
    app.connect("build-finished", mend)
    return {"version": "1", "parallel_read_safe": True}
