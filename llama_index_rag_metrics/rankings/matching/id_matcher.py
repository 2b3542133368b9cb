"""Matching by id: which id of a node is compared with the labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from unicodedata import normalize

from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.masking import shorten

if TYPE_CHECKING:
    from llama_index.core.schema import NodeWithScore

MatchOn: TypeAlias = "str | Callable[[NodeWithScore], str]"
"""`"node_id"`, `"ref_doc_id"`, a key of the nodes' metadata, or a function of the node."""

NODE_ID, REF_DOC_ID = "node_id", "ref_doc_id"

NOT_VALID = "Not a valid score"  # begins a note on labels that name otherwise what came

CAME_OTHERWISE = (
    "Not a valid score: {under_other_ids:,} of {relevant:,} relevant passages came under other "
    "ids. Match by text (matcher='text', --matcher text), or move the labels (rag-metrics labels "
    "move)"
)
MATCH_OTHERWISE = (
    "Not a valid score: {sentence}; {n:,} match {match_on}: use match_on={match_on!r} "
    "(--match-on {match_on})"
)
MATCH_NOTHING = (
    "{sentence}, nor anything else that is known of the nodes: every score is 0. A label is "
    "{label}, a retrieved id {retrieved}"
)

_SOME = (
    "In Python, for the others: match_on=lambda node: node.metadata.get({key!r}) or node.node_id."
)


def item_id(node: NodeWithScore, match_on: MatchOn) -> str:
    """The id of a node that labels name; a document without a ref_doc_id has its own."""
    item: object
    if callable(match_on):
        item = match_on(node)
    elif match_on == NODE_ID:
        item = node.node.node_id
    elif match_on == REF_DOC_ID:
        item = node.node.ref_doc_id or node.node.node_id
    else:
        item = node.node.metadata.get(match_on)
        if item is None:
            names = [key for key, value in node.node.metadata.items() if value is not None]
            expected = f"one of what node {node.node_id!r} has: {[NODE_ID, REF_DOC_ID, *names]}"
            raise InvalidInput("match_on", match_on, expected, _SOME.format(key=match_on))
        item = str(item)
    if not isinstance(item, str) or not item:
        expected = "an id, a text that isn't empty"
        raise InvalidInput(f"{_described(match_on)} of a retrieved node", item, expected)
    return item


def _described(match_on: MatchOn) -> str:
    if callable(match_on):
        return getattr(match_on, "__qualname__", repr(match_on))
    return match_on


class IdFit(NamedTuple):
    """How many relevant passages came by id, or under other ids alone; `texts` are distinct."""

    relevant: int = 0
    by_id: int = 0
    under_other_ids: int = 0
    texts: int = 0


class LabelCheck:
    """Watches what is retrieved, to see whether it has the kind of ids that the labels name."""

    def __init__(
        self, labels: Iterable[str], match_on: MatchOn, corpus: Collection[str] = ()
    ) -> None:
        self._labels = frozenset(labels)
        self._fitting_ids = self._labels
        if self._labels <= set(corpus):
            self._fitting_ids = self._labels.union(corpus)
        self._match_on = _described(match_on)
        self._n_matched = self._n_retrieved = 0
        self._example = ""
        self._labels_by_kind: defaultdict[str, set[str]] = defaultdict(set)

    def see(self, ids: Iterable[str], names: Iterable[tuple[str, str]] = ()) -> None:
        """Count the ids retrieved for a query, and keep labels among the nodes' `names_of`."""
        for item in ids:
            self._n_retrieved += 1
            self._n_matched += item in self._fitting_ids
            self._example = self._example or item
        if not self._n_matched:
            for kind, value in names:
                if value in self._labels:
                    self._labels_by_kind[kind].add(value)

    @property
    def are_strange(self) -> bool:
        """Whether most of what was retrieved has ids that the dataset doesn't know."""
        return bool(self._labels) and 2 * self._n_matched < self._n_retrieved

    def note(self, counts: IdFit | None = None) -> str | None:
        """Return what is wrong and what would fit; None where most retrieved ids fit the labels."""
        counts = counts or IdFit()
        matches_nothing = bool(self._labels and self._example) and not self._n_matched
        match_on, n_fitting = "", 0
        for kind, labels in self._labels_by_kind.items():
            if matches_nothing and len(labels) > n_fitting:
                match_on, n_fitting = kind, len(labels)
        if self.are_strange and counts.under_other_ids > counts.by_id and counts.texts > n_fitting:
            return CAME_OTHERWISE.format(**counts._asdict())
        if not matches_nothing:
            return None
        sentence = f"0 of {len(self._labels):,} labels match {self._match_on}"
        if match_on:
            return MATCH_OTHERWISE.format(sentence=sentence, n=n_fitting, match_on=match_on)
        label, retrieved = seen_apart(min(self._labels), self._example)
        return MATCH_NOTHING.format(sentence=sentence, label=label, retrieved=retrieved)


def seen_apart(text: str, other: str) -> tuple[str, str]:
    """Return how two ids are shown: with escapes where they look the same."""
    if type(text) is type(other) and normalize("NFKC", text) == normalize("NFKC", other):
        return _with_escapes(text, other), _with_escapes(other, text)
    return shorten(text), shorten(other)


def _with_escapes(text: str, other: str) -> str:
    letters = []
    for letter in text:
        is_common = letter in other and letter.isalnum()
        letters.append(letter if is_common else ascii(letter)[1:-1])
    return f"'{''.join(letters)}'"


def names_of(nodes: Iterable[NodeWithScore]) -> Iterator[tuple[str, str]]:
    """Yield every value of the nodes that labels could name, after what match_on calls it."""
    for node in nodes:
        yield NODE_ID, node.node.node_id
        if node.node.ref_doc_id:
            yield REF_DOC_ID, node.node.ref_doc_id
        for key, value in node.node.metadata.items():
            if isinstance(value, (str, int)):
                yield key, str(value)
