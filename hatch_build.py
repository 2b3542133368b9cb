"""The README as the description of the package: elsewhere, what leads into the copy is dead."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"!\[[^\]]*\]\((?!https:)[^)]*\)\n\n?")
LINK = re.compile(r"\[([^\]]+)\]\((?!https:)[^)]*\)")
MARKER = re.compile(r"<!--.*?-->\n?")


def description(readme: str) -> str:
    """The text without pictures and links that lead into the copy, and without markers."""
    for pattern, instead in ((PICTURE, ""), (LINK, r"\1"), (MARKER, "")):
        readme = pattern.sub(instead, readme)
    return readme


class Description(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": description(text)}
