"""The folder of `--journal`: one file a retriever, with the depth of its rankings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from llama_index_rag_metrics.runtime.errors import JournalMismatch
from llama_index_rag_metrics.runtime.journal import read_fingerprint


def journal_of(folder: Path, name: str) -> Path:
    """The journal of the retriever of that name."""
    return folder / f"{file_safe(name)}.jsonl"


def file_safe(name: str) -> str:
    """The name of a retriever as a part of a file's name."""
    return re.sub(r"[^\w.-]+", "-", name)


def kept_depths(folder: Path | None, names: Mapping[str, str]) -> dict[str, int]:
    """How many nodes an earlier call retrieved, by retriever, where there is a journal of it."""
    depths: dict[str, int] = {}
    for name, spec in names.items():
        kept = {} if folder is None else read_fingerprint(journal_of(folder, name))
        if kept.get("retriever") == spec and kept.get("depth", "").isdecimal():
            depths[name] = int(kept["depth"])
    return depths


def fitting_depth(kept: Mapping[str, int], cutoffs: Iterable[int]) -> int | None:
    """The depth of all journals, where it is one and enough for every cutoff."""
    depths = set(kept.values())
    return depths.pop() if len(depths) == 1 and min(depths) >= max(cutoffs, default=0) else None


def check_depths(folder: Path | None, kept: Mapping[str, int], top_k: int) -> None:
    """Refuse journals of another depth before any query runs, and say how to continue them."""
    for name, depth in kept.items():
        if folder is not None and depth != top_k:
            remedy = "Give this run a folder of its own."
            if set(kept.values()) == {depth}:
                remedy = f"--top-k {depth} continues it; or give this run a folder of its own."
            path = str(journal_of(folder, name))
            raise JournalMismatch(path, {"depth": (str(depth), str(top_k))}, remedy)
