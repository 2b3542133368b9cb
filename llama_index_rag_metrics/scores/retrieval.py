"""What scores keep of what was retrieved and wanted, so that stories can be told of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

from llama_index_rag_metrics.rankings.matching.matched import Matched
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike, as_relevance
from llama_index_rag_metrics.rankings.run import Call, Ranking, Run
from llama_index_rag_metrics.rankings.span import Span

# the text of a passage, by its id or its place in a document; None where it isn't known
TextOf: TypeAlias = Callable[[str | Span], str | None]

# in files: of how many passages of a ranking the texts are kept, and how much of each
_TEXTS, _CHARACTERS = 10, 200


@dataclass(frozen=True, eq=False, repr=False)
class Retrieval:
    """The run that was scored, its labels, and what matchers made of it.

    Attributes:
        run: what was retrieved, by the ids that came.
        given: query id to its labels, as they were given.
        matched: metric to what its matcher made of the run, unless ids are compared.
        text_of: the text of a passage that wasn't retrieved.
        absent: ids of labels that name passages which can't be retrieved, as far as that is known.
    """

    run: Run
    given: Mapping[str, RelevanceLike | None] = field(default_factory=dict)
    matched: Mapping[str, Matched] = field(default_factory=dict)
    text_of: TextOf | None = None
    absent: Collection[str] = frozenset()

    @cached_property
    def relevance(self) -> Mapping[str, Relevance]:
        """Query id to its labels."""
        pairs = self.given.items()
        return {key: as_relevance(labels) for key, labels in pairs if labels is not None}

    def select(self, query_ids: Collection[str]) -> Retrieval:
        """The same of some of the questions."""
        run = self.run.select(filter(query_ids.__contains__, self.run))
        given = {key: labels for key, labels in self.given.items() if key in query_ids}
        return replace(self, run=run, given=given)

    def to_plain(self) -> dict[str, Any]:
        """All of it as JSON holds it, with the beginnings of texts."""
        plain: dict[str, Any] = {
            "run": _plain_rankings(self.run),
            "labels": _plain_labels(self.relevance),
            "texts": self._texts_of_labels(),
            "absent": sorted(map(str, self.absent)),
        }
        if self.run.min_score is not None:
            plain["min_score"] = self.run.min_score
        matched = next(iter(self.matched.values()), None)
        if matched is not None:
            plain["matched"] = {
                "metrics": list(self.matched),
                "matcher": matched.matcher,
                "run": _plain_rankings(matched.run, with_texts=False),
                "labels": _plain_labels(matched.relevance),
                "stands_for": {key: matched.stands_for.get(key, []) for key in self.run},
                "passages": {key: _cut_all(matched.passages.get(key, {})) for key in self.run},
                "errors": dict(matched.errors),
            }
        return plain

    def _texts_of_labels(self) -> dict[str, str]:
        """The beginnings of labelled passages, by id."""
        texts: dict[str, str] = {}
        if self.text_of is None:
            return texts
        for query_id in self.run:
            for item in self.relevance.get(query_id, ()):
                text = self.text_of(item)
                if text:
                    texts[item] = text[:_CHARACTERS]
        return texts

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> Retrieval:
        """The inverse of `to_plain`."""
        run = _read_run(plain["run"])
        run.min_score = plain.get("min_score")
        matched = {}
        if "matched" in plain:
            stored = plain["matched"]
            match = Matched(
                stored["matcher"],
                _read_run(stored["run"]),
                _read_labels(stored["labels"]),
                stored["stands_for"],
                {key: _read_passages(passages) for key, passages in stored["passages"].items()},
                stored["errors"],
            )
            matched = dict.fromkeys(stored["metrics"], match)
        texts = plain["texts"]
        absent = frozenset(plain["absent"])
        return cls(run, _read_labels(plain["labels"]), matched, texts.get, absent)


def _plain_labels(relevance: Mapping[str, Relevance]) -> dict[str, Any]:
    return {query_id: labels.to_plain() for query_id, labels in relevance.items()}


def _read_labels(plain: Mapping[str, Any]) -> dict[str, Relevance]:
    return {query_id: Relevance(labels) for query_id, labels in plain.items()}


def _plain_rankings(run: Run, *, with_texts: bool = True) -> dict[str, Any]:
    return {query_id: _plain_items(ranking, with_texts) for query_id, ranking in run.items()}


def _plain_items(items: Ranking, with_texts: bool) -> dict[str, Any]:
    plain: dict[str, Any] = {"ids": [str(item) for item in items.ids]}
    for name in ("error", "tokens", "query", "asked_by"):
        value = getattr(items, name, None)
        if value:
            plain[name] = value
    if items.spans is not None:
        plain["spans"] = [span and list(span) for span in items.spans]
    if items.texts is not None and with_texts:
        plain["texts"] = [(text or "")[:_CHARACTERS] for text in items.texts[:_TEXTS]]
    calls = getattr(items, "calls", None)
    if calls is not None:
        plain["calls"] = [_plain_items(call, with_texts) for call in calls]
    return plain


def _read_run(plain: Mapping[str, Any]) -> Run:
    rankings = {}
    for query_id, record in plain.items():
        calls = record.get("calls")
        if calls is not None:
            calls = [Call(**_read_items(call)) for call in calls]
        rankings[query_id] = Ranking(**{**_read_items(record), "calls": calls})
    return Run(rankings)


def _read_items(record: Mapping[str, Any]) -> dict[str, Any]:
    items = dict(record)
    if "spans" in items:
        items["spans"] = [span and Span(*span) for span in items["spans"]]
    if "texts" in items:
        missing = len(items["ids"]) - len(items["texts"])
        items["texts"] = [*items["texts"], *[""] * missing]
    return items


def _cut_all(passages: Mapping[str, str | Span]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for item, passage in passages.items():
        plain[item] = list(passage) if isinstance(passage, Span) else passage[:_CHARACTERS]
    return plain


def _read_passages(plain: Mapping[str, Any]) -> dict[str, str | Span]:
    passages: dict[str, str | Span] = {}
    for item, passage in plain.items():
        passages[item] = passage if isinstance(passage, str) else Span(*passage)
    return passages
