"""The names of the matchers: `kind[>=threshold]`, such as "text" or "edit>=0.9"."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

from llama_index_rag_metrics.rankings.matching.embedding_matcher import EmbeddingMatcher
from llama_index_rag_metrics.rankings.matching.group_matcher import GroupMatcher
from llama_index_rag_metrics.rankings.matching.matcher import Matcher
from llama_index_rag_metrics.rankings.matching.span_matcher import SpanMatcher
from llama_index_rag_metrics.rankings.matching.text_matchers import (
    ContainmentMatcher,
    EditMatcher,
    ExactMatcher,
    TokenOverlapMatcher,
)
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.open_table import OpenTable

MatcherLike: TypeAlias = "Matcher[Any] | str"
"""A matcher, or the name of one."""

BY_ID = "id"
"""The name of comparing ids, which takes no matcher."""


def _exact(threshold: float | None) -> ExactMatcher:
    if threshold is not None:
        given = f"exact>={threshold:g}"
        sentence = f"matcher 'exact' has no threshold, got {given!r}."
        raise InvalidInput("matcher", given, sentence=sentence)
    return ExactMatcher()


MATCHERS: OpenTable[Callable[[float | None], Matcher[Any]]] = OpenTable(
    "kind",
    "matchers",
    {
        "text": ContainmentMatcher,
        "exact": _exact,
        "tokens": TokenOverlapMatcher,
        "edit": EditMatcher,
        "embedding": lambda threshold: EmbeddingMatcher(threshold=threshold),
        "span": SpanMatcher,
        "group": GroupMatcher,
    },
    taken=[BY_ID],
)
"""Kind to what makes a matcher of it, from its threshold or None."""


def register_matcher(kind: str, make: Callable[[float | None], Matcher[Any]]) -> None:
    """Let `matcher="kind"`, and metrics with `match=kind`, name a matcher of your own.

    Args:
        kind: the name, without a threshold.
        make: makes the matcher, from the threshold that is written behind its name, or from None.

    Raises:
        InvalidInput: the name is taken, or can't be written in the name of a metric.

    Examples:
        >>> from llama_index_rag_metrics import ContainmentMatcher
        >>> register_matcher("strict", lambda threshold: ContainmentMatcher(threshold or 0.99))
        >>> named_matcher("strict")
        ContainmentMatcher(threshold=0.99)
        >>> unregister_matcher("strict")
    """
    if not (kind.isascii() and kind.isidentifier()):
        raise InvalidInput("kind", kind, "letters, digits and _, since metrics' names contain it")
    MATCHERS.add(kind, make)


def unregister_matcher(kind: str) -> None:
    """Forget a matcher that `register_matcher` added.

    Raises:
        InvalidInput: none of that name was added.

    Examples:
        >>> from llama_index_rag_metrics import ContainmentMatcher, register_matcher
        >>> from llama_index_rag_metrics import unregister_matcher
        >>> register_matcher("strict", lambda threshold: ContainmentMatcher(threshold or 0.99))
        >>> unregister_matcher("strict")
    """
    MATCHERS.remove(kind)
    named_matcher.cache_clear()


@lru_cache(maxsize=64)
def named_matcher(name: str) -> Matcher[Any] | None:
    """The matcher of that name; None for "id". The same name gives the same object.

    Examples:
        >>> named_matcher("text>=0.6")
        ContainmentMatcher(threshold=0.6)
        >>> named_matcher("text>=0.8").name
        'text'
    """
    kind, at_least, threshold = (part.strip() for part in str(name).partition(">="))
    if kind == BY_ID and not at_least:
        return None
    try:
        return MATCHERS[kind](float(threshold) if at_least else None)
    except (KeyError, ValueError, TypeError) as error:
        if isinstance(error, InvalidInput):
            raise
        expected = f"one of {', '.join(map(repr, (BY_ID, *MATCHERS)))}"
        remedy = "A threshold is written behind it: 'text>=0.6'."
        raise InvalidInput("matcher", name, expected, remedy) from error


def as_matcher(matcher: MatcherLike | None) -> Matcher[Any] | None:
    """A matcher from what a caller gave; None compares ids."""
    if matcher is None or isinstance(matcher, Matcher):
        return matcher
    if isinstance(matcher, type):
        raise InvalidInput("matcher", matcher, "a matcher", f"Write {matcher.__name__}().")
    return named_matcher(matcher)
