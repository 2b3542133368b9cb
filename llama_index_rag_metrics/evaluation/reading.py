"""Answers as rankings: the ids that labels name, texts, spans, tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore

from llama_index_rag_metrics.files.conversations import HISTORY
from llama_index_rag_metrics.files.records import plain_score
from llama_index_rag_metrics.rankings.judging.beside import SPANS, needs_of
from llama_index_rag_metrics.rankings.matching.id_matcher import (
    NODE_ID,
    REF_DOC_ID,
    LabelCheck,
    item_id,
    names_of,
)
from llama_index_rag_metrics.rankings.matching.matched import BY_SPAN
from llama_index_rag_metrics.rankings.run import Ranking, combine_calls
from llama_index_rag_metrics.rankings.span import Span, node_span
from llama_index_rag_metrics.runtime.errors import InvalidInput

from .capturing import as_call
from .plan import Plan
from .question import Answer, as_nodes, scores_and_texts

_WITHOUT_HISTORY = (
    "questions have a history, which this retriever takes no account of: chat engines, agents and "
    "functions with a parameter metadata do"
)
_NAN = (
    "scores of some passages are NaN, which counts as none: what was sorted by them may be in any "
    "order"
)


class AnswerReader:
    """Makes rankings of answers, and watches whether they have what the labels name.

    Attributes:
        notes: what a reader of the results should know of the answers.
        labels: whether the ids that came are of the kind that the labels name.
    """

    def __init__(self, plan: Plan, context: str) -> None:
        self._match_on, self._dataset, self._counter = plan.match_on, plan.dataset, plan.counter
        names: set[str] = set()
        if plan.compares_ids:
            names.update(*plan.dataset.relevance.values())
        self.labels = LabelCheck(names, plan.match_on, plan.dataset.corpus)
        self.notes: dict[str, None] = {}
        has_history = any(row.get(HISTORY) for row in plan.dataset.metadata.values())
        if has_history and not context:
            self.notes[_WITHOUT_HISTORY] = None
        needs = needs_of(plan.metrics)
        self._needs_tokens = "tokens" in needs
        self._searches_spans = plan.matcher == BY_SPAN or SPANS in needs

    def read(self, answer: Answer) -> Ranking:
        """The ranking of an answer; what it tells of labels and notes is remembered."""
        self.notes.update(dict.fromkeys(answer.notes))
        if answer.calls is None and self._are_ids(answer.items):
            ids = [str(item) for item in answer.items]
            self.labels.see(ids, [(NODE_ID, item) for item in ids])
            return self._ranking_of_ids(ids)
        nodes = answer.nodes()
        if answer.calls is None:
            ranking = self.ranking(nodes)
        else:
            calls = [as_call(retrieval, self.ranking) for retrieval in answer.calls]
            ranking = combine_calls(calls)
        if any(plain_score(node.score) != node.score for node in nodes):
            self.notes[_NAN] = None
        self.labels.see(ranking.ids, names_of(nodes))
        return ranking

    def ranking(self, nodes: Sequence[NodeWithScore]) -> Ranking:
        """The ranking of nodes."""
        tokens = None
        if self._counter is not None:
            prompts = [node.node.get_content(MetadataMode.LLM) for node in nodes]
            tokens = self._counter.count(prompts)
        return Ranking(
            ids=[item_id(node, self._match_on) for node in nodes],
            spans=[self._span(node.node) for node in nodes],
            tokens=tokens,
            **scores_and_texts(nodes),
        )

    def filled(self, ranking: Ranking) -> Ranking:
        """The ranking with the texts of the corpus for items that have none of their own."""
        corpus, counter = self._dataset.corpus, self._counter
        is_filled = [bool(text) for text in ranking.texts or ()]
        if all(is_filled) or (counter is None and not corpus):
            return ranking
        texts = list(ranking.texts or ())
        for position, item in enumerate(ranking.ids):
            if not texts[position] and item in corpus:
                texts[position] = self._dataset.indexed_text(item)
        if counter is None:
            return replace(ranking, texts=texts)
        if "" in texts:
            self._check_tokens_are_needless(ranking.ids[texts.index("")])
            return replace(ranking, texts=texts, tokens=None)
        tokens = list(ranking.tokens or counter.count(texts))
        for position, text in enumerate(texts):
            if not is_filled[position]:
                [tokens[position]] = counter.count([text])
        return replace(ranking, texts=texts, tokens=tokens)

    def _are_ids(self, items: Sequence[Any]) -> bool:
        """Whether an answer is bare ids, and these are what labels name."""
        is_by_id = self._match_on in (NODE_ID, REF_DOC_ID)
        return is_by_id and bool(items) and set(map(type, items)) == {str}

    def _ranking_of_ids(self, ids: Sequence[str]) -> Ranking:
        if self._searches_spans or self._counter is not None:
            return self.ranking(as_nodes(ids))
        n = len(ids)
        return Ranking(ids, [None] * n, [""] * n, spans=[None] * n)

    def _span(self, node: BaseNode) -> Span | None:
        if self._searches_spans:
            return searched_span(node, self._dataset.corpus)
        return node_span(node)

    def _check_tokens_are_needless(self, item: str) -> None:
        """Refuse a passage without a text where a metric counts tokens."""
        if self._needs_tokens:
            expected = "a text, whose tokens can be counted"
            remedy = "Return nodes that have texts, or give the dataset a corpus that has them."
            raise InvalidInput(f"retrieved {item!r}", "", expected, remedy)


def searched_span(node: BaseNode, corpus: Mapping[str, str]) -> Span | None:
    """Which characters of which document a node holds: by its own offsets, or by its text."""
    span, document = node_span(node), node.ref_doc_id or node.node_id
    text, full_text = node.get_content(), corpus.get(document)
    is_part = node.ref_doc_id is not None
    if not full_text:
        return span
    if is_part and span is not None and full_text[span.start : span.end] == text:
        return span
    if full_text.strip() in text or not (text or is_part):
        return Span(document, 0, len(full_text))
    text = text.strip()
    start = full_text.find(text) if text else -1
    if start >= 0:
        return Span(document, start, start + len(text))
    if not is_part or span is None or span.start >= len(full_text):
        return None
    # a node of a document with a title exceeds it by a line
    return span._replace(end=min(span.end, len(full_text)))
