"""Whether labels and rankings speak of the same questions and passages at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from llama_index_rag_metrics.judging import BoolArray, JudgedRankings
from llama_index_rag_metrics.relevance import Relevance
from llama_index_rag_metrics.wording import shorten

_FEW_QUESTIONS, _FEW_PASSAGES = 10, 100
"""One in this many is next to nothing."""


@dataclass(frozen=True)
class Sides:
    """The labels and rankings of a batch, as they were given.

    Attributes:
        question: the id of the question at a position.
        pair: its labels and its retrieved ids.
    """

    question: Callable[[int], object]
    pair: Callable[[int], tuple[Any, Any]]


@dataclass(frozen=True)
class Overlap:
    """What labels and rankings have in common; the overlaps of batches add up.

    Attributes:
        n_judged: how many questions have labels.
        n_ranked: how many questions something was retrieved for.
        n_both: how many are both.
        n_possible: how many labels the rankings of their questions have room for.
        n_shared: how many of them were retrieved.
        judged: a judged question without a ranking; "" where there is none.
        ranked: a question with a ranking and without labels.
        example: a question, a label of it, and an id retrieved for it, where these differ.
    """

    n_judged: int = 0
    n_ranked: int = 0
    n_both: int = 0
    n_possible: int = 0
    n_shared: int = 0
    judged: str = ""
    ranked: str = ""
    example: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        judged: JudgedRankings,
        is_judged: BoolArray,
        is_failed: BoolArray,
        sides: Sides,
        *,
        by_id: bool,
    ) -> Overlap:
        """What a batch has in common; `by_id` says whether ids of passages are compared."""
        is_ranked = (judged.depth > 0) | is_failed
        possible = np.minimum(judged.depth, judged.n_gaining) * by_id
        n_possible, n_shared = int(possible.sum()), len(judged.item_query) * by_id
        example: tuple[str, ...] = ()
        if n_possible and _is_little(n_shared, n_possible, _FEW_PASSAGES):
            possible[judged.item_query] = 0
            apart = (
                (shorten(sides.question(row)), row) for row in np.flatnonzero(possible).tolist()
            )
            question, row = min(apart)
            judgements, retrieved = sides.pair(row)
            label = next(iter(Relevance.of(judgements)))
            example = question, shorten(label), shorten(next(iter(retrieved)))
        return cls(
            int(is_judged.sum()),
            int(is_ranked.sum()),
            int((is_judged & is_ranked).sum()),
            n_possible,
            n_shared,
            _example(sides, is_judged & ~is_ranked),
            _example(sides, is_ranked & ~is_judged),
            example,
        )

    def __add__(self, other: Overlap) -> Overlap:
        return Overlap(
            self.n_judged + other.n_judged,
            self.n_ranked + other.n_ranked,
            self.n_both + other.n_both,
            self.n_possible + other.n_possible,
            self.n_shared + other.n_shared,
            self.judged or other.judged,
            self.ranked or other.ranked,
            min(filter(None, (self.example, other.example)), default=()),
        )

    @property
    def note(self) -> str | None:
        """What is wrong where the sides have nothing in common, or next to nothing."""
        n = min(self.n_judged, self.n_ranked)
        if self.judged and self.ranked and _is_little(self.n_both, n, _FEW_QUESTIONS):
            return (
                f"{self.n_both} of {self.n_judged:,} judged questions have a ranking, and "
                f"{self.n_ranked - self.n_both:,} rankings are of others: a judged question is "
                f"{self.judged}, a ranked one {self.ranked}. Question ids compare exactly: write "
                "them alike on both sides"
            )
        if self.example and _is_little(self.n_shared, self.n_possible, _FEW_PASSAGES):
            _, label, retrieved = self.example
            return (
                f"{self.n_shared:,} of {self.n_possible:,} labels were retrieved for their "
                f"questions: a label is {label}, an id retrieved for its question {retrieved}. Ids "
                "compare exactly: if both sides name the same passages, read the rankings by the "
                "ids of the labels, or match by text with match_run()"
            )
        return None


def _is_little(n: int, of: int, share: int) -> bool:
    return n * share <= of


def _example(sides: Sides, wanted: BoolArray) -> str:
    return shorten(sides.question(int(wanted.argmax()))) if wanted.any() else ""
