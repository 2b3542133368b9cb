"""An evaluation in the traces of others: a span a question, and nothing where no one looks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llama_index.core.schema import TextNode
from llama_index.retrievers.bm25 import BM25Retriever

from llama_index_rag_metrics import evaluate

DATASET = {"queries": {"q1": "saturn", "q2": "mars"}, "relevant_docs": {"q1": ["a"], "q2": ["b"]}}


def retriever() -> BM25Retriever:
    nodes = [TextNode(id_="a", text="saturn"), TextNode(id_="b", text="mars")]
    return BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=1)  # type: ignore[arg-type]


class Tagged(BaseEventHandler):
    """Keeps which questions events were tagged with."""

    seen: set[str] = set()

    def handle(self, event: Any, **_: Any) -> None:
        self.seen.add(event.tags.get("rag_metrics.query_id", "none"))


@pytest.fixture
def traced() -> Iterator[tuple[SimpleSpanHandler, Tagged]]:
    root = get_dispatcher()
    spans, events = SimpleSpanHandler(), Tagged()
    before = list(root.span_handlers), list(root.event_handlers)
    root.add_span_handler(spans)
    root.add_event_handler(events)
    yield spans, events
    root.span_handlers, root.event_handlers = before


def test_each_question_is_a_span_around_its_retrieval(traced: Any) -> None:
    spans, events = traced
    evaluate(retriever(), DATASET, ["mrr"], workers=2)
    questions = {span.id_: span for span in spans.completed_spans if "evaluate-" in span.id_}
    assert len(questions) == 2
    retrievals = [span for span in spans.completed_spans if "retrieve-" in span.id_]
    assert {span.parent_id for span in retrievals if span.parent_id in questions} == set(questions)
    assert events.seen == {"q1", "q2"}


def test_nobody_pays_where_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    from llama_index_rag_metrics.evaluation import ask_all as tracing

    def fail(*_: Any) -> None:
        raise AssertionError("a span that nobody sees")

    monkeypatch.setattr(tracing, "EvaluatedQuestion", fail)
    root = get_dispatcher()
    monkeypatch.setattr(root, "span_handlers", [])  # others may have left some
    monkeypatch.setattr(root, "event_handlers", [])
    assert evaluate(retriever(), DATASET, ["mrr"]).scores.means["mrr"] == 1.0
