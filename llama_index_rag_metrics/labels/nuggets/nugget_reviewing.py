"""Nuggets before people: what they are asked, and what becomes of their answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.labels.nuggets.nugget_passages import PassagesLike, texts_of
from llama_index_rag_metrics.labels.nuggets.nugget_set import Nuggets
from llama_index_rag_metrics.labels.review import Judgement, read_reviews
from llama_index_rag_metrics.rankings.nugget import Nugget, vital_first
from llama_index_rag_metrics.runtime.errors import InvalidInput

_IMPORTANCE, _SUPPORT = "importance", "support"
"""The scales of the page on which nuggets are judged."""

_DROP = "drop"
_REWORDED = "Was it reworded since? Then it has to be reviewed anew."


def importance_lines(nuggets: Nuggets) -> Iterator[dict[str, Any]]:
    """A line a nugget: is it vital, okay, or to be dropped?"""
    for query_id, of_query in nuggets.items():
        for nugget in of_query:
            yield {**_asked(nuggets, query_id, nugget), "scale": _IMPORTANCE}


def support_lines(
    nuggets: Nuggets,
    passages: PassagesLike,
    depth: int | None,
    corpus: Mapping[str, str] | None,
) -> Iterator[dict[str, Any]]:
    """A line a passage and nugget: does it say all of it, a part, or nothing?"""
    texts = texts_of(passages, list(nuggets), depth, corpus)
    for query_id, of_query in texts.items():
        for passage, text in of_query.items():
            for nugget in nuggets[query_id]:
                asked = _asked(nuggets, query_id, nugget)
                yield {**asked, "doc_id": passage, "text": text, "scale": _SUPPORT}


def apply_reviews(nuggets: Nuggets, paths: Sequence[Path]) -> Nuggets:
    """The nuggets with what people said of them, vital ones first."""
    importances: dict[tuple[str, str], Any] = {}
    supports: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
    known = {
        (query_id, nugget.text) for query_id, of_query in nuggets.items() for nugget in of_query
    }
    for judgement in (judgement for path in paths for judgement in reviews_of_nuggets(path)):
        if judgement.nugget_id is None or not judgement.is_judged:
            continue
        of = judgement.query_id, judgement.nugget_id
        if of not in known:
            expected = f"a nugget of {judgement.query_id!r}"
            raise InvalidInput("nugget_id", judgement.nugget_id, expected, _REWORDED)
        if judgement.doc_id is not None and judgement.scale == _SUPPORT:
            supports[of][judgement.doc_id] = judgement.grade
        elif judgement.doc_id is None and judgement.scale == _IMPORTANCE:
            importances[of] = judgement.grade
        else:
            expected = f"{_IMPORTANCE!r} of a nugget, or {_SUPPORT!r} of it by a passage"
            raise InvalidInput("scale", judgement.scale, expected)
    by_query = {
        query_id: [
            replace(
                nugget,
                importance=importances.get((query_id, nugget.text), nugget.importance),
                supports={**nugget.supports, **supports[query_id, nugget.text]},
            )
            for nugget in of_query
            if importances.get((query_id, nugget.text)) != _DROP
        ]
        for query_id, of_query in nuggets.items()
    }
    return replace(
        nuggets, by_query={query_id: vital_first(left) for query_id, left in by_query.items()}
    )


def reviews_of_nuggets(path: Path) -> list[Judgement]:
    """What people said in a file. It may speak of other things, too, but not of these alone."""
    reviews = read_reviews(path)
    if reviews and all(judgement.nugget_id is None for judgement in reviews):
        remedy = "Review what --to-review or to_review() wrote."
        raise InvalidInput("reviewed", path.name, "judgements of nuggets", remedy)
    return reviews


def _asked(nuggets: Nuggets, query_id: str, nugget: Nugget) -> dict[str, str]:
    return {
        "query_id": query_id,
        "query": nuggets.queries.get(query_id, ""),
        "nugget_id": nugget.text,
        "nugget": nugget.text,
    }
