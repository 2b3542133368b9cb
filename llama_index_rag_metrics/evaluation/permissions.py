"""Who may see what: the items of an evaluation that are forbidden to who asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
from llama_index.core.schema import BaseNode, TextNode

from llama_index_rag_metrics.dataset.arguments import read_forbidden, refuse_unknown
from llama_index_rag_metrics.dataset.derived import node_fields
from llama_index_rag_metrics.errors import InvalidInput
from llama_index_rag_metrics.evaluation.identity import identify_callable
from llama_index_rag_metrics.matching import Matcher, MatchOn, item_ids
from llama_index_rag_metrics.metrics import RankingMetric

if TYPE_CHECKING:
    from llama_index.core.schema import NodeWithScore

    from llama_index_rag_metrics.dataset import RetrievalDataset

Forbids: TypeAlias = "Callable[[Mapping[str, Any], BaseNode], bool]"
"""Whether who asks, by the question's metadata, may not see a node."""

ForbiddenLike: TypeAlias = "Mapping[str, Iterable[str]] | str | Forbids"
"""Query id to forbidden ids, a key that questions and nodes have in their metadata, or a function
of the question's metadata and the node."""


class Permissions:
    """What is forbidden to who asks the questions of a dataset.

    Args:
        dataset: the questions; its own `forbidden` counts where none is given.
        forbidden: query id to ids; a key of metadata: a node is permitted where one of its values
            is one of the question's; or a function.
        match_on: which id of a node the labels speak of.

    Attributes:
        by_query: query id to the ids that are known to be forbidden before anything is asked.
        name: what tells one way to decide from another; "" where ids alone decide.

    Raises:
        InvalidInput: this says of nothing whether it is forbidden; or a question lacks the key.
    """

    def __init__(
        self,
        dataset: RetrievalDataset,
        forbidden: ForbiddenLike | None = None,
        match_on: MatchOn = "node_id",
    ) -> None:
        self._metadata, self._match_on = dataset.metadata, match_on
        self._forbids: Forbids | None = None
        self.name = ""
        self.by_query: dict[str, list[str]] = dict(dataset.forbidden)
        if isinstance(forbidden, str):
            _check_key(forbidden, dataset)
            self._forbids, self.name = _Key(forbidden), f"metadata {forbidden!r}"
        elif callable(forbidden):
            self._forbids, self.name = forbidden, identify_callable(forbidden)
        elif forbidden is not None:
            self.by_query = read_forbidden(forbidden)
            refuse_unknown("forbidden", self.by_query, dataset.queries, "queries")
        self._documents: dict[str, TextNode] = {}
        if self._forbids is not None:
            self._documents = {fields["id_"]: TextNode(**fields) for fields in node_fields(dataset)}
            self._judge_expected(dataset)

    def among(self, query_id: str, nodes: Sequence[NodeWithScore]) -> list[str] | None:
        """The ids of those of the retrieved nodes that are forbidden to who asks a query.

        Returns:
            None where that doesn't depend on nodes.
        """
        if self._forbids is None:
            return None
        ids = item_ids(nodes, self._match_on)
        pairs = zip(ids, nodes, strict=True)
        return list(
            dict.fromkeys(
                item for item, retrieved in pairs if self._is_forbidden(query_id, retrieved.node)
            )
        )

    def _is_forbidden(self, query_id: str, node: BaseNode) -> bool:
        # what was retrieved as a bare id has the metadata of the corpus
        known = node if node.metadata else self._documents.get(node.node_id, node)
        answer = self._forbids and self._forbids(self._metadata.get(query_id, {}), known)
        if not isinstance(answer, (bool, np.bool_)):
            expected = "True where the node is forbidden, else False"
            raise InvalidInput("what forbidden returned", answer, expected)
        return bool(answer)

    def _judge_expected(self, dataset: RetrievalDataset) -> None:
        """What is expected and forbidden, for recall among what is permitted."""
        for query_id, relevance in dataset.relevance.items():
            known = (self._documents[item] for item in relevance.grades if item in self._documents)
            ids = [node.node_id for node in known if self._is_forbidden(query_id, node)]
            if ids:
                self.by_query[query_id] = [*dict.fromkeys([*self.by_query.get(query_id, ()), *ids])]

    def lacks(self, dataset: RetrievalDataset) -> str | None:
        """An expected id of which nobody can say whether it is permitted unless it is retrieved."""
        if self._forbids is None:
            return None
        items = (item for relevance in dataset.relevance.values() for item in relevance.grades)
        return next((item for item in items if item not in self._documents), None)


class _Key:
    """Forbids nodes that have no value of a key of metadata in common with the question."""

    def __init__(self, key: str) -> None:
        self._key = key

    def __call__(self, question: Mapping[str, Any], node: BaseNode) -> bool:
        return not _values(question.get(self._key)) & _values(node.metadata.get(self._key))


def permissions_for(
    metrics: Sequence[BaseRetrievalMetric],
    dataset: RetrievalDataset,
    forbidden: ForbiddenLike | None,
    match_on: MatchOn,
    matcher: Matcher[Any] | None = None,
) -> Permissions | None:
    """What is forbidden, where a metric wants to know.

    Raises:
        InvalidInput: a metric needs what nobody says, or what can't be known.
    """
    needy = [
        metric for metric in metrics if isinstance(metric, RankingMetric) and metric.needs_forbidden
    ]
    if not needy:
        if forbidden is not None:
            remedy = "Add leaked@10, for example."
            raise InvalidInput("forbidden", forbidden, "None without a metric of leaks", remedy)
        return None
    if forbidden is None and not dataset.forbidden:
        expected = f"what the asker of each query may not see, for {needy[0].metric_name}"
        remedy = (
            "Give {query id: ids}, a key that questions and nodes have in their metadata, or a "
            "function of the question's metadata and the node; or a dataset with forbidden ids."
        )
        raise InvalidInput("forbidden", None, expected, remedy)
    permissions = Permissions(dataset, forbidden, match_on)
    for metric in needy:
        if not metric.recognises:
            continue
        if metric.match not in (None, "id") or (metric.match is None and matcher is not None):
            expected = "ids, since what is forbidden is known by id"
            raise InvalidInput(
                f"matcher of {metric.metric_name}", metric.match or str(matcher), expected
            )
        if (item := permissions.lacks(dataset)) is not None:
            expected = "expected ids of documents in the dataset's corpus"
            remedy = "Without the document nobody can tell whether it is permitted."
            raise InvalidInput(metric.metric_name, item, expected, remedy)
    return permissions


def _check_key(key: str, dataset: RetrievalDataset) -> None:
    lacking = [
        query_id for query_id in dataset.queries if key not in dataset.metadata.get(query_id, {})
    ]
    if lacking:
        expected = f"a key that every question has in its metadata; {lacking[0]!r} lacks it"
        raise InvalidInput("forbidden", key, expected)


def _values(value: object) -> frozenset[str]:
    """One value or several, compared as texts."""
    if value is None:
        return frozenset()
    if isinstance(value, (list, tuple, set, frozenset)):
        return frozenset(map(str, value))
    return frozenset([str(value)])
