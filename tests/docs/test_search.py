"""What readers type into the site's search, and the page that answers it, first or second.

Needs a built site: `RAG_METRICS_SITE=site`, after `python -m sphinx docs site`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

SITE = Path(os.environ.get("RAG_METRICS_SITE", ""))
pytestmark = [
    pytest.mark.site,
    pytest.mark.skipif(
        "RAG_METRICS_SITE" not in os.environ, reason="needs RAG_METRICS_SITE, a built site"
    ),
]

SEARCHES = {
    "agent": "howto/agents tutorials/an-agent howto/comparing-agents",
    "api key": "howto/text-metrics howto/llm-judge",
    "baseline.json": "howto/gate",
    "beir": "howto/collections",
    "chat history": "howto/who-asks",
    "chunk size": "howto/chunk-sizes",
    "cohere api key": "howto/text-metrics",
    "confidence interval": "statistics",
    "contribute a metric": "howto/own-metric contributing",
    "exit codes": "howto/command-line",
    "export pandas": "howto/exporting",
    "flaky": "howto/repeats",
    "github actions": "tutorials/in-ci howto/gate",
    "hyperparameter tuning": "howto/sweeps",
    "ids don't match": "howto/text-matching howto/reingestion",
    "json schema": "howto/coding-agents",
    "langchain": "howto/langchain",
    "latex": "howto/exporting",
    "mean reciprocal rank": "definitions",
    "ndcg formula": "definitions",
    "no measurable difference": "statistics howto/report",
    "ollama": "howto/llm-judge",
    "openai embeddings": "howto/comparing",
    "opentelemetry": "howto/traces",
    "python 3.14": "compatibility",
    "pytest": "howto/gate tutorials/in-ci",
    "qdrant": "howto/stores",
    "ragas": "howto/ragas coming-from",
    "rate limit": "howto/long-runs howto/llm-judge",
    "recall within 2000 tokens": "howto/token-budgets",
    "reranker worth it": "howto/comparing howto/losses",
    "significance test": "statistics",
    "timeout": "howto/long-runs",
    "token limit": "howto/token-budgets",
    "too many requests": "howto/long-runs howto/llm-judge",
    "trec_eval": "coming-from howto/files",
}

TASKS = {
    "compare two embedding models": "howto/comparing",
    "evaluate without labels": "tutorials/without-labels howto/text-metrics",
    "export to excel": "howto/exporting",
    "generate questions from documents": "tutorials/without-labels howto/labels",
    "getting started": "tutorials/first-decision",
    "how many questions do I need": "statistics",
    "is my llm judge any good": "howto/llm-judge",
    "keep labels after reindexing": "howto/reingestion",
    "label passages by hand": "howto/review howto/labels",
    "questions without an answer": "howto/unanswerable",
    "resume after a crash": "howto/long-runs",
    "stop a pull request that makes retrieval worse": "howto/gate tutorials/in-ci",
    "where was the passage lost": "howto/losses",
    "which metric should I use": "which-metric",
    "why did a question fail": "howto/report",
    "without llamaindex": "howto/without-llamaindex",
    "write my own metric": "howto/own-metric",
    "cite a number in a paper": "howto/report",
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The site on loopback: scripts may not read files."""
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def pages_found(browser: Any, address: str, query: str) -> list[str]:
    tab = browser.new_page()
    tab.goto(f"{address}/search.html?q={quote(query)}")
    tab.wait_for_selector("#search-results h2")
    links = tab.locator("#search-results li > div > a").all()
    paths = [urlsplit(link.get_attribute("href") or "").path for link in links]
    tab.close()
    return [path.strip("/").removesuffix(".html") for path in paths]


@pytest.mark.parametrize(("query", "right"), [*SEARCHES.items(), *TASKS.items()])
def test_the_right_page_is_first_or_second(
    browser: Any, address: str, query: str, right: str
) -> None:
    found = pages_found(browser, address, query)
    assert {*found[:2]} & {*right.split()}, found[:5]


def test_nothing_found_is_said(browser: Any, address: str) -> None:
    assert pages_found(browser, address, "ζέφυρος ξυλόφωνο") == []


def test_pages_opened_as_files_are_searched_by_sphinx(browser: Any) -> None:
    tab = browser.new_page()
    tab.goto(f"{(SITE / 'search.html').resolve().as_uri()}?q=qdrant")
    first = tab.locator("#search-results ul.search > li > a").first
    first.wait_for()
    assert first.get_attribute("href")
    tab.close()
