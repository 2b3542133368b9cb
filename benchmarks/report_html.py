"""Size of a large HTML report, and seconds until it is open in Chromium.

`python benchmarks/report_html.py [CHROMIUM]`: 5,000 queries × 2 systems × 10 retrieved, 100,000
distinct texts of 800 characters. The words are drawn by Zipf's law from 20,000 that are made up of
letters: harder to compress than English, since nothing follows from the word before.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from llama_index_rag_metrics import (
    Comparison,
    EvaluationResults,
    Ranking,
    Relevance,
    Run,
    compare,
    score_rankings,
    write_html,
)

QUERIES, RETRIEVED, CHARACTERS, WORDS = 5_000, 10, 800, 20_000
METRICS = ["ndcg@10", "recall@5", "mrr@10", "ap@10", "precision@5", "hit_rate@5"]
CHROMIUM = "/usr/bin/chromium"
OPENED = "#plots[data-ready]"
"""Set when the table of queries and every plot are drawn: the last thing that the page does."""


def texts(rng: np.random.Generator, number: int) -> list[str]:
    """So many texts of made-up words."""
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    share = 1 / np.arange(2, len(letters) + 2) ** 0.8
    lengths = np.maximum(2, rng.gamma(6, 1.1, WORDS).astype(int))
    words = np.array(
        ["".join(rng.choice(letters, length, p=share / share.sum())) for length in lengths]
    )
    chance = 1 / np.arange(1, WORDS + 1)
    drawn = rng.choice(words, (number, CHARACTERS // 4), p=chance / chance.sum())
    return [" ".join(row)[:CHARACTERS] for row in drawn]


def made() -> Comparison:
    """Two systems that retrieve nothing in common."""
    rng = np.random.default_rng(5)
    passages = iter(texts(rng, QUERIES * 2 * RETRIEVED))
    query_ids = [f"query-{at}" for at in range(QUERIES)]
    queries = dict(zip(query_ids, (one[:60] for one in texts(rng, QUERIES)), strict=True))
    relevance = {one: Relevance({f"{one}-0-{int(rng.integers(10))}": 2}) for one in query_ids}
    systems = {}
    for system in range(2):
        run = Run(
            {
                one: Ranking(
                    [f"{one}-{system}-{rank}" for rank in range(RETRIEVED)],
                    texts=[next(passages) for _ in range(RETRIEVED)],
                    latency=float(rng.gamma(3, 0.01)),
                )
                for one in query_ids
            }
        )
        scores = score_rankings(relevance, run, METRICS, queries=queries)
        systems[f"system-{system}"] = EvaluationResults(
            [], run=run, relevance=relevance, scores=scores
        )
    return compare(systems, "system-0")


def seconds_to_open(page: Path, chromium: str) -> float:
    """From the navigation until everything is drawn, in a browser that runs already."""
    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=chromium, args=options)
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        start = time.perf_counter()
        tab.goto(page.as_uri())
        tab.wait_for_selector(OPENED)
        opened = time.perf_counter() - start
        browser.close()
    return opened


def main(chromium: str = CHROMIUM) -> None:
    comparison = made()
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        page = write_html(comparison, Path(folder) / "report.html")
        wrote = time.perf_counter() - start
        megabytes = page.stat().st_size / 1e6
        opened = sorted(seconds_to_open(page, chromium) for _ in range(3))
    print(f"{len(comparison.query_ids):,} queries, {QUERIES * 2 * RETRIEVED:,} texts")
    print(f"written in {wrote:.1f} s, {megabytes:.1f} MB")
    print(f"open in Chromium after {', '.join(f'{one:.2f}' for one in opened)} s (three tries)")


if __name__ == "__main__":
    main(*sys.argv[1:])
