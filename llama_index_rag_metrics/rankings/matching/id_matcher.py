"""Matching by id: which id of a retrieved node is compared with the labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from llama_index_rag_metrics.runtime.errors import InvalidInput, UnusableAnswer

if TYPE_CHECKING:
    from llama_index.core.schema import NodeWithScore

MatchOn: TypeAlias = "str | Callable[[NodeWithScore], str]"
"""`"node_id"`, `"ref_doc_id"`, a key of the nodes' metadata, or a function of the node."""

NODE_ID = "node_id"
REF_DOC_ID = "ref_doc_id"


def item_id(node: NodeWithScore, match_on: MatchOn) -> str:
    """The id by which a retrieved node is compared with the labels.

    Args:
        match_on: "ref_doc_id" is the id of the document that the node was cut from, and the node's
            own id where it is a document itself. A metadata value is compared as a string.
    """
    if callable(match_on):
        key = match_on(node)
        if not isinstance(key, str):
            raise InvalidInput("what match_on returned", key, "an id as a string")
        return key
    if match_on == NODE_ID:
        return node.node.node_id
    if match_on == REF_DOC_ID:
        return node.node.ref_doc_id or node.node.node_id
    value = node.node.metadata.get(match_on)
    if value is None:
        choices = [NODE_ID, REF_DOC_ID, *node.node.metadata]
        raise InvalidInput(
            "match_on", match_on, f"one of what node {node.node.node_id!r} has: {choices}"
        )
    return str(value)


def item_ids(nodes: Sequence[NodeWithScore], match_on: MatchOn) -> list[str]:
    """The ids by which retrieved nodes are compared with the labels."""
    if nodes and isinstance(match_on, str) and match_on not in (NODE_ID, REF_DOC_ID):
        keys = {key for node in nodes for key in node.node.metadata}
        if match_on not in keys:
            choices = [NODE_ID, REF_DOC_ID, *sorted(keys)]
            raise UnusableAnswer(
                "match_on", match_on, f"one of what the retrieved nodes have: {choices}"
            )
    return [item_id(node, match_on) for node in nodes]


def describe(match_on: MatchOn) -> str:
    """match_on as words, for messages and fingerprints."""
    return getattr(match_on, "__qualname__", repr(match_on)) if callable(match_on) else match_on


class LabelCheck:
    """Watches what is retrieved, to see whether the labels speak of it at all.

    Args:
        corpus: the ids of the dataset's documents. Where the labels are among them, a retrieved
            document of the corpus shows that the two speak of the same.
    """

    def __init__(
        self, labels: Iterable[str], match_on: MatchOn, corpus: Collection[str] = ()
    ) -> None:
        self._labels = frozenset(labels)
        self._fits = self._labels.union(corpus) if self._labels <= set(corpus) else self._labels
        self._match_on = describe(match_on)
        self._matched = 0
        self._example = ""
        self._fitting: defaultdict[str, set[str]] = defaultdict(set)
        self._saw_all = True

    def see(self, ids: Iterable[str], names: Iterable[tuple[str, str]] | None = None) -> None:
        """Take note of what was retrieved for one query.

        Args:
            names: what `names_of` says of the nodes, if they are at hand.
        """
        self._saw_all &= names is not None
        for item in ids:
            self._matched += item in self._fits
            self._example = self._example or item
        if self._matched:
            return
        for kind, value in names or ():
            if value in self._labels:
                self._fitting[kind].add(value)

    @property
    def match_nothing(self) -> bool:
        """Whether something was retrieved, and none of it is what the labels speak of."""
        return bool(self._labels and self._example) and not self._matched

    @property
    def fits_otherwise(self) -> bool:
        """Whether labels match something else that the nodes carry."""
        return bool(self._fitting)

    def note(self, by_text: tuple[int, int] = (0, 0)) -> str | None:
        """What is wrong and what would fit; None where the labels match something.

        Args:
            by_text: how many expected passages are in what was retrieved under whatever ids, and of
                how many that is.
        """
        if not self.match_nothing:
            return None
        n = len(self._labels)
        sentence = f"0 of {n} labels match {self._match_on}"
        n_found, n_looked_for = by_text
        if n_found > max(map(len, self._fitting.values()), default=0):
            return (
                f"{sentence}, but matcher='text' would match {n_found} of {n_looked_for}: the "
                "passages are there under other ids, as after ingesting the documents again"
            )
        if not self._fitting:
            nor = ", nor anything else that the retrieved nodes carry" if self._saw_all else ""
            return (
                f"{sentence}{nor}: every score is 0. "
                f"A label is {min(self._labels)!r}, a retrieved id {self._example!r}"
            )
        best = max(self._fitting, key=lambda kind: len(self._fitting[kind]))
        return f"{sentence}; {len(self._fitting[best])} match {best}: use match_on={best!r}"


def names_of(nodes: Iterable[NodeWithScore]) -> Iterator[tuple[str, str]]:
    """What labels could speak of: every kind of id of the nodes, as match_on names it, and it."""
    for node in nodes:
        yield NODE_ID, node.node.node_id
        if node.node.ref_doc_id:
            yield REF_DOC_ID, node.node.ref_doc_id
        for key, value in node.node.metadata.items():
            if isinstance(value, (str, int)):
                yield key, str(value)
