"""Answers kept with scores: what was wanted and what came, in a few words a query."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import inf
from typing import Any, NamedTuple, TypeAlias

from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.query_lines import beginning

KEPT_ITEMS, KEPT_START = 5, 320
"""Of how many items the texts are looked at, and how much of each text."""

_KEPT_TEXTS, _KEPT_CHARACTERS = 3, 80
"""Of how many retrieved items the texts are kept, and how much of each text."""

KeptAnswer: TypeAlias = Mapping[str, Any]
"""{"wanted": the first needs, "got": the first items that came}, with excerpts of texts.

A need is a list of the items of which any is enough. "more" is how many needs were left out;
"found" has the rank of each wanted item that came, and the tokens up to it, where they are known;
"same" the rank and the id of what has the text of one that didn't; "further" is how many items came
after the first.
"""


class Read(NamedTuple):
    """A kept answer, read."""

    wanted: list[list[m.Item]]
    got: list[m.ReportedItem]
    found: dict[str, m.Found] | None
    more: int
    same_text: dict[str, m.SameText]
    further: int


def kept_answer(query: m.QueryAnswers) -> KeptAnswer:
    """The answer of the only system, to be kept as JSON."""
    (answer,) = query.answers
    ranks = {item: at.rank for item, at in (answer.found or {}).items()}
    # those that came last, or never, explain a low score
    last = sorted(query.wanted, key=lambda need: -min(ranks.get(item.id, inf) for item in need))
    needs = [need for need in query.wanted if need in last[:KEPT_ITEMS]]
    first = (answer.retrieved or ())[:KEPT_ITEMS]
    kept: dict[str, Any] = {
        "wanted": [[_item(item) | _excerpt(item.text) for item in need] for need in needs],
        "got": [_retrieved(item, rank <= _KEPT_TEXTS) for rank, item in enumerate(first, 1)],
    }
    if answer.found is not None:
        kept["found"] = {
            item: [part for part in at if part is not None] for item, at in answer.found.items()
        }
    if more := len(query.wanted) - len(needs):
        kept["more"] = more
    if answer.same_text:
        kept["same"] = {item: list(same) for item, same in answer.same_text.items()}
    if further := len(answer.retrieved or ()) - len(first):
        kept["further"] = further
    return kept


def read_answer(answer: KeptAnswer) -> Read:
    """What `kept_answer` made, or the words that earlier versions kept."""
    wanted, got, found = answer.get("wanted", ()), answer.get("got", ()), answer.get("found")
    if any(isinstance(part, str) for part in (*wanted, *got)):
        needs = [[_read_words(name)] for name in wanted]
        return Read(needs, [m.ReportedItem(name, None) for name in got], None, 0, {}, 0)
    return Read(
        [[_read_item(record) for record in need] for need in wanted],
        [
            m.ReportedItem(
                record["id"],
                record.get("grade"),
                record.get("text"),
                [_read_item(wanted) for wanted in record.get("for", ())],
            )
            for record in got
        ],
        None if found is None else {item: m.Found(*place) for item, place in found.items()},
        answer.get("more", 0),
        {item: m.SameText(*same) for item, same in answer.get("same", {}).items()},
        answer.get("further", 0),
    )


def _read_words(name: str) -> m.Item:
    """A wanted item in words: its grade is in brackets unless it is 1."""
    graded = re.fullmatch(r"(.+) \[([\d.e+-]+)\]", name)
    return m.Item(graded[1], float(graded[2])) if graded else m.Item(name, 1.0)


def _item(item: m.Item) -> dict[str, Any]:
    record: dict[str, Any] = {"id": item.id, "grade": item.grade}
    if item.passage is not None:
        record["by"] = list(item.passage) if isinstance(item.passage, Span) else "text"
    return record


def _retrieved(item: m.ReportedItem, with_text: bool) -> dict[str, Any]:
    record: dict[str, Any] = {"id": item.id, **(_excerpt(item.text) if with_text else {})}
    if item.grade is not None:
        record["grade"] = item.grade
    if item.stands_for:
        record["for"] = [_item(wanted) for wanted in item.stands_for]
    return record


def _excerpt(text: str | None) -> dict[str, str]:
    return {"text": beginning(text, _KEPT_CHARACTERS)} if text else {}


def _read_item(record: Mapping[str, Any]) -> m.Item:
    by, text = record.get("by"), record.get("text")
    passage = None if by is None else text or "" if by == "text" else Span(*by)
    return m.Item(record["id"], record["grade"], passage, text)
