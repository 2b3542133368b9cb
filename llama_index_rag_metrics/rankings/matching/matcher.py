"""What every matcher shares, and how its matches become an ordinary ranking of ids."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.runtime.amounts import check_share
from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray
from llama_index_rag_metrics.runtime.cache.fetching import Cache, Usage
from llama_index_rag_metrics.runtime.errors import InvalidInput

Passage = TypeVar("Passage")
"""What items are compared by: texts, or spans."""

AnyMatcher = TypeVar("AnyMatcher", bound="Matcher[Any]")


class Matcher(ABC, Generic[Passage]):
    """Decides which expected items a retrieved one covers.

    A matcher of your own is a subclass of `TextMatcher` with a `kind`, a `default` and `match`.

    Args:
        threshold: the similarity from which a retrieved item covers an expected one, above 0 and up
            to 1; by default the class's `default`.

    Attributes:
        kind: what the matcher is called.
        default: the threshold unless one is given.
        is_pure: whether the same texts always give the same answer, which may then be remembered.

    Raises:
        InvalidInput: the threshold is out of range.

    Examples:
        >>> from llama_index_rag_metrics import ContainmentMatcher, Matcher
        >>> matcher = ContainmentMatcher(threshold=0.5)
        >>> isinstance(matcher, Matcher), matcher.name
        (True, 'text>=0.5')
        >>> matcher.match(["It has geysers."], ["We saw that it has geysers.", "Nothing."])
        [[0], []]
    """

    kind: ClassVar[str]
    default: ClassVar[float]
    is_pure: ClassVar[bool] = True

    def __init__(self, threshold: float | None = None) -> None:
        chosen = self.default if threshold is None else threshold
        check_share("threshold", chosen)
        self.threshold = float(chosen)

    @property
    def name(self) -> str:
        """The kind, and the threshold where it isn't the default: "text", "text>=0.6"."""
        return self.kind if self.threshold == self.default else f"{self.kind}>={self.threshold!r}"

    def prepare(self: AnyMatcher, cache: Cache) -> AnyMatcher:
        """This matcher for one run, of which it uses the cache, if it asks for anything."""
        return self

    @property
    def usage(self) -> Usage | None:
        """What was asked of a model so far; None where nothing is ever asked."""
        return None

    @abstractmethod
    def match(self, expected: Sequence[Passage], retrieved: Sequence[Passage]) -> list[list[int]]:
        """For each retrieved item the positions of the expected items that it covers, ascending."""

    async def amatch(
        self, expected: Sequence[Passage], retrieved: Sequence[Passage]
    ) -> list[list[int]]:
        """The asynchronous twin of `match`, for matchers that wait for something."""
        return self.match(expected, retrieved)

    def likeness(
        self, expected: Sequence[Passage], retrieved: Sequence[Passage]
    ) -> FloatArray | None:
        """(retrieved, expected) how alike two items are, of which `threshold` is asked.

        None where a matcher only says yes or no.
        """
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(threshold={self.threshold:g})"


class TextMatcher(Matcher[str]):
    """A matcher that compares the texts of items. A blank text covers nothing.

    Examples:
        >>> from llama_index_rag_metrics import TextMatcher
        >>> class SameLength(TextMatcher):
        ...     kind = "length"
        ...     default = 1.0
        ...     def match(self, expected, retrieved):
        ...         lengths = [len(text) for text in expected]
        ...         return [[n for n, length in enumerate(lengths) if length == len(text)]
        ...                 for text in retrieved]
        >>> SameLength().match(["abc", "de"], ["xy"])
        [[1]]
    """


@dataclass(frozen=True)
class Expected:
    """The expected items of one query that a matcher can find, best grade first."""

    relevance: Relevance | None
    ids: tuple[str, ...] = ()
    passages: tuple[Any, ...] = ()

    @classmethod
    def of(cls, relevance: Relevance | None, passages: Mapping[str, Any]) -> Expected:
        grades = {} if relevance is None else relevance.grades
        known = sorted(filter(passages.__contains__, grades), key=lambda item: -grades[item])
        return cls(relevance, tuple(known), tuple(passages[item] for item in known))

    @classmethod
    def of_texts(cls, relevance: RelevanceLike | None, texts: Sequence[str]) -> Expected:
        """Relevance and a text for each relevant or each judged id; or the texts alone."""
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise InvalidInput("expected_texts", texts, "a list of texts")
        judged = None if relevance is None else Relevance.of(relevance)
        if texts and (judged is None or not judged.grades):
            distinct = dict.fromkeys(texts)
            own = {f"expected text {n}": text for n, text in enumerate(distinct, 1)}
            return cls.of(Relevance(own.keys()), own)
        if judged is None:
            return cls(None)
        listed = relevance if type(relevance) is list else ()
        for ids in (judged, judged.grades, listed):
            if len(ids) == len(texts) and all(isinstance(item, str) for item in ids):
                return cls.of(judged, dict(zip(ids, texts, strict=True)))
        expected = f"a text for each of the {len(judged)} expected ids, in the same order"
        raise InvalidInput("expected_texts", list(texts), expected)


def positions(covers: BoolArray) -> list[list[int]]:
    return [np.flatnonzero(row).tolist() for row in covers]


def stand_ins(
    expected_ids: Sequence[str], matches: Sequence[Sequence[int]], retrieved_ids: Sequence[str]
) -> list[list[str]]:
    """The ids that each retrieved item covers, or its own, made unlike any expected one."""
    taken = set(expected_ids)
    return [
        [expected_ids[position] for position in covered]
        or [own if own not in taken else _another(own, taken)]
        for covered, own in zip(matches, retrieved_ids, strict=True)
    ]


def flatten(stands_for: Sequence[Sequence[str]]) -> list[str]:
    return list(chain.from_iterable(stands_for))


def carry_costs(
    stands_for: Sequence[Sequence[str]], retrieved_ids: Sequence[str], tokens: Sequence[int]
) -> list[int]:
    """The cost of each item of the flattened ranking, so that a budget counts whole chunks.

    A retrieved item's cost is that of the first item that it stands for; the others are free. A
    repetition's cost is carried to the next item; a copy of a retrieved item costs nothing.

    >>> carry_costs([["a"], ["a"], ["b", "c"]], ["n1", "n2", "n3"], [10, 20, 30])
    [10, 0, 50, 0]
    """
    costs: list[int] = []
    credited: set[str] = set()
    paid: set[str] = set()
    due = 0
    for stand_in, own, cost in zip(stands_for, retrieved_ids, tokens, strict=True):
        due += 0 if own in paid else cost
        paid.add(own)
        for item in stand_in:
            costs.append(0 if item in credited else due)
            due = due if item in credited else 0
            credited.add(item)
    return costs


def _another(own: str, taken: set[str]) -> str:
    name = f"retrieved {own}"
    while name in taken:
        name += "'"
    return name
