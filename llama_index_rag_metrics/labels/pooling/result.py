"""What a pool came to: what to judge next, and how certain each verdict is by now."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from llama_index_rag_metrics.formats.lines import to_json, write_lines
from llama_index_rag_metrics.report.reportable import Reportable

if TYPE_CHECKING:
    from llama_index_rag_metrics.report import Report

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
        from llama_index_rag_metrics.labels.pooling.report import pool_report

        return pool_report(self)
