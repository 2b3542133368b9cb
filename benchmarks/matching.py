"""Matching by text: 1,000 queries of 50 retrieved and 5 expected texts of 1,000 characters."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from rich.table import Table

from llama_index_rag_metrics import ContainmentMatcher, TextMatcher

LATIN = "abcdefghijklmnopqrstuvwxyz"
HAN = "".join(map(chr, range(0x4E00, 0x4E00 + 3000)))

Query = tuple[list[str], list[str]]


def documents(alphabet: str, n_characters: int, seed: int) -> str:
    """One long text of words drawn as natural ones are, few of them often."""
    rng = random.Random(seed)
    longest, gap = (10, " ") if alphabet == LATIN else (3, "")
    vocabulary = ["".join(rng.choices(alphabet, k=rng.randint(1, longest))) for _ in range(20_000)]
    weights = [1 / rank for rank in range(1, len(vocabulary) + 1)]
    return gap.join(rng.choices(vocabulary, weights, k=n_characters // (longest // 2)))


def disjoint(text: str, rng: random.Random) -> Query:
    """Chunks from all over, three of the passages among them."""
    starts = [rng.randrange(len(text) - 1000) for _ in range(52)]
    chunks = [text[start : start + 1000] for start in starts]
    return chunks[:5], [*chunks[:3], *chunks[5:]]


def alike(text: str, rng: random.Random) -> Query:
    """Every chunk is the beginning of one of the passages, and ends as it likes."""
    starts = [rng.randrange(len(text) - 1000) for _ in range(5)]
    passages = [text[start : start + 1000] for start in starts]
    retrieved = []
    for _ in range(50):
        kept, other = rng.randrange(600, 950), rng.randrange(len(text) - 1000)
        retrieved.append(rng.choice(passages)[:kept] + text[other : other + 1000 - kept])
    return passages, retrieved


def seconds(matcher: TextMatcher, queries: Sequence[Query]) -> float:
    start = time.perf_counter()
    for expected, retrieved in queries:
        matcher.match(expected, retrieved)
    return time.perf_counter() - start


def matching_table(n_queries: int = 1000) -> Table:
    """The matcher once over each kind of queries; no text is seen twice."""
    table = Table(title=f"Matching by text, {n_queries:,} queries × 50 × 5 × 1,000 characters")
    table.add_column("queries")
    table.add_column("seconds", justify="right")
    kinds: dict[str, tuple[str, Callable[[str, random.Random], Query]]] = {
        "English, chunks from all over": (LATIN, disjoint),
        "English, chunks like the passages": (LATIN, alike),
        "Chinese, chunks like the passages": (HAN, alike),
    }
    for kind, (alphabet, make) in kinds.items():
        text, rng = documents(alphabet, 2_000_000, seed=7), random.Random(0)
        queries = [make(text, rng) for _ in range(n_queries)]
        table.add_row(kind, f"{seconds(ContainmentMatcher(), queries):.1f}")
    return table


if __name__ == "__main__":
    from rich.console import Console

    Console(width=120).print(matching_table())
