"""What pages that work offline carry: files of the package, and scripts by their digests."""

from __future__ import annotations

import base64
from hashlib import sha256
from importlib.resources import files


def asset(name: str, package: str = __package__) -> str:
    return (files(package) / name).read_text(encoding="utf-8")


def script_source(script: str) -> str:
    """What a policy calls a script that it allows."""
    digest = base64.b64encode(sha256(script.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"
