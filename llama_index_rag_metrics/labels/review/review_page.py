"""The page in which people judge a pool: one HTML file, which keeps every grade at once."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from string import Template
from typing import Any

from llama_index_rag_metrics.labels.review.reviews import (
    DEFAULT,
    Judgement,
    PoolLike,
    ReviewPool,
    ReviewsLike,
    as_reviews,
    read_rubric,
)
from llama_index_rag_metrics.report import escape
from llama_index_rag_metrics.report.elements import render
from llama_index_rag_metrics.report.html.assets import asset, carriers, packed, script_source
from llama_index_rag_metrics.runtime.amounts import check_integer
from llama_index_rag_metrics.runtime.atomic_files import write_text
from llama_index_rag_metrics.runtime.errors import InvalidInput

OUTPUT = "judgements.jsonl"

_ANOTHER_SCALE = (
    "Give the rubric by which they were graded, or write a page without them, with another output."
)


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
            Nuggets have nugget_id and nugget, instead of a passage or beside it; `scale` names
            another scale than "relevance": "importance", "support", or one of your own, as an
            object.
        path: the page.
        judgements: earlier judgements; the page shows them, and exports them again. Leave them out
            for a second reviewer who is to be independent.
        output: the name of the file that the page exports.
        rubric: a file with a rubric of your own: the question, and a line such as "2: The passage
            …" for each grade; or, as .json, a scale. The judgements name it.
        seed: of the random order of questions, and of the passages of each.
        title: the title of the page.

    Returns:
        The path of the page.

    Raises:
        FileFormatError: a line can't be read, or repeats an item; says where and why.
        InvalidInput: there is nothing to review, or it was judged by another scale.

    Examples:
        >>> import tempfile
        >>> from llama_index_rag_metrics import RetrievalDataset, pool
        >>> dataset = RetrievalDataset({"q": "Who?"}, {}, {"y": "She.", "z": "He."})
        >>> runs = {"a": {"q": ["x", "y"]}, "b": {"q": ["x", "z"]}}
        >>> pooled = pool(runs, metric="precision@2", dataset=dataset)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = write_review_page(pooled, f"{folder}/judgements.html")
        ...     page.name
        'judgements.html'
    """
    read, target = ReviewPool.of(pool), Path(path)
    for source in (pool, judgements):
        if isinstance(source, (str, os.PathLike)) and Path(source).absolute() == target.absolute():
            raise InvalidInput("path", str(path), "another file than the pool and the judgements")
    check_integer("seed", seed, -math.inf, "a whole number")
    if rubric is not None:
        scale = read_rubric(Path(rubric))
        if scale.name != DEFAULT and read.scales.get(scale.name, scale) != scale:
            raise InvalidInput("rubric", scale.name, "a name that no other scale of the pool has")
        items = [
            replace(item, scale=scale.name) if item.scale == DEFAULT else item
            for item in read.items
        ]
        read = ReviewPool(items, {**read.scales, scale.name: scale})
    reviews = () if judgements is None else as_reviews(judgements, "judgements")
    content = packed(_content(read, reviews, seed, output, title))
    names = ("page.html", "review.css", "storage.js", "review.js")
    page, css, *scripts = (asset(name, __package__) for name in names)
    script = "".join([asset("carried.js"), *scripts])
    text = Template(page).substitute(
        title=escape.html(title),
        policy=script_source(script),
        css=asset("base.css") + css,
        script=script,
        chunks=render(*carriers({"review": content})),
    )
    return write_text(target, text)


def _content(
    pool: ReviewPool, reviews: Sequence[Judgement], seed: int, output: str, title: str
) -> dict[str, Any]:
    scales = {item.key: item.scale for item in pool.items}
    known = [judgement for judgement in reviews if judgement.key in scales]
    for judgement in known:
        if judgement.is_judged and judgement.scale != scales[judgement.key]:
            expected = f"grades by {scales[judgement.key]!r}, by which the page asks"
            raise InvalidInput("judgements", judgement.scale, expected, _ANOTHER_SCALE)
    n_judged = sum(1 for judgement in known if judgement.grade is not None)
    items = [item.record() | {"scale": item.scale} for item in pool.shuffled(seed)]
    for item in items:
        del item["query"]  # the page has each question once
    return {
        "pool": pool.digest,
        "title": title,
        "output": output,
        "extent": f"{pool.extent}{f', {n_judged:,} judged already' if n_judged else ''}.",
        "default_scale": DEFAULT,
        "scales": {name: asdict(pool.scales[name]) for name in dict.fromkeys(scales.values())},
        "queries": pool.queries,
        "items": items,
        "judgements": [judgement.record() for judgement in known],
        "others": [judgement.record() for judgement in reviews if judgement.key not in scales],
    }
