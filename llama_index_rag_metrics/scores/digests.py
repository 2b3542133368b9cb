"""A digest of a ranking, by which the gate tells an unchanged system."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256

_DIGITS = 12


def ranking_digest(ids: Sequence[str]) -> str:
    """A short digest of the ids and their order: two rankings that share it are identical."""
    text = json.dumps(list(map(str, ids)), separators=(",", ":"))
    return sha256(text.encode("ascii")).hexdigest()[:_DIGITS]
