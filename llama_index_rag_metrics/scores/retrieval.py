"""What scores keep of what was retrieved and wanted, so that stories can be told of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

from llama_index_rag_metrics.files.lines import Location
from llama_index_rag_metrics.files.records import ranking_record, read_ranking, read_repeat
from llama_index_rag_metrics.rankings.matching.matched import Matched
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike, as_relevance
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.runtime.containers import map_values, picked, present

R = TypeVar("R", bound=Ranking)

# in files: of how many passages of a ranking the texts are kept, and how much of each
_TEXTS, _CHARACTERS = 10, 200


@dataclass(frozen=True, eq=False, repr=False)
class Retrieval:
    """The run that was scored, its labels, and what matchers made of it."""

    run: Run  # what was retrieved, by the ids that came
    labels: Mapping[str, RelevanceLike | None] = field(default_factory=dict)  # as they were given
    # metric to what its matcher made of the run, unless ids are compared
    matched: Mapping[str, Matched] = field(default_factory=dict)
    # the text of a passage that wasn't retrieved, by its id or place; None: not known
    text_of: Callable[[str | Span], str | None] | None = None
    absent: Collection[str] = frozenset()  # labels whose passages are known not to be retrievable

    @cached_property
    def relevance(self) -> Mapping[str, Relevance]:
        return map_values(as_relevance, present(self.labels))

    @property
    def texts(self) -> dict[str, str]:
        """The beginnings of the texts of what was wanted or retrieved, as far as they are known."""
        texts: dict[str, str] = {}
        for item in chain(*picked(self.relevance, self.run).values()):
            text = self.text_of and self.text_of(item)
            if text:
                texts[item] = text[:_CHARACTERS]
        return texts

    @property
    def passages(self) -> dict[str, dict[str, Any]]:
        """Query id to label to the beginning of what a matcher went by: its text, or its place."""
        passages: dict[str, dict[str, Any]] = defaultdict(dict)
        for matched in list(self.matched.values())[:1]:  # there is one matcher
            for query_id, members in picked(matched.passages, self.run).items():
                for item, passage in members.items():  # a span has but three parts
                    passages[query_id][item] = passage[:_CHARACTERS]
        return passages

    def select(self, query_ids: Collection[str]) -> Retrieval:
        kept_ids = [query_id for query_id in {**self.labels, **self.run} if query_id in query_ids]
        run = self.run.select(picked(self.run, kept_ids))
        return replace(self, run=run, labels=picked(self.labels, kept_ids))

    def to_plain(self) -> dict[str, Any]:
        plain: dict[str, Any] = {
            **_plain(self.run, self.relevance),
            "texts": self.texts,
            "absent": sorted(map(str, self.absent)),
            "min_score": self.run.min_score,
        }
        for matched in list(self.matched.values())[:1]:
            plain["matched"] = {
                **_plain(matched.run, matched.relevance),
                "metrics": list(self.matched),
                "matcher": matched.matcher,
                "stands_for": picked(matched.stands_for, self.run),
                "passages": self.passages,
                "errors": dict(matched.errors),
            }
        return plain

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> Retrieval:
        run, labels = _read(plain)
        run.min_score = plain["min_score"]
        by_metric = {}
        if "matched" in plain:
            stored = plain["matched"]
            passages: dict[str, dict[str, str | Span]] = {}
            for query_id, members in stored["passages"].items():
                passages[query_id] = map_values(_passage, members)
            stands_for, errors = stored["stands_for"], stored["errors"]
            matched = Matched(stored["matcher"], *_read(stored), stands_for, passages, errors)
            by_metric = dict.fromkeys(stored["metrics"], matched)
        return cls(run, labels, by_metric, plain["texts"].get, frozenset(plain["absent"]))

    def __reduce__(self) -> tuple[Any, ...]:
        texts = self.texts.get  # a dataset may hold much more
        return Retrieval, (self.run, self.relevance, self.matched, texts, self.absent)


def _plain(run: Run, relevance: Mapping[str, Relevance]) -> dict[str, Any]:
    rankings = []
    for number, run_of_time in enumerate(run.repeats or [run], 1):
        for query_id, ranking in run_of_time.items():
            rankings.append(ranking_record(query_id, number, _trimmed(ranking)))
    return {"run": rankings, "labels": map_values(Relevance.to_plain, relevance)}


def _read(plain: Mapping[str, Any]) -> tuple[Run, dict[str, Relevance]]:
    location, by_time = Location("scores"), defaultdict[int, dict[str, Ranking]](dict)
    for record in plain["run"]:
        rankings = by_time[read_repeat(record, location)]
        rankings[str(record["query_id"])] = read_ranking(record, location)
    runs = list(map(Run, by_time.values()))
    run = Run(repeats=runs) if len(runs) > 1 else Run(*by_time.values())
    return run, map_values(Relevance, plain["labels"])


def _trimmed(items: R) -> R:
    """Return a ranking or a call without what stories don't need, its first texts cut."""
    texts = None
    if items.texts is not None:
        texts = [(text or "")[:_CHARACTERS] for text in items.texts[:_TEXTS]]
        texts += [""] * (len(items.ids) - len(texts))
    calls = items.calls and list(map(_trimmed, items.calls))
    return replace(items, texts=texts, calls=calls, scores=None, latency=None)


def _passage(plain: Any) -> str | Span:
    return plain if isinstance(plain, str) else Span(*plain)
