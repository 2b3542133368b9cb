"""What a pool came to: what to judge next, and how certain each verdict is by now."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from llama_index_rag_metrics.files.lines import to_json, write_lines
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.arrays import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from llama_index_rag_metrics.report import Report


@dataclass(frozen=True, eq=False)
class PoolItems:
    """The items of all questions, those of a question together.

    Attributes:
        query_ids: the questions.
        ids: (items,) the id of each item; of what was retrieved by nobody, too, where it was
            judged: relevant items that nobody found count in recall.
        query: (items,) position of each item's question.
        rank: (items, systems) its rank by each system; 0 where that didn't retrieve it in sight.
        depth: (queries, systems) how many distinct items each system retrieved.
        grade: (items,) its grade; NaN where it is unjudged.
    """

    query_ids: Sequence[str]
    ids: Sequence[str]
    query: IntArray
    rank: IntArray
    depth: IntArray
    grade: FloatArray

    @classmethod
    def of(
        cls,
        runs: Sequence[Run],
        query_ids: Sequence[str],
        judgements: Mapping[str, Relevance],
        depth: int | None,
    ) -> PoolItems:
        """The items of some runs, to a depth (None: all). Negative grades mean unjudged."""
        ids: list[str] = []
        query: list[int] = []
        rank: list[list[int]] = []
        depths = np.zeros((len(query_ids), len(runs)), np.int64)
        grade: list[float] = []
        for position, query_id in enumerate(query_ids):
            rankings = [
                list(dict.fromkeys(run[query_id].ids)) if query_id in run else [] for run in runs
            ]
            depths[position] = [len(ranking) for ranking in rankings]
            in_sight = [ranking[:depth] for ranking in rankings]
            places = [{item: n for n, item in enumerate(ranking, 1)} for ranking in in_sight]
            grades = judgements.get(query_id, Relevance()).grades
            seen = dict.fromkeys(chain.from_iterable(in_sight))
            own = [*seen, *(item for item in grades if item not in seen)]
            ids += own
            query += [position] * len(own)
            rank += [[place.get(item, 0) for place in places] for item in own]
            known = (grades.get(item, -1.0) for item in own)
            grade += [item_grade if item_grade >= 0 else np.nan for item_grade in known]
        return cls(
            query_ids,
            ids,
            np.array(query, np.int64),
            np.array(rank, np.int64).reshape(-1, len(runs)),
            depths,
            np.array(grade, np.float64),
        )

    @property
    def unjudged(self) -> BoolArray:
        """(items,) whether an item is in sight and has no judgement."""
        return np.asarray(np.isnan(self.grade) & (self.rank > 0).any(axis=1), np.bool_)

    @property
    def tells_rates(self) -> bool:
        """Whether items in sight were judged relevant and others not, so that rates can be learned.

        Labels that list relevant items alone don't tell how many others were looked at.
        """
        grade = self.grade[(self.rank > 0).any(axis=1)]
        return bool((grade > 0).any() and (grade == 0).any())

    @property
    def known(self) -> FloatArray:
        """(items,) the grades, 0 for what is unjudged."""
        return np.nan_to_num(self.grade, nan=0.0)


State: TypeAlias = Literal["certain", "likely", "open"]
"""Whether no judgement can turn a verdict, hardly any would, or it is open."""


@dataclass(frozen=True, slots=True)
class PoolItem:
    """Something to be judged.

    Attributes:
        query_id: the question.
        id: the passage.
        weight: how much its judgement could tell, larger is more; comparable within one pool only.
    """

    query_id: str
    id: str
    weight: float


@dataclass(frozen=True, slots=True)
class PairOutlook:
    """A comparison of two systems, with what is judged and what could be.

    Attributes:
        first: the system that is ahead.
        second: the other one.
        difference: of their means, first - second, with unjudged items as not relevant.
        low: what the difference is at least, however the rest is judged.
        high: what it is at most.
        chance: how likely it is that judging the rest turns the verdict, in [0, 1].
        state: "certain" where none can turn it, "likely" where the difference isn't 0, the
            chance is at most the level, and relevant items as well as others were judged.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    chance: float
    state: State


@dataclass(frozen=True)
class Pool(Reportable):
    """What to judge next.

    Attributes:
        items: what to judge, the most telling first.
        pairs: each comparison and how certain it is.
        metric: the metric that decides.
        level: the chance below which a verdict counts as decided.
        n_judged: how many of the items in sight of the metric are judged.
        n_unjudged: how many aren't.
        queries: query id to question, where it is known.
        texts: (query id, passage) to text, where it is known.

    Examples:
        >>> from llama_index_rag_metrics import pool
        >>> outlook = pool({"a": {"q": ["x", "y"]}, "b": {"q": ["x", "z"]}}, metric="precision@2")
        >>> outlook.is_enough, outlook.n_judged, outlook.n_unjudged
        (False, 0, 3)
    """

    items: Sequence[PoolItem]
    pairs: Sequence[PairOutlook]
    metric: str
    level: float
    n_judged: int
    n_unjudged: int
    queries: Mapping[str, str] = field(default_factory=dict, repr=False)
    texts: Mapping[tuple[str, str], str] = field(default_factory=dict, repr=False)

    @property
    def is_enough(self) -> bool:
        """Whether every verdict is certain or likely, so that judging can stop."""
        return all(pair.state != "open" for pair in self.pairs)

    def __len__(self) -> int:
        return len(self.items)

    def to_jsonl(self, path: str | os.PathLike[str]) -> None:
        """Write the items for those who judge: query_id, query, doc_id, text; one per line.

        Nothing in it tells which system found an item, or at which rank. `write_review_page` makes
        a page of it; with a "grade" in every line, `read_qrels` reads the file.
        """
        write_lines(Path(path), map(to_json, self.records()))

    def records(self) -> Iterator[dict[str, str]]:
        """The items as `to_jsonl` writes them."""
        for item in self.items:
            yield {
                "query_id": item.query_id,
                "query": self.queries.get(item.query_id, ""),
                "doc_id": item.id,
                "text": self.texts.get((item.query_id, item.id), ""),
            }

    def report(self, *, full: bool = False) -> Report:
        """How certain each verdict is, and what to judge next."""
        from llama_index_rag_metrics.labels.pooling_report import pool_report

        return pool_report(self)
