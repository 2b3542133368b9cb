"""What readers type into the site's search, and the page that answers it, first or second.

Needs a built site: `RAG_METRICS_SITE=site`, after `python -m sphinx docs site`.
"""

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
    "agent": "tutorials/an-agent compare",
    "api key": "without-labels",
    "baseline.json": "gate",
    "beir": "data",
    "chat history": "evaluate",
    "chunk size": "without-labels",
    "cohere api key": "without-labels",
    "confidence interval": "statistics",
    "contribute a metric": "own-metric architecture",
    "exit codes": "command-line",
    "export pandas": "data",
    "flaky": "tutorials/an-agent",
    "github actions": "tutorials/in-ci gate",
    "hyperparameter tuning": "choose",
    "ids don't match": "labels",
    "json schema": "command-line",
    "langchain": "coming-from",
    "latex": "data",
    "mean reciprocal rank": "definitions",
    "ndcg formula": "definitions",
    "no measurable difference": "statistics report",
    "ollama": "without-labels",
    "openai embeddings": "compare",
    "opentelemetry": "traces",
    "python 3.14": "architecture",
    "pytest": "gate tutorials/in-ci",
    "qdrant": "evaluate",
    "ragas": "coming-from",
    "rate limit": "evaluate without-labels",
    "recall within 2000 tokens": "evaluate",
    "reranker worth it": "compare choose",
    "significance test": "statistics",
    "timeout": "evaluate",
    "token limit": "evaluate",
    "too many requests": "evaluate without-labels",
    "trec_eval": "coming-from data",
}

TASKS = {
    "compare two embedding models": "compare",
    "evaluate without labels": "tutorials/without-labels without-labels",
    "export to excel": "data",
    "generate questions from documents": "tutorials/without-labels labels",
    "getting started": "tutorials/first-decision",
    "how many questions do I need": "statistics",
    "is my llm judge any good": "without-labels",
    "keep labels after reindexing": "labels",
    "label passages by hand": "labels",
    "questions without an answer": "evaluate",
    "resume after a crash": "evaluate",
    "stop a pull request that makes retrieval worse": "gate tutorials/in-ci",
    "where was the passage lost": "choose",
    "which metric should I use": "definitions",
    "why did a question fail": "report",
    "without llamaindex": "evaluate",
    "write my own metric": "own-metric",
    "cite a number in a paper": "report",
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
def test_right_page_is_first_or_second(browser: Any, address: str, query: str, right: str) -> None:
    found = pages_found(browser, address, query)
    assert {*found[:2]} & {*right.split()}, found[:5]


def test_search_that_finds_nothing_says_so(browser: Any, address: str) -> None:
    assert pages_found(browser, address, "ζέφυρος ξυλόφωνο") == []


def test_pages_opened_as_files_are_searched_by_sphinx(browser: Any) -> None:
    tab = browser.new_page()
    tab.goto(f"{(SITE / 'search.html').resolve().as_uri()}?q=qdrant")
    first = tab.locator("#search-results ul.search > li > a").first
    first.wait_for()
    assert first.get_attribute("href")
    tab.close()
