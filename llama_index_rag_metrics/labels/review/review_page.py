"""The page in which people judge a pool: one HTML file that keeps every grade."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from string import Template
from typing import Any, TypeAlias, TypeVar

import msgspec

from llama_index_rag_metrics.files.lines import Location, json_lines, read_text, to_json
from llama_index_rag_metrics.files.records import read_id
from llama_index_rag_metrics.labels.pooling import Pool
from llama_index_rag_metrics.metrics.texts.llm_relevancy import RUBRIC
from llama_index_rag_metrics.report.html import asset, script_source
from llama_index_rag_metrics.runtime.atomic_files import json_text, short_hash, write_text
from llama_index_rag_metrics.runtime.errors import InvalidInput

PoolLike: TypeAlias = "Pool | str | os.PathLike[str]"
_GRADE_LINE = re.compile(r"^(\d):[ \t]+(.+)$", re.MULTILINE)
_QUESTION = "How well does the passage answer the question?"


class ReviewItem(msgspec.Struct, frozen=True, order=True):
    query_id: str
    doc_id: str
    query: str
    text: str


class Judgement(msgspec.Struct, frozen=True):
    """One reviewer's grade of a passage; `judged_at` is ISO 8601."""

    query_id: str
    doc_id: str
    grade: float
    reviewer: str = ""
    judged_at: str = ""


Passage = TypeVar("Passage", ReviewItem, Judgement)


def read_passages(
    records: Iterable[tuple[Location, Any]], kind: type[Passage]
) -> dict[tuple[str, str], Passage]:
    """Records of passages, each once; an error says which field is wrong."""
    passages: dict[tuple[str, str], Passage] = {}
    expected = f"a record with {', '.join(kind.__annotations__)}"
    for location, record in records:
        location.check(isinstance(record, dict), expected, record)
        ids = {}
        for name in ("query_id", "doc_id"):
            if record.get(name) is not None:
                ids[name] = read_id(record[name], location)
        with location.expecting(expected, msgspec.ValidationError, UnicodeEncodeError):
            passage = msgspec.convert({**record, **ids}, kind)
        key = passage.query_id, passage.doc_id
        location.check(key not in passages, "every passage of a question once", " ".join(key))
        passages[key] = passage
    return passages


def read_pool(pool: PoolLike) -> list[ReviewItem]:
    """The passages to be judged, in an order that says nothing of systems."""
    if isinstance(pool, Pool):
        records: Iterable[tuple[Location, Any]] = Location("pool").numbered(pool.records())
    elif isinstance(pool, (str, os.PathLike)):
        records = json_lines(Path(pool))
    else:
        raise InvalidInput("pool", pool, "a Pool, or a path to what its to_jsonl() wrote")
    items = list(read_passages(records, ReviewItem).values())
    if not any(item.text for item in items):
        remedy = "pool(..., dataset=...) and `labels pool --dataset` bring the texts."
        raise InvalidInput("pool", "no texts", "at least one passage with a text", remedy)
    return sorted(items, key=lambda item: (short_hash(item.query_id), short_hash(item.doc_id)))


def read_rubric(path: str | os.PathLike[str] | None) -> dict[str, Any]:
    """What is asked, and the grades, best first, of a rubric or of `LLMRelevancy`'s."""
    text, location, intro = RUBRIC.replace("query", "question"), Location("rubric"), _QUESTION
    if path is not None:
        text, location = read_text(Path(path)), Location(str(path))
        intro = " ".join(_GRADE_LINE.sub("", text).split()) or _QUESTION
    choices = dict(_GRADE_LINE.findall(text))
    expected = "a line for each grade, at least two, such as '2: The passage …'"
    location.check(len(choices) >= 2, expected, text)
    return {"intro": intro, "choices": sorted(choices.items(), reverse=True)}


def write_review_page(
    pool: PoolLike,
    path: str | os.PathLike[str],
    *,
    judgements: str | os.PathLike[str] | None = None,
    output: str = "judgements.jsonl",
    rubric: str | os.PathLike[str] | None = None,
) -> Path:
    """Write a page in which somebody judges a pool: one HTML file that works offline.

    The reviewer sees a question and a passage, never a system, a rank or an id, grades by keyboard,
    and exports the judgements as JSON lines, which `read_qrels` reads. The browser keeps every
    grade at once, by pool and reviewer.

    Args:
        pool: what `pool` made, or a file of it: JSON lines of query_id, query, doc_id and text.
        path: the page.
        judgements: a file of earlier judgements; the page shows them, and exports them again.
            Leave them out for a second reviewer who is to be independent.
        output: the name of the file that the page exports.
        rubric: a file with a rubric of your own: the question, and a line such as "2: The passage
            …" for each grade, from 0 to 9.

    Raises:
        FileFormatError: a line can't be read, or repeats a passage; says where and why.
        InvalidInput: there is nothing to review.

    Examples:
        >>> import tempfile
        >>> from llama_index_rag_metrics import RetrievalDataset
        >>> from llama_index_rag_metrics.labels import pool
        >>> dataset = RetrievalDataset({"q": "Who?"}, {}, {"y": "She.", "yy": "He."})
        >>> pooled = pool({"a": {"q": ["y"]}, "b": {"q": ["yy"]}}, dataset=dataset)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = write_review_page(pooled, f"{folder}/judgements.html")
        ...     page.name
        'judgements.html'
    """
    items, target = read_pool(pool), Path(path)
    for source in (pool, judgements):
        if isinstance(source, (str, os.PathLike)) and Path(source).absolute() == target.absolute():
            raise InvalidInput("path", str(path), "another file than the pool and the judgements")
    scale = read_rubric(rubric)
    earlier: Iterable[Judgement] = ()
    if judgements is not None:
        earlier = read_passages(json_lines(Path(judgements)), Judgement).values()
    content = {
        "pool": short_hash(to_json([scale, *map(msgspec.to_builtins, items)]), 32),
        "output": output,
        "queries": {item.query_id: item.query or item.query_id for item in items},
        "items": [[item.query_id, item.doc_id, item.text] for item in items],
        "judgements": list(map(msgspec.to_builtins, earlier)),
        **scale,
    }
    script = asset("review.js", __package__)
    text = Template(asset("page.html", __package__)).substitute(
        policy=script_source(script),
        css=asset("base.css") + asset("review.css", __package__),
        script=script,
        data=json_text(content).replace("<", "\\u003c"),
    )
    return write_text(target, text)
