"""Options of scoring as one value, checked once, that goes from a public function to the work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from llama_index_rag_metrics.rankings.judging import ALL_RETRIEVED, Selection
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.tokens import TokenCounter, Tokenizer
from llama_index_rag_metrics.runtime.errors import InvalidInput

NoRelevant: TypeAlias = Literal["exclude", "zero", "error"]
Failed: TypeAlias = Literal["zero", "exclude"]


@dataclass(frozen=True)
class ScoringOptions:
    """Which queries count in the means, and which of their items.

    Attributes:
        tokenizer: counts the tokens of rankings that have texts but no token counts.
        tolerant: whether a metric that raises has no value, and an error, instead of ending it all.
        checks_ids: whether to say so where labels and rankings have no ids in common.
    """

    no_relevant: NoRelevant = "exclude"
    failed: Failed = "zero"
    selection: Selection = ALL_RETRIEVED
    tokenizer: Tokenizer | TokenCounter | None = None
    tolerant: bool = False
    checks_ids: bool = True

    def __post_init__(self) -> None:
        for argument, choices in (("no_relevant", NoRelevant), ("failed", Failed)):
            value = getattr(self, argument)
            if value not in get_args(choices):
                expected = " or ".join(map(repr, get_args(choices)))
                raise InvalidInput(argument, value, expected)

    def check(self, relevance: Mapping[str, Relevance]) -> None:
        """Under no_relevant="error", raise for the first query with nothing relevant."""
        if self.no_relevant == "error":
            for query_id, judged in relevance.items():
                if not judged:
                    raise nothing_relevant(query_id, judged)


EVERY_QUERY = ScoringOptions("zero", "zero", checks_ids=False)
"""All queries count, whatever is known of them."""


def nothing_relevant(query_id: object, relevance: object) -> InvalidInput:
    return InvalidInput(
        f"relevance of query {query_id!r}",
        relevance,
        "a grade above 0",
        "Leave such queries out of the means with no_relevant='exclude'.",
    )
