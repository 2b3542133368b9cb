"""Answers as rankings: the ids that labels name, texts, places, tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore

from llama_index_rag_metrics.files.conversations import HISTORY
from llama_index_rag_metrics.files.runs.run_records import plain_score
from llama_index_rag_metrics.rankings.matching.id_matcher import (
    NODE_ID,
    REF_DOC_ID,
    LabelCheck,
    item_ids,
    names_of,
)
from llama_index_rag_metrics.rankings.run import Ranking, combine_calls
from llama_index_rag_metrics.rankings.span import Span, node_span
from llama_index_rag_metrics.runtime.errors import InvalidInput

from .capturing import as_call
from .nodes import as_nodes, node_texts
from .plan import Plan
from .question import Answer, Context, Question

WITHOUT_HISTORY = (
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

    def __init__(self, plan: Plan, context: Context | None, *, compares_ids: bool = True) -> None:
        self._plan, self._context = plan, context
        dataset = plan.dataset
        names: set[str] = set()
        if compares_ids:
            names.update(*dataset.relevance.values())
        self.labels = LabelCheck(names, plan.match_on, dataset.corpus)
        self.notes: dict[str, None] = {}
        needs_texts = (getattr(metric, "needs", ()) for metric in plan.metrics)
        self._needs_tokens = any("tokens" in needs for needs in needs_texts)

    def read(self, question: Question, answer: Answer) -> Ranking:
        """The ranking of an answer; what it tells of labels and notes is remembered."""
        notes = dict.fromkeys(answer.notes)
        if self._context is None and question.metadata.get(HISTORY):
            notes[WITHOUT_HISTORY] = None
        if answer.calls is not None:
            calls = tuple(as_call(retrieval, self.ranking) for retrieval in answer.calls)
            ranking = combine_calls(calls)
            nodes = [node for retrieval in answer.calls for node in retrieval.nodes or ()]
        elif self.are_ids(answer.items):
            nodes = []
            ranking = self._ranking_of_ids(answer.items)
        else:
            nodes = as_nodes(answer.items)
            ranking = self.ranking(nodes)
        if any(plain_score(node.score) != node.score for node in nodes):
            notes[_NAN] = None
        self.notes.update(notes)
        self.labels.see(ranking.ids, names_of(nodes) if nodes else _names(ranking.ids))
        return ranking

    def ranking(self, nodes: Sequence[NodeWithScore]) -> Ranking:
        """The ranking of nodes."""
        tokens = None
        if self._plan.counter is not None:
            prompts = [node.node.get_content(MetadataMode.LLM) for node in nodes]
            tokens = self._plan.counter.count(prompts)
        return Ranking(
            ids=item_ids(nodes, self._plan.match_on),
            scores=[plain_score(node.score) for node in nodes],
            texts=node_texts(nodes),
            spans=[self._place(node.node) for node in nodes],
            tokens=tokens,
        )

    def filled(self, ranking: Ranking) -> Ranking:
        """The ranking with the texts of the corpus for items that have none of their own."""
        own = ranking.texts or ()
        if all(own):
            return ranking
        dataset, counter = self._plan.dataset, self._plan.counter
        pairs = zip(ranking.ids, own, strict=True)
        if counter is None and not dataset.corpus:
            return ranking
        texts = [
            text or (dataset.indexed_text(item) if item in dataset.corpus else "")
            for item, text in pairs
        ]
        if counter is None:
            return replace(ranking, texts=texts)
        if "" in texts:
            self._check_tokens_are_needless(ranking.ids[texts.index("")])
            return replace(ranking, texts=texts, tokens=None)
        tokens = list(ranking.tokens or counter.count(texts))
        for position, text in enumerate(texts):
            if not own[position]:
                [tokens[position]] = counter.count([text])
        return replace(ranking, texts=texts, tokens=tokens)

    def are_ids(self, items: Sequence[Any]) -> bool:
        """Whether an answer is bare ids, and these are what labels name."""
        is_by_id = self._plan.match_on in (NODE_ID, REF_DOC_ID)
        return is_by_id and bool(items) and type(items[0]) is str and set(map(type, items)) == {str}

    def _ranking_of_ids(self, ids: Sequence[Any]) -> Ranking:
        spans: list[Span | None] = [None] * len(ids)
        if self._plan.places is not None:
            spans = [self._place(node.node) for node in as_nodes(ids)]
        tokens = None if self._plan.counter is None else self._plan.counter.count([""] * len(ids))
        return Ranking(list(ids), [None] * len(ids), [""] * len(ids), spans=spans, tokens=tokens)

    def _place(self, node: BaseNode) -> Span | None:
        places = self._plan.places
        return node_span(node) if places is None else places.of_node(node)

    def _check_tokens_are_needless(self, item: str) -> None:
        """Refuse a passage without a text where a metric counts tokens."""
        if self._needs_tokens:
            expected = "a text, whose tokens can be counted"
            remedy = "Return nodes that have texts, or give the dataset a corpus that has them."
            raise InvalidInput(f"retrieved {item!r}", "", expected, remedy)


def _names(ids: Sequence[str]) -> list[tuple[str, str]]:
    return [(NODE_ID, item) for item in ids]
