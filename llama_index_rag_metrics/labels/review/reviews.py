"""What people judge, by which scales, and the page for it: one HTML file that keeps every grade."""

from __future__ import annotations

import json
import math
import os
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from operator import itemgetter
from pathlib import Path
from string import Template
from typing import Any, NamedTuple, TypeAlias

from llama_index_rag_metrics.files.file_kinds import POOL, REVIEW, read_as
from llama_index_rag_metrics.files.lines import (
    Place,
    Rows,
    from_json,
    read_lines,
    read_text,
    to_json,
    write_lines,
)
from llama_index_rag_metrics.files.records import Qrels, read_grade, read_id
from llama_index_rag_metrics.labels import grouped
from llama_index_rag_metrics.labels.pooling import Pool
from llama_index_rag_metrics.metrics.texts.llm_judge import RUBRIC
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.report import escape
from llama_index_rag_metrics.report.html.assets import asset, carriers, packed, script_source
from llama_index_rag_metrics.report.numbers import counted, questions
from llama_index_rag_metrics.runtime.amounts import check_integer
from llama_index_rag_metrics.runtime.atomic_files import write_text
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.digests import short_hash
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning

_GRADE_LINE = re.compile(r"^(\d):[ \t]+(.+)$", re.MULTILINE)
_FIELDS = ("grade", "key", "label", "rubric")


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer of a scale: its grade, the digit to press, the button's text, its rubric."""

    grade: float | str
    key: str
    label: str
    rubric: str


@dataclass(frozen=True, slots=True)
class Scale:
    """A question about an item, and the answers, best first."""

    name: str
    intro: str
    choices: Sequence[Choice]

    @property
    def grades(self) -> list[float | str]:
        return [choice.grade for choice in self.choices]


_RELEVANCE_LABELS = ("Not about it", "On the subject", "Part of an answer", "Exact answer")

# the scales that a pool can name: the rubric of `LLMRelevancy`, and those of nuggets
SCALES: Mapping[str, Scale] = {
    "relevance": Scale(
        "relevance",
        "How well does the passage answer the question?",
        [
            Choice(int(key), key, _RELEVANCE_LABELS[int(key)], rubric[:1].upper() + rubric[1:])
            for key, rubric in _GRADE_LINE.findall(RUBRIC.replace("query", "question"))
        ],
    ),
    "importance": Scale(
        "importance",
        "Does a good answer need this fact?",
        [
            Choice("vital", "2", "Vital", "An answer without it isn't a good one."),
            Choice("okay", "1", "Okay", "It is worth having; an answer can do without it."),
            Choice("drop", "0", "Drop", "It is wrong, says nothing, or repeats another fact."),
        ],
    ),
    "support": Scale(
        "support",
        "Does the passage say this fact?",
        [
            Choice("full", "2", "Full", "The passage says all of it."),
            Choice("partial", "1", "Partial", "The passage says a part of it."),
            Choice("none", "0", "None", "The passage says nothing of it, or contradicts it."),
        ],
    ),
}

DEFAULT = "relevance"  # the scale of what names none


def read_scale(record: Any, place: Place) -> Scale:
    expected = f"a scale, one of {', '.join(SCALES)}, or an object"
    place.check(isinstance(record, Mapping), expected, record)
    name, intro, choices = record.get("name"), record.get("intro", ""), record.get("choices")
    place.check(isinstance(name, str) and name, "a scale with a 'name'", record)
    expected = "a scale with an 'intro', a text, and 'choices', a list"
    place.check(isinstance(intro, str) and isinstance(choices, list), expected, record)
    scale = Scale(name, intro, [_choice(choice, place) for choice in choices])
    for unique in ("grade", "key"):
        values = [getattr(choice, unique) for choice in scale.choices]
        place.check(len(set(values)) == len(values), f"every {unique} of a scale once", values)
    place.check(len(choices) >= 2, "a scale of at least two choices", choices)
    expected = f"a scale called otherwise than {name!r}, which has other grades"
    known = SCALES.get(name, scale).grades
    place.check(set(scale.grades) <= set(known), expected, scale.grades)
    return scale


def read_rubric(path: Path) -> Scale:
    """A rubric, a line a grade after the question, or a scale as .json, named by its hash."""
    text, place = read_text(path), Place(str(path))
    if path.suffix == ".json":
        return read_scale(from_json(text, place), place)
    lines = sorted(_GRADE_LINE.findall(text), key=itemgetter(0), reverse=True)
    choices = [Choice(float(digit), digit, "", rubric.strip()) for digit, rubric in lines]
    intro = " ".join(_GRADE_LINE.sub("", text).split())
    expected = "a line for each grade, at least two, such as '2: The passage …'"
    place.check(len(choices) >= 2, expected, text)
    content = to_json([intro, *((choice.key, choice.rubric) for choice in choices)])
    name = f"own rubric {short_hash(content, 8)}"
    return read_scale(asdict(Scale(name, intro or SCALES[DEFAULT].intro, choices)), place)


def _choice(record: Any, place: Place) -> Choice:
    is_one = isinstance(record, Mapping) and {"grade", "key"} <= record.keys()
    place.check(is_one, f"choices with the fields {', '.join(_FIELDS)}", record)
    grade, key = record["grade"], record["key"]
    is_grade = isinstance(grade, (int, float, str)) and not isinstance(grade, bool) and grade != ""
    place.check(is_grade, "a grade, a number or a word", grade)
    place.check(key in [*"0123456789"], "a key, one of the digits, as a text", key)
    texts = [record.get(field, "") for field in ("label", "rubric")]
    are_texts = all(isinstance(text, str) for text in texts) and any(texts)
    place.check(are_texts, "a label or a rubric, texts", record)
    return Choice(grade, key, *texts)


PoolLike: TypeAlias = "ReviewPool | Pool | str | os.PathLike[str]"


class ItemKey(NamedTuple):
    """The ids of an item: of a passage, a nugget, or both."""

    query_id: str
    doc_id: str | None = None
    nugget_id: str | None = None

    def __str__(self) -> str:
        return " ".join(filter(None, self))

    def record(self) -> dict[str, str]:
        return {name: value for name, value in self._asdict().items() if value is not None}

    def texts(self) -> list[str]:
        named = {"query": self.query_id, "text": self.doc_id, "nugget": self.nugget_id}
        return [name for name, value in named.items() if value is not None]


@dataclass(frozen=True, slots=True)
class ReviewItem:
    key: ItemKey
    query: str
    text: str = ""
    nugget: str = ""
    scale: str = DEFAULT

    def record(self) -> dict[str, str]:
        """The item as a line of a pool, without its scale."""
        return {**self.key.record(), **{name: getattr(self, name) for name in self.key.texts()}}


@dataclass(frozen=True)
class ReviewPool:
    """Items to be judged, each once, and the scales that they name."""

    items: Sequence[ReviewItem]
    scales: Mapping[str, Scale] = field(default_factory=lambda: dict(SCALES))

    @classmethod
    def of(cls, pool: PoolLike) -> ReviewPool:
        if isinstance(pool, ReviewPool):
            return pool
        if isinstance(pool, Pool):
            read = _read(Place("pool").numbered(pool.records()))
        elif isinstance(pool, (str, os.PathLike)):
            path = Path(pool)
            with read_as(POOL, path):
                read = _read((place, from_json(line, place)) for place, line in read_lines(path))
        else:
            raise InvalidInput("pool", pool, "a Pool, or a path to what its to_jsonl() wrote")
        if not read.items:
            source = "none" if isinstance(pool, Pool) else str(pool)
            raise InvalidInput("pool", source, "at least one passage or nugget to review")
        if not any(item.text or item.key.doc_id is None for item in read.items):
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
        items = counted(len(self), "item", "items")
        return f"{items} of {questions(len(self.queries))}"

    @property
    def digest(self) -> str:
        """A hash of the pool, whatever the order of its items."""
        records = sorted(to_json([item.record(), item.scale]) for item in self.items)
        names = sorted({item.scale for item in self.items})
        grades = {name: self.scales[name].grades for name in names}
        return short_hash(json.dumps([records, grades]), 32)

    def shuffled(self, seed: int) -> list[ReviewItem]:
        """The items in random order, those of a question together, whatever order they came in."""
        in_order = sorted(self.items, key=lambda item: to_json(item.key))
        groups = list(grouped((item.key.query_id, item) for item in in_order).values())
        rng = random.Random(int(seed))
        rng.shuffle(groups)
        for group in groups:
            rng.shuffle(group)
        return [item for group in groups for item in group]

    def to_jsonl(self, path: str | os.PathLike[str]) -> None:
        write_lines(Path(path), (to_json(self._line(item)) for item in self.items))

    def _line(self, item: ReviewItem) -> dict[str, Any]:
        scale = self.scales[item.scale]
        if SCALES.get(item.scale) != scale:
            return {**item.record(), "scale": asdict(scale)}
        return {**item.record(), **({} if item.scale == DEFAULT else {"scale": item.scale})}


def _read(lines: Rows) -> ReviewPool:
    items: dict[ItemKey, ReviewItem] = {}
    used: dict[str, Scale] = {}
    for place, record in lines:
        place.check(isinstance(record, Mapping), "an item, {field: value}", record)
        named = record.get("scale", DEFAULT)
        is_known = isinstance(named, str) and named in SCALES
        scale = SCALES[named] if is_known else read_scale(named, place)
        is_same = used.setdefault(scale.name, scale) == scale
        place.check(is_same, f"one scale that is called {scale.name!r}", named)
        key = read_key(record, place)
        texts = {name: record.get(name) for name in key.texts()}
        for name, text in texts.items():
            place.check(isinstance(text, str), f"a field {name!r}, a text", sorted(record))
        place.check(key not in items, "every item once", str(key))
        texts["query"] = texts["query"] or key.query_id
        items[key] = ReviewItem(key, **texts, scale=scale.name)
    return ReviewPool(list(items.values()), {**SCALES, **used})


def read_key(record: Mapping[str, Any], place: Place) -> ItemKey:
    query_id, *ids = (record.get(name) for name in ItemKey._fields)
    place.check(query_id is not None, "a field 'query_id'", sorted(record))
    place.check(ids != [None, None], "a field 'doc_id', or 'nugget_id'", sorted(record))
    of_item = (None if value is None else read_id(value, place) for value in ids)
    return ItemKey(read_id(query_id, place), *of_item)


Grade: TypeAlias = float | str

_TEXTS = ("reviewer", "judged_at", "note")


@dataclass(frozen=True, slots=True)
class Judgement:
    """One reviewer's grade of one item, None where it isn't judged; `judged_at` is ISO 8601."""

    key: ItemKey
    grade: Grade | None
    scale: str = DEFAULT
    skipped: bool = False
    reviewer: str = ""
    judged_at: str = ""
    note: str = ""

    @property
    def is_judged(self) -> bool:
        """Whether it is graded and not skipped; negative grades mean unjudged, as everywhere."""
        is_graded = isinstance(self.grade, str) or (self.grade is not None and self.grade >= 0)
        return is_graded and not self.skipped

    def record(self) -> dict[str, Any]:
        named = {} if self.scale == DEFAULT else {"scale": self.scale}
        fields = {name: getattr(self, name) for name in ("grade", "skipped", *_TEXTS)}
        return {**self.key.record(), **named, **fields}


ReviewsLike: TypeAlias = (
    "Sequence[Judgement] | Mapping[str, RelevanceLike] | str | os.PathLike[str]"
)


class MergedJudgements(Qrels):
    """Query id to Relevance, from several reviewers."""

    undecided: tuple[tuple[str, str], ...] = ()
    """(query id, passage) pairs on which they differ, and nobody else decides."""


def read_reviews(path: str | os.PathLike[str]) -> list[Judgement]:
    """Read what the review page exported, skipped items and notes included."""
    judgements: dict[ItemKey, Judgement] = {}
    with read_as(REVIEW, Path(path)):
        for place, line in read_lines(Path(path)):
            judgement = _read_judgement(from_json(line, place), place)
            is_first = judgements.setdefault(judgement.key, judgement) is judgement
            place.check(is_first, "every item once in a file", str(judgement.key))
    return list(judgements.values())


def read_judgements(*reviews: ReviewsLike) -> MergedJudgements:
    """What people judged, as judgements for `pool`, `score_rankings`, `evaluate` and the like.

    A passage has the grade of its only reviewer, or of its first two where they agree. Where these
    differ, the third decides; without a third it stays unjudged: `undecided` lists it, and a
    warning says how many there are. Skipped items are unjudged; judgements of nuggets are left out.

    Args:
        reviews: for each reviewer, a file that the review page exported, or {query id: relevance};
            a third pass over the disagreements comes last.

    Raises:
        FileFormatError: a line can't be read; says where and why.
        InvalidInput: a grade of a passage is a word, or reviewers graded it by different scales.

    Examples:
        >>> first = {"q1": {"d1": 3, "d2": 0, "d3": 1}}
        >>> second, third = {"q1": {"d1": 3, "d2": 2}}, {"q1": {"d2": 1}}
        >>> read_judgements(first, second, third)
        {'q1': Relevance({'d1': 3.0, 'd2': 1.0, 'd3': 1.0})}
    """
    graded: dict[ItemKey, list[float]] = {}
    scales: dict[ItemKey, str] = {}
    for judgement in chain.from_iterable(map(as_reviews, reviews)):
        if judgement.key.nugget_id is not None or not judgement.is_judged:
            continue
        if not isinstance(judgement.grade, (int, float)):
            raise InvalidInput("grade", judgement.grade, "numbers for passages")
        check_scale("reviews", judgement, scales.setdefault(judgement.key, judgement.scale))
        graded.setdefault(judgement.key, []).append(judgement.grade)
    if len(names := sorted(set(scales.values()))) > 1:
        several = ", ".join(map(repr, names))
        warn_caller(LabelWarning(f"grades by different scales are mixed: {several}"))
    undecided: list[tuple[str, str]] = []
    grades: dict[str, dict[str, float]] = {}
    for key, (first, *others) in graded.items():
        deciding = others[1:] if others and others[0] != first else [first]
        if deciding:
            grades.setdefault(key.query_id, {})[str(key.doc_id)] = deciding[0]
        else:
            undecided.append((key.query_id, str(key.doc_id)))
    merged = MergedJudgements({key: Relevance(of_query) for key, of_query in grades.items()})
    merged.undecided = tuple(undecided)
    if undecided:
        differ = f"reviewers differ on {len(undecided):,} of {len(graded):,} passages"
        remedy = "`compare_reviewers` lists them for a third pass"
        warn_caller(LabelWarning(f"{differ}, which stay unlabelled; {remedy}"))
    return merged


def as_reviews(source: ReviewsLike, argument: str = "reviews") -> Sequence[Judgement]:
    if isinstance(source, (str, os.PathLike)):
        return read_reviews(source)
    if isinstance(source, Mapping):
        return [
            Judgement(ItemKey(query_id, item), grade)
            for query_id, relevance in source.items()
            for item, grade in Relevance.of(relevance).grades.items()
        ]
    if isinstance(source, Sequence):
        judgements = [entry for entry in source if isinstance(entry, Judgement)]
        if len(judgements) == len(source):
            return judgements
    expected = "a file of judgements, what read_reviews() made of it, or {query id: relevance}"
    raise InvalidInput(argument, source, expected)


def check_scale(argument: str, judgement: Judgement, scale: str) -> None:
    if judgement.scale != scale:
        expected = f"grades by {scale!r}, by which another reviewer judged {judgement.key}"
        raise InvalidInput(argument, judgement.scale, expected)


def _read_judgement(record: Any, place: Place) -> Judgement:
    place.check(isinstance(record, Mapping), "a judgement, {field: value}", record)
    place.check("grade" in record, "a field 'grade'", sorted(record))
    key, grade = read_key(record, place), record["grade"]
    if not isinstance(grade, (str, type(None))):
        grade = read_grade(None if isinstance(grade, bool) else grade, place)
    fields = {"scale": DEFAULT, **dict.fromkeys(_TEXTS, "")}
    texts = {name: record.get(name, default) for name, default in fields.items()}
    for name, text in texts.items():
        place.check(isinstance(text, str), f"{name}, a text", text)
    skipped, scale = record.get("skipped", False), texts["scale"]
    place.check(isinstance(skipped, bool), "skipped, true or false", skipped)
    judgement = Judgement(key, grade, skipped=skipped, **texts)
    # below 0 it is no judgement
    if scale in SCALES and replace(judgement, skipped=False).is_judged:
        grades = SCALES[scale].grades
        expected = f"a grade of the scale {scale!r}, one of {', '.join(map(str, grades))}"
        if scale == DEFAULT:
            expected += "; grades by another rubric name it as their 'scale'"
        place.check(grade in grades, expected, grade)
    return judgement


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
        chunks=escape.render(*carriers({"review": content})),
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
