"""What a page carries, read as its script reads it."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any


def unpacked(chunk: str) -> Any:
    """The inverse of `packed`."""
    return json.loads(gzip.decompress(base64.b64decode(chunk)))
