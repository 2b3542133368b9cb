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

# of how many items the texts are looked at, and how much of each text
KEPT_ITEMS, KEPT_START = 5, 320
# of how many retrieved items the texts are kept, and how much of each text
_KEPT_TEXTS, _KEPT_CHARACTERS = 3, 80
# of so many wanted items beyond those that are kept the places are, for other systems' stories
_KEPT_PLACES = 20
KeptAnswer: TypeAlias = Mapping[str, Any]
"""{"wanted": the first needs, each the items of which any is enough, "got": the first items}.

"more" and "further" count what was left out of them. Of these items and some others, "found" has
the ranks, and the tokens up to there; "same" what has the text of one that didn't come; "in_call"
the call that alone had it; "held" who had it before which stage, and at which rank. "ranks" are
those of "got", where copies are among them.
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
    first_found = sorted((answer.found or {}).items(), key=lambda pair: pair[1].rank)
    others = [item for item, _ in first_found if item not in ids][:_KEPT_PLACES]
    found = {
        item: [part for part in at if part is not None]
        for item, at in first_found
        if item in {*ids, *others}
    }
    rest = {
        "found": None if answer.found is None else found,
        "more": len(query.wanted) - len(needs) or None,
        "same": {item: [*same] for item, same in answer.same_text.items() if item in ids} or None,
        "in_call": {item: n for item, n in answer.in_call.items() if item in ids} or None,
        "ranks": answer.ranks and answer.ranks[:KEPT_ITEMS],
        "further": len(answer.retrieved or ()) - len(first) or None,
    }
    return {
        "wanted": [[_item(item) | _excerpt(item.text) for item in need] for need in needs],
        "got": [_retrieved(item, rank <= _KEPT_TEXTS) for rank, item in enumerate(first, 1)],
        **{name: value for name, value in rest.items() if value is not None},
    }


def read_answer(
    kept: KeptAnswer, answer: m.Answer, least: float
) -> tuple[list[list[m.Item]], m.Answer, int]:
    """What was wanted, the answer filled, and how many needs more, also of earlier versions."""
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
        held={item: [m.Held(0, *last)] for item, last in kept.get("held", {}).items()},
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
