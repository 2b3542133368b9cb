"""How far two judges agree beyond chance, Cohen's kappa, and where they don't.

κ = (o - e) / (1 - e), of the observed agreement and that of the same scores in any pairing (Cohen
1960). The interval is Wilson's of o, with e as it is.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from llama_index_rag_metrics.files.read_runs import read_qrels
from llama_index_rag_metrics.files.records import Qrels, format_grade
from llama_index_rag_metrics.rankings.relevance import RelevanceLike
from llama_index_rag_metrics.report.model import Cell, Listing, Records, Report, Statement
from llama_index_rag_metrics.report.numbers import counted, mean_of, shown
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.statistics.intervals import check_confidence, mean_interval

JudgementsLike: TypeAlias = "Mapping[str, RelevanceLike] | str | os.PathLike[str]"

_EXPLAINED = "Kappa is the agreement beyond chance: 1 if they always agree, 0 if as by chance."
_MOST_SHOWN, _MOST_ON_PAGE = 5, 200


class Disagreement(NamedTuple):
    """A passage that two judges grade differently."""

    query_id: str
    doc_id: str
    first: float
    second: float

    def __str__(self) -> str:
        return f"{self.doc_id}: {format_grade(self.first)} and {format_grade(self.second)}"


@dataclass(frozen=True, repr=False)
class Agreement(Reportable):
    """How far two judges agree: Cohen's kappa, and the passages on which they don't."""

    kappa: float  # 1: they always agree, 0: as often as by chance; NaN: all grades are the same
    low: float | None  # the lower end of its interval, or None where none can be given
    high: float | None  # the upper end
    n: int  # how many passages both judged
    disagreements: Sequence[Disagreement] = ()  # what they grade differently, with both grades

    def report(self, *, full: bool = False) -> Report:
        """Kappa with its interval, and the passages on which the two differ."""
        passages = counted(self.n, "passage", "passages")
        sentence = "Kappa has no value: all grades are the same."
        if not math.isnan(self.kappa):
            kappa = mean_of(Cell(self.kappa, "score", low=self.low, high=self.high), self.n)
            sentence = f"Kappa {shown(kappa)} on {passages}. {_EXPLAINED}"
        remarks = [(pair.query_id, "", [str(pair)]) for pair in self.disagreements]
        n_listed = _MOST_ON_PAGE if full else _MOST_SHOWN
        return Report(
            title="Agreement",
            lead=f"{len(remarks):,} of {passages} graded differently",
            decision=[Statement(sentence)],
            listings=[Listing.of("Graded differently", remarks, n_listed)],
            records=Records.of_fields(self.disagreements, Disagreement._fields),
        )


def agreement(
    first: JudgementsLike, second: JudgementsLike, *, confidence: float = 0.95
) -> Agreement:
    """Cohen's kappa of two judges over the passages that both graded, and where they differ.

    Args:
        first: query id to relevance, such as of `LLMRelevancy.grade`, or a file that the review
            page exported; negative grades mean unjudged.
        second: the same by somebody else.
        confidence: of the interval, in which the passages of a question belong together.

    Raises:
        FileFormatError: a line of a file can't be read; says where and why.
        InvalidInput: they have no passage in common, or an argument can't be used.

    Examples:
        >>> agreed = agreement({"q": {"a": 3, "b": 0}}, {"q": {"a": 3, "b": 1}})
        >>> [(pair.doc_id, pair.first, pair.second) for pair in agreed.disagreements], agreed.n
        ([('b', 0.0, 1.0)], 2)
    """
    check_confidence(confidence)
    labels = read_qrels(second)
    pairs = list(_graded_by_both(read_qrels(first), labels))
    if not pairs:
        expected = "grades of some of the questions and passages that the first judged"
        remedy = "Look whether both use the same ids."
        raise InvalidInput("second", "none of them", expected, remedy)
    disagreements = tuple(pair for pair in pairs if pair.first != pair.second)
    n = len(pairs)
    query_ids, _, our_grades, their_grades = zip(*pairs, strict=True)
    # (values,) the different grades; (n,) which of them each judge gave
    values, numbers = np.unique(np.round(our_grades + their_grades, 12), return_inverse=True)
    if len(values) < 2:
        return Agreement(math.nan, None, None, n)
    ours, theirs = numbers[:n], numbers[n:]
    our_shares = np.bincount(ours, minlength=len(values)) / n
    their_shares = np.bincount(theirs, minlength=len(values)) / n
    chance = float(np.mean([their_shares[ours], our_shares[theirs]]))
    observed = mean_interval((ours == theirs).tolist(), confidence=confidence, clusters=query_ids)
    kappa = (observed.mean - chance) / (1 - chance)
    if observed.low is None or observed.high is None:
        return Agreement(kappa, None, None, n, disagreements)
    ends = (np.array([observed.low, observed.high]) - chance) / (1 - chance)
    low, high = np.maximum(-1.0, ends).tolist()
    return Agreement(kappa, low, high, n, disagreements)


def _graded_by_both(first: Qrels, second: Qrels) -> Iterator[Disagreement]:
    for query_id in filter(second.__contains__, first):
        second_grades = second[query_id].grades
        for item, grade in first[query_id].grades.items():
            second_grade = second_grades.get(item, -1)
            if grade >= 0 and second_grade >= 0:
                yield Disagreement(query_id, item, grade, second_grade)
