"""A passage to be judged, a judgement of it, and files of such lines."""

import json
from pathlib import Path
from typing import Any

ITEM = {"query_id": "q", "query": "Who?", "doc_id": "d", "text": "She."}
JUDGED = {"query_id": "q", "doc_id": "d", "grade": 2}


def write(path: Path, *lines: Any) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path
