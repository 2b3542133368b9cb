"""Golden texts: what is shown, as it was read and found right; UPDATE_GOLDEN=1 writes them anew."""

import os
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "golden"


def check_golden(name: str, texts: Iterable[str]) -> None:
    path, text = FOLDER / name, "".join(f"{text}\n" for text in texts)
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
