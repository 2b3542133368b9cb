"""The exceptions of this package. Every message is worded here, from the facts that the caller gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar


class RagMetricsError(Exception):
    """Base class of every error that this package raises on purpose."""


class InvalidInput(RagMetricsError, ValueError):
    """An argument can't be used: says its name, its value, what was expected and what to do."""

    def __init__(self, argument: str, value: object, expected: str, remedy: str = "") -> None:
        super().__init__(argument, value, expected, remedy)
        self.argument = argument
        self.value = value

    def __str__(self) -> str:
        argument, value, expected, remedy = self.args
        sentence = f"{argument}: expected {expected}, got {_shorten(value)}."
        return f"{sentence} {remedy}" if remedy else sentence


class NotJudged(RagMetricsError, ValueError):
    """The metric needs relevance and none was given."""

    def __str__(self) -> str:
        return (
            "expected_ids is None: the query is unjudged, and this metric needs relevance. "
            "Pass the relevant ids, a {id: grade} mapping or a Relevance."
        )


class NothingRelevant(RagMetricsError, ValueError):
    """There are judgements, but none has a grade above 0."""

    def __str__(self) -> str:
        return (
            "expected_ids holds nothing relevant (it is empty, or every grade is 0 or less), "
            "so the metric has no value. Score a dataset instead: there such queries are left "
            "out of the means and counted (no_relevant='exclude')."
        )


class NoRetrieval(RagMetricsError, ValueError):
    """What was retrieved wasn't given: that is not the same as an empty retrieval."""

    def __init__(self, argument: str) -> None:
        super().__init__(argument)
        self.argument = argument

    def __str__(self) -> str:
        return f"{self.argument} is None: pass what was retrieved; an empty list is fine, and scores 0."


class IdTypeMismatch(RagMetricsError, TypeError, ValueError):
    """Expected and retrieved ids have different types, so they could never match."""

    def __init__(self, type_names: Iterable[str]) -> None:
        super().__init__(tuple(sorted(type_names)))

    def __str__(self) -> str:
        return (
            f"expected_ids and retrieved_ids mix ids of different types ({', '.join(self.args[0])}); "
            "ids compare exactly, so these can never match. Convert one side, e.g. with str()."
        )


class UnknownName(RagMetricsError, ValueError):
    """A name that isn't known, with the nearest right ones."""

    kind: ClassVar[str] = "name"
    remedy: ClassVar[str] = ""

    def __init__(self, given: str, nearest: Sequence[str] = ()) -> None:
        super().__init__(given, tuple(nearest))
        self.given = given
        self.nearest = tuple(nearest)

    def __str__(self) -> str:
        guess = f" Did you mean {' or '.join(map(repr, self.nearest))}?" if self.nearest else ""
        return f"unknown {self.kind} {self.given!r}.{guess} {self.remedy}".rstrip()


class UnknownMetric(UnknownName):
    """No metric has that name."""

    kind = "metric"
    remedy = "`rag-metrics metrics` lists every metric with its parameters."


class UnknownParameter(UnknownName):
    """The metric has no such parameter."""

    kind = "metric parameter"


class DuplicateMetric(RagMetricsError, ValueError):
    """Two metrics of one evaluation have the same name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)

    def __str__(self) -> str:
        return (
            f"two metrics are called {self.args[0]!r}, and one would overwrite the other. Drop one, "
            "or give it other parameters: they are part of the name."
        )


class MissingExtra(RagMetricsError, ImportError):
    """An optional dependency isn't installed."""

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(purpose, extra)

    def __str__(self) -> str:
        purpose, extra = self.args
        return f"{purpose} needs an extra: python -m pip install 'llama-index-rag-metrics[{extra}]'"


def _shorten(value: object, limit: int = 120) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
