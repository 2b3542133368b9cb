"""Answers kept with scores: what was wanted and what came, in a few words a query."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import inf
from typing import Any, TypeAlias

from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.report import model as m
from llama_index_rag_metrics.report.excerpts import beginning
from llama_index_rag_metrics.scores.reading import Reading

KEPT_ITEMS, KEPT_START = 5, 320
"""Of how many items the texts are looked at, and how much of each text."""

_KEPT_TEXTS, _KEPT_CHARACTERS = 3, 80
"""Of how many retrieved items the texts are kept, and how much of each text."""

_KEPT_PLACES = 20
"""Of so many wanted items beyond those that are kept the places are, for other systems' stories."""

KeptAnswer: TypeAlias = Mapping[str, Any]
"""{"wanted": the first needs, "got": the first items that came}, with excerpts of texts.

A need is a list of the first items of which any is enough. "more" is how many needs were left out;
"found" has the rank of each of these items, and of some others, that came, and the tokens up to
it, where they are known; "same" the rank and the id of what has the text of one that didn't;
"in_call" the number of the call that alone had it; "ranks" are those of the items, where copies are
among them; "further" is how many came after the first.
"""


def kept_answer(query: m.QueryAnswers) -> KeptAnswer:
    """The answer of the only system, to be kept as JSON."""
    (answer,) = query.answers
    ranks = {item: at.rank for item, at in (answer.found or {}).items()}
    # those that came last, or never, explain a low score
    last = sorted(query.wanted, key=lambda need: -min(ranks.get(item.id, inf) for item in need))
    needs = [
        sorted(need, key=lambda item: ranks.get(item.id, inf))[:KEPT_ITEMS]
        for need in query.wanted
        if need in last[:KEPT_ITEMS]
    ]
    ids = {item.id for need in needs for item in need}
    first = (answer.retrieved or ())[:KEPT_ITEMS]
    kept: dict[str, Any] = {
        "wanted": [[_item(item) | _excerpt(item.text) for item in need] for need in needs],
        "got": [_retrieved(item, rank <= _KEPT_TEXTS) for rank, item in enumerate(first, 1)],
    }
    if answer.found is not None:
        first_found = sorted(answer.found.items(), key=lambda pair: pair[1].rank)
        others = [item for item, _ in first_found if item not in ids][:_KEPT_PLACES]
        kept["found"] = {
            item: [part for part in at if part is not None]
            for item, at in first_found
            if item in {*ids, *others}
        }
    if more := len(query.wanted) - len(needs):
        kept["more"] = more
    if same := {item: list(same) for item, same in answer.same_text.items() if item in ids}:
        kept["same"] = same
    if in_call := {item: number for item, number in answer.in_call.items() if item in ids}:
        kept["in_call"] = in_call
    if answer.ranks is not None:
        kept["ranks"] = answer.ranks[:KEPT_ITEMS]
    if further := len(answer.retrieved or ()) - len(first):
        kept["further"] = further
    return kept


def read_answer(
    kept: KeptAnswer, answer: m.Answer, least: float
) -> tuple[list[list[m.Item]], m.Answer, int]:
    """What was wanted, the answer filled, and how many needs more: of what `kept_answer` made.

    Of earlier versions, the words that they kept. `least` is the grade from which an item counts.
    """
    wanted, got = kept.get("wanted", ()), kept.get("got", ())
    if any(isinstance(part, str) for part in (*wanted, *got)):
        came = [m.ReportedItem(name, None) for name in got]
        return [[_read_words(name)] for name in wanted], answer._replace(retrieved=came), 0
    came = [
        m.ReportedItem(
            record["id"],
            record.get("grade"),
            record.get("text"),
            [_read_item(wanted) for wanted in record.get("for", ())],
            least,
        )
        for record in got
    ]
    needs = [[_read_item(each) for each in need] for need in wanted]
    found, more = kept.get("found"), kept.get("more", 0)
    read = answer._replace(
        retrieved=came,
        found=found and {item: m.Found(*place) for item, place in found.items()},
        same_text={item: m.SameText(*same) for item, same in kept.get("same", {}).items()},
        more=kept.get("further", 0),
        ranks=kept.get("ranks"),
        in_call=kept.get("in_call", {}),
        known={*(found or ()), *(item.id for need in needs for item in need)} if more else None,
        is_stored=True,
    )
    return needs, read, more


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


def kept_by(
    kept: Mapping[str, Mapping[str, KeptAnswer]], reading: Reading
) -> Mapping[str, KeptAnswer]:
    first = next(iter(kept), "")
    matcher = reading.matcher or first.partition(";")[0]
    return next((kept[key] for key in (reading.key(matcher), matcher, first) if key in kept), {})
