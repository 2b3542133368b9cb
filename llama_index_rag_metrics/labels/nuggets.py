"""Nuggets: what good answers say, which passages support it, and people's reviews of both."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llama_index_rag_metrics.files.fields import NUGGETS, QUERY, QUERY_ID, first_of
from llama_index_rag_metrics.files.file_kinds import FACTS, read_as
from llama_index_rag_metrics.files.lines import from_json, read_lines, to_json, write_lines
from llama_index_rag_metrics.files.records import nuggets_record, read_id, read_nuggets
from llama_index_rag_metrics.labels.nugget_passages import PassagesLike, texts_of
from llama_index_rag_metrics.labels.review.review_items import ItemKey, ReviewItem, ReviewPool
from llama_index_rag_metrics.labels.review.review_judgements import Judgement, read_reviews
from llama_index_rag_metrics.rankings.relevance import Nugget, Relevance, facets_of, vital_first
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.amounts import check_amount
from llama_index_rag_metrics.runtime.cache.fetching import Usage
from llama_index_rag_metrics.runtime.errors import InvalidInput

if TYPE_CHECKING:
    from llama_index_rag_metrics.report.model import Report


@dataclass(frozen=True, eq=False, repr=False)
class Nuggets(Mapping[str, Sequence[Nugget]], Reportable):
    """The nuggets of each question: query id to nuggets, the most important first.

    Attributes:
        by_query: query id to nuggets; none where a question failed.
        queries: query id to question.
        errors: query id to what went wrong, of the questions or passages that failed.
        usage: what the LLM was asked for.

    Raises:
        InvalidInput: a question has a nugget twice.

    Examples:
        >>> nuggets = Nuggets({"q1": [Nugget("a moon of Saturn", supports={"d1": "full"})]})
        >>> nuggets.relevance()
        {'q1': Relevance.facets({'a moon of Saturn': ['d1']})}
    """

    by_query: Mapping[str, Sequence[Nugget]]
    queries: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)

    def __post_init__(self) -> None:
        for query_id, nuggets in self.by_query.items():
            texts = [nugget.text for nugget in nuggets]
            if repeated := next((text for text in texts if texts.count(text) > 1), None):
                raise InvalidInput(f"nuggets of {query_id!r}", repeated, "every nugget once")

    def __getitem__(self, query_id: str) -> Sequence[Nugget]:
        return self.by_query[query_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_query)

    def __len__(self) -> int:
        return len(self.by_query)

    def relevance(
        self,
        *,
        partial: bool = False,
        vital_only: bool = False,
        vital_weight: float = 1.0,
        okay_weight: float = 0.5,
    ) -> dict[str, Relevance]:
        """The nuggets as facets, by question: what every metric of rankings takes.

        With the defaults, `facet_recall` is AutoNuggetizer's "Weighted Strict"; with `vital_only`
        "Vital Strict", with `okay_weight=1` "All Strict". A nugget without support counts as
        missed. Passages that support nothing have grade 0.

        Args:
            partial: whether support in part counts.
            vital_only: without the nuggets that are okay.
            vital_weight: the weight of a vital nugget in `facet_recall`, above 0.
            okay_weight: that of another one, above 0; ignored with `vital_only`.

        Returns:
            Without the questions that have no supports: they are unjudged.

        Raises:
            InvalidInput: a weight isn't above 0.
        """
        weights = {"vital_weight": vital_weight}
        if not vital_only:
            weights["okay_weight"] = okay_weight
        for argument, weight in weights.items():
            expected = "a number above 0"
            check_amount(argument, weight, expected, lambda value: 0 < value < math.inf)
        return {
            query_id: facets_of(
                nuggets,
                partial=partial,
                vital_only=vital_only,
                vital_weight=vital_weight,
                okay_weight=okay_weight,
            )
            for query_id, nuggets in self.by_query.items()
            if any(nugget.supports for nugget in nuggets)
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write JSON lines, one a question, which can be edited, and which `read_qrels` reads.

        After rewording a nugget delete its supports, so that `assign_nuggets` finds them anew.
        """
        records = (
            nuggets_record(key, self.queries.get(key, ""), of_query, self.errors.get(key))
            for key, of_query in self.items()
        )
        write_lines(Path(path), map(to_json, records))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Nuggets:
        """Read what `save` or the nuggetizer of TREC's RAG track wrote.

        Raises:
            FileFormatError: a line can't be read; says where and why.
            FileNotFoundError: there is no such file.
        """
        by_query: dict[str, list[Nugget]] = {}
        queries: dict[str, str] = {}
        errors: dict[str, str] = {}
        with read_as(FACTS, Path(path)):
            for place, line in read_lines(Path(path)):
                record = from_json(line, place)
                if not isinstance(record, Mapping) or NUGGETS not in record:
                    raise place.wrong(f"a question with {NUGGETS!r}", record)
                query_id = read_id(first_of(record, QUERY_ID), place)
                if query_id in by_query:
                    raise place.wrong("every question once", query_id)
                by_query[query_id] = read_nuggets(record[NUGGETS], place)
                if texts := [str(record[name]) for name in QUERY if record.get(name)]:
                    queries[query_id] = texts[0]
                if record.get("error"):
                    errors[query_id] = str(record["error"])
        return cls(by_query, queries, errors)

    def to_review(
        self,
        path: str | os.PathLike[str],
        passages: PassagesLike | None = None,
        *,
        corpus: Mapping[str, str] | None = None,
        depth: int | None = 10,
    ) -> None:
        """Write what people are to judge, for `rag-metrics labels review`.

        Without passages: whether each nugget is vital, okay or to be dropped. With them: how far
        each passage supports each nugget. The LLM's own labels are hidden.

        Args:
            path: the file, JSON lines.
            passages, corpus, depth: as of `assign_nuggets`.

        Raises:
            InvalidInput: the text of a passage isn't known.
        """
        texts: Mapping[str, Mapping[Any, str]] = {query_id: {None: ""} for query_id in self}
        if passages is not None:
            texts = texts_of(passages, list(self), depth, corpus)
        scale = _IMPORTANCE if passages is None else _SUPPORT
        items = [
            ReviewItem(ItemKey(query_id, doc_id, nugget.text), question, text, nugget.text, scale)
            for query_id, of_query in texts.items()
            for question in [self.queries.get(query_id, "")]
            for doc_id, text in of_query.items()
            for nugget in self[query_id]
        ]
        ReviewPool(items).to_jsonl(path)

    def reviewed(self, *paths: str | os.PathLike[str]) -> Nuggets:
        """The nuggets with people's judgements, vital ones first; the rest stays.

        Args:
            paths: what `rag-metrics labels review` exported; later files count more.

        Raises:
            FileFormatError: a line can't be read.
            InvalidInput: a judgement is about a nugget that isn't there.
        """
        importances: dict[tuple[str, str], Any] = {}
        supports: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
        texts = {key: {nugget.text for nugget in nuggets} for key, nuggets in self.items()}
        for judgement in (judgement for path in paths for judgement in reviews_of_nuggets(path)):
            query_id, doc_id, text = judgement.key
            if text is None or not judgement.is_judged:
                continue
            if text not in texts.get(query_id, ()):
                raise InvalidInput("nugget_id", text, f"a nugget of {query_id!r}", _REWORDED)
            if doc_id is not None and judgement.scale == _SUPPORT:
                supports[query_id, text][doc_id] = judgement.grade
            elif doc_id is None and judgement.scale == _IMPORTANCE:
                importances[query_id, text] = judgement.grade
            else:
                expected = f"{_IMPORTANCE!r} of a nugget, or {_SUPPORT!r} of it by a passage"
                raise InvalidInput("scale", judgement.scale, expected)
        by_query = {
            query_id: vital_first(
                replace(
                    nugget,
                    importance=importances.get((query_id, nugget.text), nugget.importance),
                    supports={**nugget.supports, **supports[query_id, nugget.text]},
                )
                for nugget in nuggets
                if importances.get((query_id, nugget.text)) != _DROP
            )
            for query_id, nuggets in self.items()
        }
        return replace(self, by_query=by_query)

    def report(self, *, full: bool = False) -> Report:
        """How many nuggets there are, how far they are supported, and which have no support."""
        from llama_index_rag_metrics.labels.nuggets_report import nuggets_report

        return nuggets_report(self, full=full)


_IMPORTANCE, _SUPPORT = "importance", "support"
"""The scales of the page on which nuggets are judged."""

_DROP = "drop"
_REWORDED = "Was it reworded since? Then it has to be reviewed anew."


def reviews_of_nuggets(path: str | os.PathLike[str]) -> list[Judgement]:
    """The judgements in a file, some of which must be of nuggets."""
    reviews = read_reviews(path)
    if reviews and all(judgement.key.nugget_id is None for judgement in reviews):
        remedy = "Review what --to-review or to_review() wrote."
        raise InvalidInput("reviewed", Path(path).name, "judgements of nuggets", remedy)
    return reviews
