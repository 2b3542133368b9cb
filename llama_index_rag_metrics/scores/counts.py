"""Counts: how many queries the means of scores stand on, and how many are special."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Literal, TypeAlias

Reason: TypeAlias = Literal["unjudged", "no_relevant", "failed"]
"""Why a query is left out of the means."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many queries the means are taken over, and how many are special.

    `failed` and `empty` are counted among all queries, so that they may also count as `no_relevant`
    or `unjudged`.

    Attributes:
        queries: all queries.
        scored: those that the means are taken over.
        failed: the retriever failed; scored 0, unless left out of the means by `failed="exclude"`
            or as `no_relevant` or `unjudged`.
        empty: nothing was retrieved, without an error; scored 0, unless left out of the means as
            `no_relevant` or `unjudged`.
        no_relevant: judged, but with nothing relevant; left out unless `no_relevant="zero"`.
        unjudged: without any relevance given; left out.
    """

    queries: int = 0
    scored: int = 0
    failed: int = 0
    empty: int = 0
    no_relevant: int = 0
    unjudged: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    @property
    def notes(self) -> list[str]:
        if self.scored:
            return []
        why = {
            "unjudged": self.unjudged,
            "without anything relevant": self.no_relevant,
            "failed": self.queries - self.unjudged - self.no_relevant,
        }
        parts = [f"{n:,} {what}" for what, n in why.items() if n]
        listed = f"of {self.queries:,} queries, {' and '.join(parts)}" if parts else "no queries"
        return [f"no ranking metric has a value: {listed}"]
