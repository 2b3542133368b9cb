"""Matched: what a matcher made of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llama_index_rag_metrics.cache import Usage
from llama_index_rag_metrics.relevance import Relevance
from llama_index_rag_metrics.run import Run
from llama_index_rag_metrics.span import Span


@dataclass(frozen=True)
class Matched:
    """What a matcher made of a run: rankings of expected ids, and what they are judged by.

    Attributes:
        matcher: the matcher's name.
        run: the rankings that are judged: expected ids, and the own ids of what covers nothing.
        relevance: query id to relevance; expected items known by text alone have ids of their own.
        stands_for: query id to, for each retrieved item, the ids that it stands for: of the
            expected items that it covers, or its own.
        passages: query id to expected id to its text or span, where it is known.
        errors: query id to error, where the matcher failed.
        notes: what a reader of the scores should know.
        label_note: that nothing was recognised at all, where so.
        usage: what the matcher asked of a model; None where nothing.

    Examples:
        >>> from llama_index.core.schema import NodeWithScore, TextNode
        >>> from llama_index_rag_metrics import RetrievalDataset, evaluate
        >>> dataset = RetrievalDataset({"q1": "x?"}, expected_texts={"q1": ["Geysers."]})
        >>> node = TextNode(id_="new id", text="It has geysers. Geysers.")
        >>> retrieved = [NodeWithScore(node=node)]
        >>> results = evaluate(lambda query: retrieved, dataset, ["mrr"], matcher="text")
        >>> [matched] = results.matched.values()
        >>> matched.matcher, matched.passages["q1"]
        ('text', {'expected text 1': 'Geysers.'})
    """

    matcher: str
    run: Run
    relevance: Mapping[str, Relevance]
    stands_for: Mapping[str, list[list[str]]]
    passages: Mapping[str, Mapping[str, str | Span]]
    errors: Mapping[str, str]
    notes: tuple[str, ...] = ()
    label_note: str | None = None
    usage: Usage | None = None
