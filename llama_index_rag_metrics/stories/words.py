"""Words that all reports share: a list of names, a sentence, what holds for which system."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llama_index_rag_metrics.report.escape import terminal


def listed(names: Sequence[str], most: int = 3) -> str:
    """Names in words, the last ones as a number."""
    words = [*map(terminal, map(str, names))]
    if len(words) > most:
        words = [*words[: most - 1], f"{len(names) - most + 1} more"]
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def by_holder(pairs: Iterable[tuple[str, str]], n: int, most: int = 3) -> list[str]:
    """Each text once, after the names that it holds for unless these are all n."""
    holders: dict[str, dict[str, None]] = {}
    for text, holder in pairs:
        holders.setdefault(text, {})[holder] = None
    lines = []
    for text, names in holders.items():
        if len(names) == n:
            lines.append(text)
        else:
            lines.append(f"{listed([*names], most)}: {text}")
    return lines
