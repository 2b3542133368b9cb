"""What is asked, and what comes back: a question with its context, an answer of nodes or ids."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeAlias

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle, TextNode

from llama_index_rag_metrics.files.conversations import HISTORY
from llama_index_rag_metrics.files.records import plain_score
from llama_index_rag_metrics.rankings.run import has_order
from llama_index_rag_metrics.runtime.errors import UnusableAnswer

RetrieverOutput: TypeAlias = "Iterable[NodeWithScore | BaseNode | str]"

_RETURNED = "what the retriever returned"
_REMEDY = (
    "Return ids as strings, or NodeWithScore(node=TextNode(id_=..., text=...), score=...), best "
    "first."
)


@dataclass
class Question(QueryBundle):
    """A question as a system is asked it."""

    query_id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def copied_metadata(self) -> dict[str, Any]:
        """The metadata, which whoever gets them may change."""
        return deepcopy(dict(self.metadata))

    @property
    def history(self) -> list[ChatMessage]:
        """What was said before the question."""
        return [ChatMessage(**message) for message in self.metadata.get(HISTORY) or ()]


@dataclass(slots=True)
class Retrieval:
    """One outermost retrieval, with the postprocessors that could be seen."""

    query: str
    asked_by: str = ""
    nodes: list[NodeWithScore] | None = None  # copies; None as long as it runs
    seconds: float | None = None
    error: str | None = None


@dataclass
class Answer:
    """What a system retrieved for a question.

    Attributes:
        items: nodes or ids, best first.
        calls: the retrievals that make up the answer, where a question could have several.
        seconds: how long it took.
        notes: what a reader of the results should know.
    """

    items: Sequence[NodeWithScore | str] = ()
    calls: Sequence[Retrieval] | None = None
    seconds: float | None = None
    notes: Sequence[str] = ()

    def nodes(self) -> list[NodeWithScore]:
        """All that was retrieved, of whatever call, each node once."""
        if self.calls is None:
            return as_nodes(self.items)
        return each_once(chain.from_iterable(call.nodes or () for call in self.calls))


Ask: TypeAlias = Callable[[Question], Awaitable[Answer]]
"""Everything that can be asked."""


def as_nodes(retrieved: Any, hint: str = "") -> list[NodeWithScore]:
    if not has_order(retrieved):
        remedy = f"{_REMEDY} {hint}".rstrip()
        raise UnusableAnswer(_RETURNED, retrieved, "a list of nodes or ids", remedy)
    return [_node(item) for item in retrieved]


def _node(item: Any) -> NodeWithScore:
    if isinstance(item, NodeWithScore):
        return item
    if isinstance(item, BaseNode):
        return NodeWithScore(node=item)
    if isinstance(item, str):
        # metadata of its own: LlamaIndex before 0.14.20 drops nodes of the same text and metadata
        return NodeWithScore(node=TextNode(id_=item, text="", metadata={"id": item}))
    raise UnusableAnswer(_RETURNED, item, "nodes or ids", _REMEDY)


def scores_and_texts(nodes: Sequence[NodeWithScore]) -> dict[str, Any]:
    """The columns of a ranking that nodes have by themselves."""
    return {
        "scores": [plain_score(node.score) for node in nodes],
        "texts": [node.node.get_content() for node in nodes],
    }


def copied(node: NodeWithScore) -> NodeWithScore:
    """A copy whose texts and metadata whoever gets it may change; its embedding is shared."""
    values = {
        name: deepcopy(value)
        for name, value in vars(node.node).items()
        if isinstance(value, dict) or name.endswith("_resource")
    }
    return node.model_copy(update={"node": node.node.model_copy(update=values)})


def each_once(nodes: Iterable[NodeWithScore]) -> list[NodeWithScore]:
    by_id: dict[str, NodeWithScore] = {}
    for node in nodes:
        by_id.setdefault(node.node.node_id, node)
    return list(by_id.values())
