"""What people judge, by which rubric, and the page for it: one HTML file that keeps every grade."""

from __future__ import annotations

import math
import os
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from operator import itemgetter
from pathlib import Path
from string import Template
from typing import Any, NamedTuple, TypeAlias

from llama_index_rag_metrics.files.lines import Location, from_json, read_lines, read_text, to_json
from llama_index_rag_metrics.files.records import Qrels, read_grade, read_id
from llama_index_rag_metrics.labels import grouped
from llama_index_rag_metrics.labels.pooling import Pool
from llama_index_rag_metrics.metrics.texts.llm_relevancy import RUBRIC
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.report import escape
from llama_index_rag_metrics.report.html.assets import asset, carriers, packed, script_source
from llama_index_rag_metrics.report.numbers import counted, questions
from llama_index_rag_metrics.runtime.amounts import check_integer
from llama_index_rag_metrics.runtime.atomic_files import short_hash, write_text
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning

_GRADE_LINE = re.compile(r"^(\d):[ \t]+(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Choice:
    """A grade, which is also the digit to press: the button's text, and its rubric."""

    grade: int
    label: str
    rubric: str


@dataclass(frozen=True, slots=True)
class Scale:
    """A question about a passage, and the answers, best first."""

    name: str
    intro: str
    choices: Sequence[Choice]

    @property
    def grades(self) -> list[int]:
        return [choice.grade for choice in self.choices]


DEFAULT = "relevance"
"""The name of the rubric of `LLMRelevancy`, which judgements don't write."""

_LABELS = ("Not about it", "On the subject", "Part of an answer", "Exact answer")

RELEVANCE = Scale(
    DEFAULT,
    "How well does the passage answer the question?",
    [
        Choice(int(digit), _LABELS[int(digit)], rubric[:1].upper() + rubric[1:])
        for digit, rubric in _GRADE_LINE.findall(RUBRIC.replace("query", "question"))
    ],
)


def read_rubric(path: Path) -> Scale:
    """A rubric, a line a grade after the question; its name is a hash of what it says."""
    text, place = read_text(path), Location(str(path))
    lines = sorted(_GRADE_LINE.findall(text), key=itemgetter(0), reverse=True)
    choices = [Choice(int(digit), "", rubric.strip()) for digit, rubric in lines]
    intro = " ".join(_GRADE_LINE.sub("", text).split())
    expected = "a line for each grade, at least two, such as '2: The passage …'"
    place.check(len(choices) >= 2, expected, text)
    grades = [choice.grade for choice in choices]
    place.check(len(set(grades)) == len(grades), "every grade of a rubric once", grades)
    content = to_json([intro, *((choice.grade, choice.rubric) for choice in choices)])
    return Scale(f"own rubric {short_hash(content, 8)}", intro or RELEVANCE.intro, choices)


class ItemKey(NamedTuple):
    """The ids of a passage to be judged."""

    query_id: str
    doc_id: str


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """A passage to be judged."""

    key: ItemKey
    query: str
    text: str

    def record(self) -> dict[str, str]:
        """The item as a line of a pool."""
        return {**self.key._asdict(), "query": self.query, "text": self.text}


PoolLike: TypeAlias = "ReviewPool | Pool | str | os.PathLike[str]"


@dataclass(frozen=True)
class ReviewPool:
    """Passages to be judged, each once."""

    items: Sequence[ReviewItem]

    @classmethod
    def of(cls, pool: PoolLike) -> ReviewPool:
        if isinstance(pool, ReviewPool):
            return pool
        if isinstance(pool, Pool):
            read = _read(Location("pool").numbered(pool.records()))
        elif isinstance(pool, (str, os.PathLike)):
            path = Path(pool)
            read = _read((place, from_json(line, place)) for place, line in read_lines(path))
        else:
            raise InvalidInput("pool", pool, "a Pool, or a path to what its to_jsonl() wrote")
        if not read.items:
            source = "none" if isinstance(pool, Pool) else str(pool)
            raise InvalidInput("pool", source, "at least one passage to review")
        if not any(item.text for item in read.items):
            remedy = "pool(..., dataset=...) and `labels pool --dataset` bring the texts."
            raise InvalidInput("pool", "passages without any text", "texts to judge", remedy)
        return read

    def __len__(self) -> int:
        return len(self.items)

    @property
    def queries(self) -> dict[str, str]:
        return {item.key.query_id: item.query for item in self.items}

    @property
    def extent(self) -> str:
        passages = counted(len(self), "passage", "passages")
        return f"{passages} of {questions(len(self.queries))}"

    @property
    def digest(self) -> str:
        """A hash of the pool, whatever the order of its items."""
        return short_hash(to_json(sorted(to_json(item.record()) for item in self.items)), 32)

    def shuffled(self, seed: int) -> list[ReviewItem]:
        """The items in random order, those of a question together, whatever order they came in."""
        in_order = sorted(self.items, key=lambda item: item.key)
        groups = list(grouped((item.key.query_id, item) for item in in_order).values())
        rng = random.Random(int(seed))
        rng.shuffle(groups)
        for group in groups:
            rng.shuffle(group)
        return [item for group in groups for item in group]


def _read(lines: Iterable[tuple[Location, Any]]) -> ReviewPool:
    items: dict[ItemKey, ReviewItem] = {}
    for place, record in lines:
        place.check(isinstance(record, Mapping), "a passage, {field: value}", record)
        key = _read_key(record, place)
        query, text = record.get("query"), record.get("text")
        for name, value in (("query", query), ("text", text)):
            place.check(isinstance(value, str), f"a field {name!r}, a text", sorted(record))
        place.check(key not in items, "every passage of a question once", " ".join(key))
        items[key] = ReviewItem(key, query or key.query_id, text)
    return ReviewPool(list(items.values()))


def _read_key(record: Mapping[str, Any], place: Location) -> ItemKey:
    for name in ItemKey._fields:
        place.check(record.get(name) is not None, f"a field {name!r}", sorted(record))
    return ItemKey(read_id(record["query_id"], place), read_id(record["doc_id"], place))


_TEXTS = ("reviewer", "judged_at", "note")


@dataclass(frozen=True, slots=True)
class Judgement:
    """One reviewer's grade of a passage, None where it isn't judged; `judged_at` is ISO 8601."""

    key: ItemKey
    grade: float | None
    scale: str = DEFAULT
    skipped: bool = False
    reviewer: str = ""
    judged_at: str = ""
    note: str = ""

    @property
    def is_judged(self) -> bool:
        """Whether it is graded and not skipped; negative grades mean unjudged, as everywhere."""
        return self.grade is not None and self.grade >= 0 and not self.skipped

    def record(self) -> dict[str, Any]:
        named = {} if self.scale == DEFAULT else {"scale": self.scale}
        fields = {name: getattr(self, name) for name in ("grade", "skipped", *_TEXTS)}
        return {**self.key._asdict(), **named, **fields}


ReviewsLike: TypeAlias = (
    "Sequence[Judgement] | Mapping[str, RelevanceLike] | str | os.PathLike[str]"
)


def read_reviews(path: str | os.PathLike[str]) -> list[Judgement]:
    """Read what the review page exported, skipped passages and notes included."""
    judgements: dict[ItemKey, Judgement] = {}
    for place, line in read_lines(Path(path)):
        judgement = _read_judgement(from_json(line, place), place)
        is_first = judgements.setdefault(judgement.key, judgement) is judgement
        expected = "every passage of a question once in a file"
        place.check(is_first, expected, " ".join(judgement.key))
    return list(judgements.values())


def read_judgements(*reviews: ReviewsLike) -> Qrels:
    """What people judged, as judgements for `pool`, `score_rankings`, `evaluate` and the like.

    A passage has the grade of its only reviewer, or of its first two where they agree. Where these
    differ, the third decides; without a third it stays unjudged, and a warning says how many there
    are. Skipped passages are unjudged.

    Args:
        reviews: for each reviewer, a file that the review page exported, or {query id: relevance};
            a third pass over the disagreements comes last.

    Raises:
        FileFormatError: a line can't be read; says where and why.
        InvalidInput: reviewers graded a passage by different rubrics.

    Examples:
        >>> first = {"q1": {"d1": 3, "d2": 0, "d3": 1}}
        >>> second, third = {"q1": {"d1": 3, "d2": 2}}, {"q1": {"d2": 1}}
        >>> read_judgements(first, second, third)
        {'q1': Relevance({'d1': 3.0, 'd2': 1.0, 'd3': 1.0})}
    """
    graded: dict[ItemKey, list[float]] = {}
    scales: dict[ItemKey, str] = {}
    for judgement in chain.from_iterable(map(as_reviews, reviews)):
        if judgement.is_judged and judgement.grade is not None:
            check_scale("reviews", judgement, scales.setdefault(judgement.key, judgement.scale))
            graded.setdefault(judgement.key, []).append(judgement.grade)
    if len(names := sorted(set(scales.values()))) > 1:
        several = ", ".join(map(repr, names))
        warn_caller(LabelWarning(f"grades by different rubrics are mixed: {several}"))
    n_undecided = 0
    grades: dict[str, dict[str, float]] = {}
    for key, (first, *others) in graded.items():
        deciding = others[1:] if others and others[0] != first else [first]
        if deciding:
            grades.setdefault(key.query_id, {})[key.doc_id] = deciding[0]
        else:
            n_undecided += 1
    if n_undecided:
        differ = f"reviewers differ on {n_undecided:,} of {len(graded):,} passages"
        remedy = "`agreement` lists them for a third pass"
        warn_caller(LabelWarning(f"{differ}, which stay unlabelled; {remedy}"))
    return Qrels({key: Relevance(of_query) for key, of_query in grades.items()})


def as_reviews(source: ReviewsLike, argument: str = "reviews") -> Sequence[Judgement]:
    if isinstance(source, (str, os.PathLike)):
        return read_reviews(source)
    if isinstance(source, Mapping):
        return [
            Judgement(ItemKey(query_id, item), grade)
            for query_id, relevance in source.items()
            for item, grade in Relevance(relevance).grades.items()
        ]
    if isinstance(source, Sequence):
        judgements = [entry for entry in source if isinstance(entry, Judgement)]
        if len(judgements) == len(source):
            return judgements
    expected = "a file of judgements, what read_reviews() made of it, or {query id: relevance}"
    raise InvalidInput(argument, source, expected)


def check_scale(argument: str, judgement: Judgement, scale: str) -> None:
    """Refuse grades by one rubric beside grades of the same passage by another."""
    if judgement.scale != scale:
        passage = " ".join(judgement.key)
        expected = f"grades by {scale!r}, by which another reviewer judged {passage}"
        raise InvalidInput(argument, judgement.scale, expected)


def _read_judgement(record: Any, place: Location) -> Judgement:
    place.check(isinstance(record, Mapping), "a judgement, {field: value}", record)
    place.check("grade" in record, "a field 'grade'", sorted(record))
    key, grade = _read_key(record, place), record["grade"]
    if grade is not None:
        grade = read_grade(None if isinstance(grade, bool) else grade, place)
    fields = {"scale": DEFAULT, **dict.fromkeys(_TEXTS, "")}
    texts = {name: record.get(name, default) for name, default in fields.items()}
    for name, text in texts.items():
        place.check(isinstance(text, str), f"{name}, a text", text)
    skipped, scale = record.get("skipped", False), texts["scale"]
    place.check(isinstance(skipped, bool), "skipped, true or false", skipped)
    if scale == DEFAULT and grade is not None and grade >= 0:
        grades = ", ".join(map(str, RELEVANCE.grades))
        expected = f"a grade, one of {grades}; grades by another rubric name it as their 'scale'"
        place.check(grade in RELEVANCE.grades, expected, grade)
    return Judgement(key, grade, skipped=skipped, **texts)


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
        path: the page.
        judgements: earlier judgements; the page shows them, and exports them again. Leave them out
            for a second reviewer who is to be independent.
        output: the name of the file that the page exports.
        rubric: a file with a rubric of your own: the question, and a line such as "2: The passage
            …" for each grade, from 0 to 9. The judgements name it, by a hash of what it says.
        seed: of the random order of questions, and of the passages of each.
        title: the title of the page.

    Returns:
        The path of the page.

    Raises:
        FileFormatError: a line can't be read, or repeats a passage; says where and why.
        InvalidInput: there is nothing to review, or it was judged by another rubric.

    Examples:
        >>> import tempfile
        >>> from llama_index_rag_metrics import RetrievalDataset, pool
        >>> dataset = RetrievalDataset({"q": "Who?"}, {}, {"y": "She.", "yy": "He."})
        >>> pooled = pool({"a": {"q": ["y"]}, "b": {"q": ["yy"]}}, dataset=dataset)
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
    scale = RELEVANCE if rubric is None else read_rubric(Path(rubric))
    reviews = () if judgements is None else as_reviews(judgements, "judgements")
    content = packed(_content(read, scale, reviews, seed, output, title))
    names = ("page.html", "review.css", "storage.js", "review.js")
    page, css, *scripts = (asset(name, __package__) for name in names)
    script = "".join([asset("carried.js"), *scripts])
    text = Template(page).substitute(
        title=escape.html(title),
        policy=script_source(script),
        css=asset("base.css") + css,
        script=script,
        chunks=escape.render(*carriers({"review": content})),
    )
    return write_text(target, text)


def _content(
    pool: ReviewPool, scale: Scale, reviews: Sequence[Judgement], seed: int, output: str, title: str
) -> dict[str, Any]:
    keys = {item.key for item in pool.items}
    known = [judgement for judgement in reviews if judgement.key in keys]
    for judgement in known:
        if judgement.is_judged and judgement.scale != scale.name:
            expected = f"grades by {scale.name!r}, by which the page asks"
            raise InvalidInput("judgements", judgement.scale, expected, _ANOTHER_SCALE)
    n_judged = sum(1 for judgement in known if judgement.grade is not None)
    already = f", {n_judged:,} judged already" if n_judged else ""
    # the page has each question once
    items = [{**item.key._asdict(), "text": item.text} for item in pool.shuffled(seed)]
    return {
        "pool": short_hash(f"{pool.digest} {scale.name}", 32),
        "title": title,
        "output": output,
        "extent": f"{pool.extent}{already}.",
        "scale": asdict(scale),
        "names_scale": scale.name != DEFAULT,
        "queries": pool.queries,
        "items": items,
        "judgements": [judgement.record() for judgement in known],
        "others": [judgement.record() for judgement in reviews if judgement.key not in keys],
    }
