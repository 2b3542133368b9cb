"""Size of a large HTML report, and seconds until it is open in Chromium.

`python benchmarks/report_html.py [CHROMIUM]`: 5,000 queries × 2 systems × 10 retrieved, 100,000
distinct texts of 800 characters. The words are drawn by Zipf's law from 20,000 that are made up of
letters: harder to compress than English, since nothing follows from the word before.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

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
)

QUERIES, RETRIEVED, CHARACTERS, WORDS = 5_000, 10, 800, 20_000
METRICS = ["ndcg@10", "recall@5", "mrr@10", "ap@10", "precision@5", "hit_rate@5"]
CHROMIUM = "/usr/bin/chromium"
TABLE, PLOTS = "#all-queries[data-ready]", "#plots[data-ready]"
"""There when the table of queries can be used, and when every plot is drawn."""


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
    query_ids = [f"query-{number}" for number in range(QUERIES)]
    queries = dict(zip(query_ids, (text[:60] for text in texts(rng, QUERIES)), strict=True))
    relevance = {
        query_id: Relevance({f"{query_id}-0-{int(rng.integers(10))}": 2}) for query_id in query_ids
    }
    systems = {}
    for system in range(2):
        run = Run(
            {
                query_id: Ranking(
                    [f"{query_id}-{system}-{rank}" for rank in range(RETRIEVED)],
                    texts=[next(passages) for _ in range(RETRIEVED)],
                    latency=float(rng.gamma(3, 0.01)),
                )
                for query_id in query_ids
            }
        )
        scores = score_rankings(relevance, run, METRICS).replace(queries=queries)
        systems[f"system-{system}"] = EvaluationResults([], scores=scores)
    return compare(systems, "system-0")


def seconds_to_open(page: Path, chromium: str) -> tuple[float, float, float]:
    """From the navigation to the first paint, the table and the last plot, in a running browser."""
    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=chromium, args=options)
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        start = time.perf_counter()
        tab.goto(page.as_uri())
        tab.wait_for_selector(TABLE)
        usable = time.perf_counter() - start
        tab.wait_for_selector(PLOTS)
        drawn = time.perf_counter() - start
        painted = tab.evaluate("performance.getEntriesByType('paint')[0].startTime") / 1000
        browser.close()
    return painted, usable, drawn


def main(chromium: str = CHROMIUM) -> None:
    comparison = made()
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        page = comparison.to_html(Path(folder) / "report.html")
        wrote = time.perf_counter() - start
        megabytes = page.stat().st_size / 1e6
        tries = [seconds_to_open(page, chromium) for _ in range(5)]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end")
    print(f"{QUERIES:,} queries, {QUERIES * 2 * RETRIEVED:,} texts of {CHARACTERS} characters")
    print(f"written in {wrote:.1f} s, {megabytes:.1f} MB")
    steps = ("verdict painted", "table usable", "all plots drawn")
    for what, seconds in zip(steps, zip(*tries, strict=True), strict=True):
        print(f"{what} after {median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})")


if __name__ == "__main__":
    main(*sys.argv[1:])
