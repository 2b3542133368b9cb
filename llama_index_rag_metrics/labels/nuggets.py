"""Nuggets: what good answers say, which passages support it, and people's reviews of both."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from llama_index_rag_metrics.files.fields import NUGGETS, QUERY, QUERY_ID, first_of
from llama_index_rag_metrics.files.file_kinds import FACTS, read_as
from llama_index_rag_metrics.files.lines import from_json, read_lines, to_json, write_lines
from llama_index_rag_metrics.files.records import nuggets_record, read_id, read_nuggets
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.labels import grouped
from llama_index_rag_metrics.labels.review.reviews import (
    ItemKey,
    Judgement,
    ReviewItem,
    ReviewPool,
    read_reviews,
)
from llama_index_rag_metrics.rankings.relevance import (
    Nugget,
    Relevance,
    Support,
    facets_of,
    vital_first,
)
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.failures import errors_in_words
from llama_index_rag_metrics.report.numbers import counted, questions
from llama_index_rag_metrics.report.reportable import Reportable
from llama_index_rag_metrics.runtime.amounts import check_amount, check_integer
from llama_index_rag_metrics.runtime.cache.fetching import Usage
from llama_index_rag_metrics.runtime.errors import InvalidInput

Texts: TypeAlias = "Mapping[str, Mapping[str, str]]"

PassagesLike: TypeAlias = "Run | Sequence[Run] | Texts"


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
        weights = {"vital_weight": vital_weight, "okay_weight": okay_weight}
        for argument, weight in [*weights.items()][: 1 if vital_only else 2]:
            expected = "a number above 0"
            check_amount(argument, weight, expected, lambda value: 0 < value < math.inf)
        return {
            query_id: facets_of(nuggets, partial=partial, vital_only=vital_only, **weights)
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
        """Read what `save` or the nuggetizer of TREC's RAG track wrote; an error names the line."""
        by_query: dict[str, list[Nugget]] = {}
        queries: dict[str, str] = {}
        errors: dict[str, str] = {}
        with read_as(FACTS, Path(path)):
            for place, line in read_lines(Path(path)):
                record = from_json(line, place)
                has_nuggets = isinstance(record, Mapping) and NUGGETS in record
                place.check(has_nuggets, f"a question with {NUGGETS!r}", record)
                query_id = read_id(first_of(record, QUERY_ID), place)
                place.check(query_id not in by_query, "every question once", query_id)
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
            if judgement.scale != (_IMPORTANCE if doc_id is None else _SUPPORT):
                expected = f"{_IMPORTANCE!r} of a nugget, or {_SUPPORT!r} of it by a passage"
                raise InvalidInput("scale", judgement.scale, expected)
            if doc_id is None:
                importances[query_id, text] = judgement.grade
            else:
                supports[query_id, text][doc_id] = judgement.grade
        judged = self.with_supports(supports)
        by_query = {
            query_id: vital_first(
                replace(nugget, importance=importances.get(key, nugget.importance))
                for nugget in nuggets
                if importances.get(key := (query_id, nugget.text)) != _DROP
            )
            for query_id, nuggets in judged.items()
        }
        return replace(self, by_query=by_query)

    def with_supports(self, supports: Mapping[tuple[str, str], Mapping[str, Support]]) -> Nuggets:
        """The nuggets with further supports, which prevail, by query id and text."""
        by_query = {
            query_id: [
                replace(nugget, supports={**nugget.supports, **supports.get(key, {})})
                for nugget in nuggets
                for key in [(query_id, nugget.text)]
            ]
            for query_id, nuggets in self.items()
        }
        return replace(self, by_query=by_query)

    def report(self, *, full: bool = False) -> m.Report:
        """How many nuggets there are, how far they are supported, and which have no support."""
        return _report(self, _MOST_ON_PAGE if full else _MOST_SHOWN)


def texts_of(
    source: PassagesLike,
    query_ids: Sequence[str],
    depth: int | None,
    corpus: Mapping[str, str] | None = None,
) -> dict[str, dict[str, str]]:
    """The texts by question and id: of the first distinct items of each ranking, or of all."""
    if depth is not None:
        check_integer("depth", depth, 1, "a number of passages of each ranking, from 1 on")
    texts: dict[str, dict[str, str]] = {}
    if isinstance(source, Mapping) and not isinstance(source, Run):
        for query_id in filter(source.__contains__, query_ids):
            given = source[query_id]
            texts_given = given.values() if isinstance(given, Mapping) else [None]
            if not all(isinstance(text, str) for text in texts_given):
                raise InvalidInput(f"passages of {query_id!r}", given, "{passage id: text}")
            texts[query_id] = dict(given)
        return texts
    runs = [source] if isinstance(source, Run) else source
    if not isinstance(runs, Sequence) or not all(isinstance(run, Run) for run in runs):
        raise InvalidInput("passages", source, "a Run, a list of them, or {query id: {id: text}}")
    for run in runs:
        for query_id in filter(run.__contains__, query_ids):
            ranking, known = run[query_id], corpus or {}
            if ranking.texts is not None:
                # the first text of a repeated item counts
                known = dict(zip(reversed(ranking.ids), reversed(ranking.texts), strict=True))
            ids = list(dict.fromkeys(ranking.ids))[:depth]
            if unknown := [item for item in ids if item not in known]:
                argument = f"texts of what was retrieved for {query_id!r}"
                remedy = "Give a run with texts, or corpus={id: text}."
                raise InvalidInput(argument, unknown[0], "the text of every passage", remedy)
            texts.setdefault(query_id, {}).update({item: known[item] for item in ids})
    return texts


def corpus_of(dataset: RetrievalDataset) -> dict[str, str]:
    return {document_id: dataset.indexed_text(document_id) for document_id in dataset.corpus}


def labelled_texts(dataset: RetrievalDataset) -> dict[str, dict[str, str]]:
    texts: dict[str, dict[str, str]] = {}
    for query_id in dataset.queries:
        relevance = dataset.relevance.get(query_id, Relevance())
        best_first = sorted(relevance, key=lambda item: -relevance.grades[item])
        known = {item: dataset.indexed_text(item) for item in best_first if item in dataset.corpus}
        if not known:
            expected = dataset.expected_texts.get(query_id, ())
            known = {f"expected {place}": text for place, text in enumerate(expected, 1)}
        if known:
            texts[query_id] = known
    return texts


_IMPORTANCE, _SUPPORT = "importance", "support"

_DROP = "drop"
_REWORDED = "Was it reworded since? Then it has to be reviewed anew."


def reviews_of_nuggets(path: str | os.PathLike[str]) -> list[Judgement]:
    reviews = read_reviews(path)
    if reviews and all(judgement.key.nugget_id is None for judgement in reviews):
        remedy = "Review what --to-review or to_review() wrote."
        raise InvalidInput("reviewed", Path(path).name, "judgements of nuggets", remedy)
    return reviews


_MOST_SHOWN, _MOST_ON_PAGE = 5, 500


def _report(nuggets: Nuggets, most: int) -> m.Report:
    rows = [(query_id, nugget) for query_id, of_query in nuggets.items() for nugget in of_query]
    every = [nugget for _, nugget in rows]
    is_assigned = any(nugget.supports for nugget in every)
    remarks = {"Failed": {query_id: [error] for query_id, error in nuggets.errors.items()}}
    if is_assigned:
        missing = [(key, _line(nugget)) for key, nugget in rows if not nugget.supported_by()]
        remarks["Without a passage that supports it"] = grouped(missing)
    return m.Report(
        title="Nuggets",
        lead=f"{questions(len(nuggets))}, {counted(len(every), 'nugget', 'nuggets')}",
        decision=[_decision(nuggets, every, is_assigned=is_assigned)],
        sections=[m.Section("Nuggets", [_table(every, is_assigned=is_assigned)])],
        listings=[
            m.Listing.of(
                title,
                [(key, nuggets.queries.get(key, ""), lines) for key, lines in by_query.items()],
                most,
            )
            for title, by_query in remarks.items()
        ],
        notes=[str(nuggets.usage)] if nuggets.usage.requests or nuggets.usage.cached else [],
        records=m.Records(
            {
                "query_id": [query_id for query_id, _ in rows],
                "nugget": [nugget.text for nugget in every],
                "importance": [nugget.importance for nugget in every],
                "full": [nugget.supported_by() for nugget in every],
                "partial": [_in_part(nugget) for nugget in every],
                "looked_at": [len(nugget.supports) for nugget in every],
            }
        ),
    )


def _decision(nuggets: Nuggets, every: Sequence[Nugget], *, is_assigned: bool) -> m.Statement:
    if nuggets.errors:
        failed = counted(len(nuggets.errors), "question has", "questions have")
        why = errors_in_words([*nuggets.errors.values()])
        return m.Statement(f"{failed} errors ({why}).", "alarm")
    if not every:
        return m.Statement("There are no nuggets.", "open")
    if not is_assigned:
        return m.Statement("No passage was compared with them yet: use assign_nuggets().", "open")
    if missing := sum(1 for nugget in every if not nugget.supported_by()):
        lack = counted(missing, "nugget has", "nuggets have")
        text = f"{lack} no passage that supports {'it' if missing == 1 else 'them'} in full."
        return m.Statement(text, "open")
    return m.Statement("Every nugget has a passage that supports it in full.", "best")


def _table(every: Sequence[Nugget], *, is_assigned: bool) -> m.Table:
    rows = []
    for importance in ("vital", "okay"):
        nuggets = [nugget for nugget in every if nugget.importance == importance]
        n, cells = len(nuggets), [m.Cell(len(nuggets), "count")]
        if is_assigned:
            full = sum(1 for nugget in nuggets if nugget.supported_by())
            at_all = sum(1 for nugget in nuggets if nugget.supported_by(partial=True))
            cells += [m.Cell((part, n), "share") for part in (full, at_all - full, n - at_all)]
        rows.append(m.Row(importance, cells))
    head = ["nuggets", "supported", "in part only", "by none"]
    return m.Table("", head if is_assigned else head[:1], [rows], first="importance")


def _in_part(nugget: Nugget) -> list[str]:
    return [passage for passage, support in nugget.supports.items() if support == "partial"]


def _line(nugget: Nugget) -> str:
    by = f" (in part: {', '.join(partly)})" if (partly := _in_part(nugget)) else ""
    return f"{nugget.importance}: {nugget.text}{by}"
