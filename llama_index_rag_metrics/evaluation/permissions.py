"""Which retrieved items the asker is not allowed to see."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
from llama_index.core.schema import BaseNode, TextNode

from llama_index_rag_metrics.files.dataset_content import read_forbidden, refuse_unknown
from llama_index_rag_metrics.metrics.base import RankingMetric
from llama_index_rag_metrics.metrics.leaks import PermittedRecall
from llama_index_rag_metrics.rankings.matching.id_matcher import MatchOn, item_ids
from llama_index_rag_metrics.rankings.matching.matcher import Matcher
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import describe_error
from llama_index_rag_metrics.scores.mappings import slice_of

if TYPE_CHECKING:
    from llama_index.core.schema import NodeWithScore

    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
    from llama_index_rag_metrics.scores import Scores

# whether the asker, by the question's metadata, may not see a node
Forbids: TypeAlias = "Callable[[Mapping[str, Any], BaseNode], bool]"
ForbiddenLike: TypeAlias = "Mapping[str, Iterable[str]] | str | Forbids"
"""Query id to forbidden ids, a key that questions and nodes have in their metadata, or a function
of the question's metadata and the node."""


class Permissions:
    """Which retrieved items the asker of each question may not see."""

    def __init__(
        self,
        dataset: RetrievalDataset,
        forbidden: ForbiddenLike | None = None,
        match_on: MatchOn = "node_id",
        *,
        for_recall: bool = False,
    ) -> None:
        self._dataset, self._match_on = dataset, match_on
        self._key = forbidden if isinstance(forbidden, str) else None
        self._function = forbidden if callable(forbidden) else None
        self.by_query: dict[str, list[str]] = dict(dataset.forbidden)
        if isinstance(forbidden, str):
            lacks = (
                query_id
                for query_id in dataset.queries
                if slice_of(dataset.metadata.get(query_id, {}).get(forbidden)) is None
            )
            if (query_id := next(lacks, None)) is not None:
                expected = f"a key that every question has in its metadata; {query_id!r} lacks it"
                raise InvalidInput("forbidden", forbidden, expected)
        elif forbidden is not None and not callable(forbidden):
            self.by_query = read_forbidden(forbidden)
            refuse_unknown("forbidden", self.by_query, dataset.queries, "queries")
        self.needs_nodes = self._key is not None or self._function is not None
        self._forbidden_labels: dict[str, list[str]] = defaultdict(list)
        self._unknown_labels: dict[str, list[str]] = defaultdict(list)
        if self._key is not None or (for_recall and self._function is not None):
            self._judge_labels()

    def mark(self, query_id: str, ranking: Ranking, nodes: Sequence[NodeWithScore]) -> Ranking:
        """Add to a ranking which of the retrieved nodes are forbidden, and which unknown."""
        if not self.needs_nodes:
            return ranking
        verdicts: dict[str, list[bool | None]] = defaultdict(list)
        for item, retrieved in zip(item_ids(nodes, self._match_on), nodes, strict=True):
            verdicts[item].append(self._is_forbidden(query_id, item, retrieved.node))
        forbidden = [item for item, of in verdicts.items() if True in of]
        unknown = [item for item, of in verdicts.items() if None in of and True not in of]
        return replace(ranking, forbidden=forbidden, forbidden_unknown=unknown or None)

    def mark_labels(self, query_id: str, ranking: Ranking) -> Ranking:
        """Add to a ranking what is forbidden whatever was retrieved: ids that are given, labels."""
        retrieved = frozenset(ranking.ids)
        labels = self._forbidden_labels.get(query_id, ())
        known = [*self.by_query.get(query_id, ()), *(i for i in labels if i not in retrieved)]
        if not known:
            return ranking
        return replace(ranking, forbidden=[*dict.fromkeys([*(ranking.forbidden or ()), *known])])

    def _is_forbidden(self, query_id: str, item: str, node: BaseNode | None) -> bool | None:
        """Whether a retrieved node, or else the dataset's document, is forbidden; None: unknown."""
        if self._key is None:
            return self._ask(query_id, item, node)
        own = {} if node is None else node.metadata
        for metadata in (own, self._dataset.document_metadata.get(item, {})):
            if slice_of(value := metadata.get(self._key)) is not None:
                return not _values(self._dataset.metadata[query_id][self._key]) & _values(value)
        return None

    def _ask(self, query_id: str, item: str, node: BaseNode | None) -> bool:
        assert self._function is not None
        question, document = self._dataset.metadata.get(query_id, {}), self._document(item)
        shown = document if node is None else _completed(node, document)
        assert shown is not None
        what = f"the dataset's document {item!r}" if node is None else f"retrieved node {item!r}"
        returned = "what forbidden returned"
        called = (
            f"True where the node is forbidden, else False, for question {query_id!r} with the "
            f"metadata {list(question)} and {what} with the metadata {list(shown.metadata)}"
        )
        try:
            answer = self._function(question, shown)
        except Exception as error:
            remedy = "What no node says can be given to the dataset as document_metadata."
            raise InvalidInput(returned, describe_error(error), called, remedy) from error
        if not isinstance(answer, (bool, np.bool_)):
            raise InvalidInput(returned, answer, called)
        return bool(answer)

    def _document(self, item: str) -> TextNode | None:
        dataset = self._dataset
        if item not in dataset.corpus:
            return None
        metadata = dict(dataset.document_metadata.get(item, {}))
        return TextNode(id_=item, text=dataset.indexed_text(item), metadata=metadata)

    def _judge_labels(self) -> None:
        """Find forbidden and unknown labels, for recall of what is permitted."""
        for query_id, relevance in self._dataset.relevance.items():
            given = self.by_query.get(query_id, ())
            for item in relevance.grades:
                if item in given or item not in self._dataset.corpus:
                    continue
                verdict = self._is_forbidden(query_id, item, None)
                if verdict is not False:
                    labels = self._unknown_labels if verdict is None else self._forbidden_labels
                    labels[query_id].append(item)

    def lacks(self) -> str | None:
        """An expected id that only a retrieval could show to be permitted, if there is one."""
        if not self.needs_nodes:
            return None
        labels = (item for of in self._dataset.relevance.values() for item in of.grades)
        return next((item for item in labels if item not in self._dataset.corpus), None)

    def without_unknown(
        self, metrics: Sequence[BaseRetrievalMetric], scores: Scores
    ) -> tuple[dict[str, dict[str, float]], list[str]]:
        """Values of `permitted_recall` on questions whose labels are all known, and notes.

        The dataset alone decides which questions these are: if retrieved nodes did, only questions
        whose labels are found would have a value.
        """
        columns: dict[str, dict[str, float]] = {}
        notes: list[str] = []
        for metric in (each for each in metrics if isinstance(each, PermittedRecall)):
            values = scores.by_query(metric.metric_name)
            unknown = {
                query_id: item
                for query_id, items in self._unknown_labels.items()
                for item in items
                if query_id in values
                and self._dataset.relevance[query_id].grades[item] >= metric.min_grade
            }
            if unknown:
                query_id, item = next(iter(unknown.items()))
                columns[metric.metric_name] = {
                    query_id: value for query_id, value in values.items() if query_id not in unknown
                }
                notes.append(
                    f"{metric.metric_name}: no value for {len(unknown):,} of {len(values):,} "
                    f"questions, since it isn't known who may see {item!r}, a label of "
                    f"{query_id!r}: give the dataset document_metadata with {self._key!r}"
                )
        return columns, notes


def _completed(node: BaseNode, document: TextNode | None) -> BaseNode:
    """Fill a retrieved node's gaps, such as those of a bare id, from the dataset's document."""
    if document is None:
        return node
    metadata = {**document.metadata, **node.metadata}
    if type(node) is TextNode and not node.text:
        return document.model_copy(update={"metadata": metadata})
    if len(metadata) == len(node.metadata):
        return node
    return node.model_copy(update={"metadata": metadata})


def permissions_for(
    metrics: Sequence[BaseRetrievalMetric],
    dataset: RetrievalDataset,
    forbidden: ForbiddenLike | None,
    match_on: MatchOn,
    matcher: Matcher[Any] | None = None,
) -> Permissions | None:
    needy = [
        metric
        for metric in metrics
        if isinstance(metric, RankingMetric) and "forbidden" in metric.needs
    ]
    if not needy:
        if forbidden is not None:
            sentence = "forbidden is given, but no metric of leaks reads it."
            remedy = "Add leaked@10, for example."
            raise InvalidInput("forbidden", forbidden, sentence=sentence, remedy=remedy)
        return None
    if forbidden is None and not dataset.forbidden:
        expected = f"what the asker of each question may not see, for {needy[0].metric_name}"
        remedy = (
            "Give {query id: ids}, a key that questions and nodes have in their metadata, or a "
            "function of the question's metadata and the node; or a dataset with forbidden ids."
        )
        raise InvalidInput("forbidden", None, expected, remedy)
    recognising = [metric for metric in needy if metric.recognises]
    permissions = Permissions(dataset, forbidden, match_on, for_recall=bool(recognising))
    for metric in recognising:
        if metric.match not in (None, "id") or (metric.match is None and matcher is not None):
            expected = "ids, since what is forbidden is known by id"
            got = metric.match or str(matcher)
            raise InvalidInput(f"matcher of {metric.metric_name}", got, expected)
        if (item := permissions.lacks()) is not None:
            expected = "labelled ids of documents in the dataset's corpus"
            remedy = (
                "Without the document and its document_metadata, it isn't known whether it is "
                "permitted."
            )
            raise InvalidInput(metric.metric_name, item, expected, remedy)
    return permissions


def _values(value: object) -> frozenset[str | None]:
    """As slices go: 1, 1.0 and "1" are alike, since files and stores keep either."""
    several = value if isinstance(value, (list, tuple, set, frozenset)) else [value]
    return frozenset(map(slice_of, several)) - {None}
