"""The page in which people judge a pool: one HTML file that keeps every grade."""

from __future__ import annotations

import math
import os
import random
import re
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any, TypeAlias

import msgspec

from llama_index_rag_metrics.files.lines import Location, from_json, read_lines, read_text, to_json
from llama_index_rag_metrics.labels.pooling import Pool
from llama_index_rag_metrics.metrics.texts.llm_relevancy import RUBRIC
from llama_index_rag_metrics.report import escape
from llama_index_rag_metrics.report.html.assets import asset, carriers, packed, script_source
from llama_index_rag_metrics.report.numbers import counted, questions
from llama_index_rag_metrics.runtime.atomic_files import short_hash, write_text
from llama_index_rag_metrics.runtime.errors import InvalidInput, check_integer

from .judgements import DEFAULT, Judgement, ReviewsLike, as_reviews, converted

PoolLike: TypeAlias = "Pool | str | os.PathLike[str]"
OUTPUT = "judgements.jsonl"
_GRADE_LINE = re.compile(r"^(\d):[ \t]+(.+)$", re.MULTILINE)
_BUTTONS = ("Not about it", "On the subject", "Part of an answer", "Exact answer")
_QUESTION = "How well does the passage answer the question?"
_ANOTHER_SCALE = (
    "Give the rubric by which they were graded, or write a page without them, with another output."
)


class ReviewItem(msgspec.Struct, frozen=True, order=True):
    """A passage to be judged."""

    query_id: str
    doc_id: str
    query: str
    text: str


class Choice(msgspec.Struct, frozen=True):
    """A grade, which is also the digit to press: the button's text, and its rubric."""

    grade: int
    label: str
    rubric: str


class Scale(msgspec.Struct, frozen=True):
    """A question about a passage, and the answers, best first."""

    name: str
    intro: str
    choices: list[Choice]


def relevance_scale() -> Scale:
    """The rubric of `LLMRelevancy`."""
    choices = []
    for digit, rubric in _GRADE_LINE.findall(RUBRIC.replace("query", "question")):
        choices.append(Choice(int(digit), _BUTTONS[int(digit)], rubric[:1].upper() + rubric[1:]))
    return Scale(DEFAULT, _QUESTION, choices)


def read_rubric(path: Path) -> Scale:
    """A rubric, a line a grade after the question; its name is a hash of what it says."""
    text, location = read_text(path), Location(str(path))
    choices = [Choice(int(digit), "", rule.strip()) for digit, rule in _GRADE_LINE.findall(text)]
    choices.sort(key=lambda choice: -choice.grade)
    intro = " ".join(_GRADE_LINE.sub("", text).split())
    expected = "a line for each grade, at least two, such as '2: The passage …'"
    location.check(len(choices) >= 2, expected, text)
    grades = [choice.grade for choice in choices]
    location.check(len(set(grades)) == len(grades), "every grade of a rubric once", grades)
    content = to_json([intro, *((choice.grade, choice.rubric) for choice in choices)])
    return Scale(f"own rubric {short_hash(content, 8)}", intro or _QUESTION, choices)


def read_pool(pool: PoolLike) -> list[ReviewItem]:
    """The passages to be judged, each once."""
    if isinstance(pool, Pool):
        records = list(Location("pool").numbered(pool.records()))
    elif isinstance(pool, (str, os.PathLike)):
        records = []
        for location, line in read_lines(Path(pool)):
            records.append((location, from_json(line, location)))
    else:
        raise InvalidInput("pool", pool, "a Pool, or a path to what its to_jsonl() wrote")
    items: dict[tuple[str, str], ReviewItem] = {}
    for location, record in records:
        item = converted(record, ReviewItem, location)
        key = item.query_id, item.doc_id
        location.check(key not in items, "every passage of a question once", " ".join(key))
        items[key] = msgspec.structs.replace(item, query=item.query or item.query_id)
    if not items:
        raise InvalidInput("pool", "none", "at least one passage to review")
    if not any(item.text for item in items.values()):
        remedy = "pool(..., dataset=...) and `labels pool --dataset` bring the texts."
        raise InvalidInput("pool", "passages without any text", "texts to judge", remedy)
    return list(items.values())


def extent(items: Sequence[ReviewItem]) -> str:
    """How much there is to judge."""
    n_questions = len({item.query_id for item in items})
    return f"{counted(len(items), 'passage', 'passages')} of {questions(n_questions)}"


def digest(items: Sequence[ReviewItem]) -> str:
    """A hash of a pool, whatever the order of its items."""
    return short_hash(to_json(sorted(to_json(msgspec.structs.asdict(item)) for item in items)), 32)


def shuffled(items: Sequence[ReviewItem], seed: int) -> list[ReviewItem]:
    """The items in random order, those of a question together, whatever order they came in."""
    groups: dict[str, list[ReviewItem]] = {}
    for item in sorted(items):
        groups.setdefault(item.query_id, []).append(item)
    in_order = list(groups.values())
    rng = random.Random(int(seed))
    rng.shuffle(in_order)
    items_in_order = []
    for group in in_order:
        rng.shuffle(group)
        items_in_order += group
    return items_in_order


def write_review_page(
    pool: PoolLike,
    path: str | os.PathLike[str],
    *,
    judgements: ReviewsLike | None = None,
    output: str = OUTPUT,
    rubric: str | os.PathLike[str] | None = None,
    seed: int = 0,
    title: str = "Review",
) -> Path:
    """Write a page in which somebody judges a pool: one HTML file that works offline.

    The reviewer sees a question and a passage, never a system, a rank or an id, grades by keyboard,
    and exports the judgements as JSON lines, which `read_judgements` reads. The browser keeps every
    grade at once, by pool and reviewer.

    Args:
        pool: what `pool` made, or a file of it: JSON lines of query_id, query, doc_id and text.
        path: the page.
        judgements: earlier judgements; the page shows them, and exports them again. Leave them out
            for a second reviewer who is to be independent.
        output: the name of the file that the page exports.
        rubric: a file with a rubric of your own: the question, and a line such as "2: The passage
            …" for each grade, from 0 to 9. The judgements name it, by a hash of what it says.
        seed: of the random order of questions, and of the passages of each.
        title: the title of the page.

    Raises:
        FileFormatError: a line can't be read, or repeats a passage; says where and why.
        InvalidInput: there is nothing to review, or it was judged by another rubric.

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
    check_integer("seed", seed, -math.inf, "a whole number")
    scale = relevance_scale() if rubric is None else read_rubric(Path(rubric))
    reviews = () if judgements is None else as_reviews(judgements, "judgements")
    content = {"title": title, "output": output, **_content(items, scale, reviews, seed)}
    script = asset("carried.js") + asset("storage.js", __package__)
    script += asset("review.js", __package__)
    text = Template(asset("page.html", __package__)).substitute(
        title=escape.html(title),
        policy=script_source(script),
        css=asset("base.css") + asset("review.css", __package__),
        script=script,
        chunks=escape.render(*carriers({"review": packed(content)})),
    )
    return write_text(target, text)


def _content(
    items: Sequence[ReviewItem], scale: Scale, reviews: Sequence[Judgement], seed: int
) -> dict[str, Any]:
    """What the page carries; each question once."""
    passages = []
    for item in shuffled(items, seed):
        passages.append({"query_id": item.query_id, "doc_id": item.doc_id, "text": item.text})
    keys = {(item.query_id, item.doc_id) for item in items}
    records: list[dict[str, Any]] = []
    other_records: list[dict[str, Any]] = []
    n_judged = 0
    for judgement in reviews:
        if judgement.key not in keys:
            other_records.append(judgement.record())
            continue
        if judgement.is_judged and judgement.scale != scale.name:
            expected = f"grades by {scale.name!r}, by which the page asks"
            raise InvalidInput("judgements", judgement.scale, expected, _ANOTHER_SCALE)
        records.append(judgement.record())
        n_judged += judgement.grade is not None
    amount = f"{extent(items)}."
    if n_judged:
        amount = f"{extent(items)}, {n_judged:,} judged already."
    return {
        "pool": short_hash(f"{digest(items)} {scale.name}", 32),
        "extent": amount,
        "scale": msgspec.to_builtins(scale),
        "names_scale": scale.name != DEFAULT,
        "queries": {item.query_id: item.query for item in items},
        "items": passages,
        "judgements": records,
        "others": other_records,
    }
