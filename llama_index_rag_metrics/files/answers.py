"""Scores of answers, one a question: mappings, tables, lines, and what MLflow and Phoenix keep."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, TypeAlias, get_args

from llama_index_rag_metrics.files.fields import QUERY, QUERY_ID, REPEAT, first_of
from llama_index_rag_metrics.files.file_kinds import format_of
from llama_index_rag_metrics.files.lines import Faults, Place, from_json, read_lines, read_text
from llama_index_rag_metrics.files.records import read_id, read_number
from llama_index_rag_metrics.files.runs.arrow_runs import ArrowForm, column_names, read_batches
from llama_index_rag_metrics.files.runs.run_records import read_repeat
from llama_index_rag_metrics.files.tables import frame_records, is_frame, read_table
from llama_index_rag_metrics.files.traces import trace_reading
from llama_index_rag_metrics.files.traces.containers import IDS, is_trace, without_copied_index
from llama_index_rag_metrics.files.traces.trace_sessions import Repeats, comparable
from llama_index_rag_metrics.files.traces.trace_spans import mapping
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput, UnknownFormat

_Rows: TypeAlias = Sequence[tuple[Place, Any]]
_Found: TypeAlias = "list[tuple[Place, Sequence[str], Sequence[Any]]]"
"""Where it is said, of which questions, and their scores."""

_OfTraces: TypeAlias = Iterator[tuple[Place, str, str, object]]
"""Where it is said, of which trace, under which name, and the score."""

ANSWER = "answer"
_FIELDS = (QUERY_ID[0], QUERY[0], ANSWER, REPEAT)
_SCORE = "a score: a finite number, true or false, yes or no, pass or fail, thumbs up or down"
_GOOD = ("true", "yes", "y", "pass", "passed", "correct", "good", "up", "thumbsup", "👍")
_BAD = ("false", "no", "n", "fail", "failed", "incorrect", "bad", "down", "thumbsdown", "👎")
_MISSING = ("", "nan", "null", "none", "n/a", "na")
_WORDS = dict.fromkeys(_GOOD, 1.0) | dict.fromkeys(_BAD, 0.0) | dict.fromkeys(_MISSING, math.nan)
_LEFT_OUT = re.compile("[\\s_\ufe0f\U0001f3fb-\U0001f3ff-]")
"""Blanks and joints of words, and the variants of a thumb."""

_TOO_LARGE = 1e100
"""Squares of scores are summed."""

_UNDERSTOOD = (
    "{question id: score}",
    "CSV, TSV, JSON lines, JSON, Parquet, Arrow, a data frame or records with ids and scores",
    "MLflow's traces with their assessments",
    "Phoenix's spans, with annotations= as its client gives them",
)


class Answers(dict[str, float]):
    """Question id to the score of its answer; of several scores the mean.

    Attributes:
        name: what was scored, such as the name of a column; "" if it has none.
        missing: the questions whose answer has no score.
        notes: what was averaged, or couldn't be used.

    Examples:
        >>> read_answers({"q1": ["yes", "no"]})["q1"]
        0.5
    """

    name: str = ""
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_answers(
    source: Any,
    *,
    columns: Mapping[str, str] | None = None,
    annotations: Any = None,
    question_id: str | None = None,
    questions: trace_reading.Questions | None = None,
    repeats: Repeats = "last",
) -> Answers:
    """Read how good answers are, one score a question, for `relate`.

    A score is a number, a percentage, or true and false, yes and no, pass and fail, correct and
    incorrect, good and bad, thumbs up and down. Rows with a column `repeat`, and several
    assessments or annotations of a question, count by their mean.

    Args:
        source: {question id: score}; a path to CSV, TSV, JSON lines, JSON, Parquet or Arrow, a data
            frame, or records, with a question id and a score; the traces of
            `mlflow.search_traces()`, in memory or as JSON, with their assessments; or the data
            frame of Phoenix's `get_spans_dataframe()`.
        columns: what fields are called: {"query_id": "uuid", "answer": "correctness"}, also "query"
            for the question's text, and "repeat". "answer" may be the name of an assessment or an
            annotation, too. Without it, the only column or name that has scores is read.
        annotations: Phoenix's, of the spans of the source: what its client's
            `get_span_annotations_dataframe` returns.
        question_id, questions, repeats: of traces, as for `read_traces`: give what the run was read
            with. Without the first two each trace is a question. With `questions`, rows that have
            the question's text and no id are found by it, too.

    Raises:
        FileFormatError: a score or an id can't be read, a question comes twice, or a row has the id
            of one question and the text of another.
        InvalidInput: it isn't known which column or name has the scores.
        UnknownFormat: the source is nothing that is understood.

    Examples:
        >>> answers = read_answers([{"query_id": "q1", "correct": "yes"}, {"query_id": "q2"}])
        >>> dict(answers), answers.name, answers.missing
        ({'q1': 1.0}, 'correct', ('q2',))
    """
    if isinstance(source, Answers):
        return source
    source = [*source] if isinstance(source, Iterator) else source
    wanted = _checked(columns)
    rows = _rows(source, wanted)
    if annotations is not None:
        scored = _annotations(rows, annotations)
    elif _are_traces(rows):
        scored = _assessments(rows)
    else:
        return _of_rows(rows, wanted, trace_reading.question_texts(questions))
    if question_id is None and questions is None:
        return _of_traces([*scored], None, wanted)
    read = trace_reading.read_sessions(
        source, question_id, questions, match_on="node_id", texts=False, repeats=repeats
    )
    queries: dict[str, set[str]] = {}
    for of_time in read.times:
        for query_id, session in of_time.items():
            for trace_id in session.traces:
                queries.setdefault(trace_id, set()).add(query_id)
    return _of_traces([*scored], queries, wanted)


def answers_of(source: Any, columns: Mapping[str, str] | None, texts: Mapping[str, str]) -> Answers:
    """Read answers; rows without an id by these texts of questions, while a trace is a question."""
    if isinstance(source, Answers):
        return source
    wanted = _checked(columns)
    rows = _rows(source, wanted)
    if _are_traces(rows):
        return _of_traces([*_assessments(rows)], None, wanted)
    return _of_rows(rows, wanted, texts)


def _checked(columns: Mapping[str, str] | None) -> dict[str, str]:
    wanted = dict(columns or {})
    if unknown := sorted(set(wanted) - set(_FIELDS)):
        raise InvalidInput("columns", unknown, f"fields such as {' and '.join(_FIELDS)}")
    return wanted


def read_score(value: object, place: Place) -> float:
    """A score; NaN where there is none."""
    if value is None or type(value).__name__ == "NAType":
        return math.nan
    if isinstance(value, str):
        text = value.strip().casefold()
        word = _WORDS.get(_LEFT_OUT.sub("", text))
        share = read_number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        score = share if word is None else word
        is_missing = word is not None
    else:
        score = read_number(value)
        is_missing = isinstance(value, float) and math.isnan(value)
    if not abs(score) < _TOO_LARGE and not is_missing:
        raise place.wrong(_SCORE, value)
    return score


def _rows(source: Any, wanted: Mapping[str, str]) -> _Rows:
    if isinstance(source, (str, os.PathLike)):
        return _of_file(Path(source), wanted)
    if is_frame(source):
        return [*frame_records(without_copied_index(source))]
    if hasattr(source, "to_dict") and hasattr(source, "index"):
        source = source.to_dict()  # a series
    if isinstance(source, Mapping) and not is_trace(source):
        key, answer = (wanted.get(field, field) for field in (QUERY_ID[0], ANSWER))
        named = ((Place(f"answers, question {each!r}"), each, source[each]) for each in source)
        return [
            (place, {**(value if isinstance(value, Mapping) else {answer: value}), key: query_id})
            for place, query_id, value in named
        ]
    if not isinstance(source, Iterable):
        what = f"this {type(source).__name__}"
        raise UnknownFormat(what, "it is none of these", _UNDERSTOOD, "answers")
    return [*Place("answers").numbered([source] if isinstance(source, Mapping) else source)]


def _of_file(path: Path, wanted: Mapping[str, str]) -> _Rows:
    form, place = format_of(path, "qrels"), Place(str(path))
    if form in ("csv", "tsv"):
        names, rows = read_table(path, "," if form == "csv" else "\t", Faults())
        names = [name.strip() for name in names]
        return [(where, dict(zip(names, cells, strict=True))) for where, cells in rows]
    if form in get_args(ArrowForm):
        arrow: ArrowForm = "parquet" if form == "parquet" else "arrow"
        batches = read_batches(path, arrow, columns=column_names(path, arrow))
        return [*place.numbered((row for batch in batches for row in batch.to_pylist()), "row")]
    if form == "json":
        data = from_json(read_text(path), place)
        place.check(isinstance(data, (Mapping, list)), "{question id: score} or records", data)
        return _rows(data, wanted)
    if form == "jsonl":
        return [(where, from_json(line, where)) for where, line in read_lines(path)]
    if form == "empty":
        return []
    why = "it is no table with a column of question ids"
    raise UnknownFormat(str(path), why, _UNDERSTOOD, "answers")


def _of_rows(rows: _Rows, wanted: Mapping[str, str], texts: Mapping[str, str]) -> Answers:
    for place, row in rows:
        place.check(isinstance(row, Mapping), "a record with a question id and a score", row)
    column, repeat = _column_of_scores(rows, wanted), wanted.get(REPEAT, REPEAT)
    keys, words = ((wanted[of[0]],) if of[0] in wanted else of for of in (QUERY_ID, QUERY))
    by_text = trace_reading.queries_by_text(texts)
    seen: set[tuple[str, int]] = set()
    found: _Found = []
    for place, row in rows:
        key, text = first_of(row, keys), first_of(row, words)
        if key is None and (text is None or not texts):
            raise place.lacks(f"a field {keys[0]!r}", row)
        alike = by_text.get(comparable(str(text)), [])
        query_ids = alike if key is None else [read_id(key, place)]
        if len(query_ids) == 1:
            asked = query_ids[0], read_repeat({REPEAT: row.get(repeat)}, place)
            is_another = alike and asked[0] in texts and asked[0] not in alike
            place.check(not is_another, f"the text of question {asked[0]!r}, or no id", text)
            once = f"every question once, or a column {REPEAT!r} that says which time"
            place.check(asked not in seen, once, asked[0])
            seen.add(asked)
        found.append((place, query_ids, _each(row.get(column))))
    name = wanted.get(ANSWER, "" if column == ANSWER else column)
    return _averaged(found, name, "rows")


def _column_of_scores(rows: _Rows, wanted: Mapping[str, str]) -> str:
    """The column that is named, or else the only one most of whose cells are scores."""
    names = [*dict.fromkeys(name for _, row in rows for name in row)]
    if (column := wanted.get(ANSWER)) is not None:
        if rows and column not in names:
            raise rows[0][0].lacks(f"a field {column!r}", names)
        return column
    # pandas writes its index without a name
    known = ("", *QUERY_ID, *QUERY, REPEAT, *wanted.values())
    others = [each for each in names if each not in known]
    found = [name for name in others if _are_scores(row.get(name) for _, row in rows)]
    if len(found) > 1:
        raise _several(found, "one column of scores")
    # what is wrong with the only column is said where it is read
    if found or len(others) == 1 or not rows:
        return str([*found, *others, ANSWER][0])
    raise rows[0][0].lacks(f"a field {ANSWER!r}, {_SCORE}", names)


def _are_scores(cells: Iterable[Any]) -> bool:
    n_scores = n_others = 0
    for cell in cells:
        try:
            n_scores += any(not math.isnan(read_score(each, Place(""))) for each in _each(cell))
        except FileFormatError:
            n_others += 1
    return n_scores > n_others


def _several(names: Sequence[str], expected: str) -> InvalidInput:
    remedy = f"Say which: columns={{{ANSWER!r}: name}}."
    return InvalidInput("columns", names, expected, remedy, lacks=ANSWER)


def _each(values: Any) -> Sequence[Any]:
    """One score or several, numpy's as Python's."""
    values = values.tolist() if hasattr(values, "tolist") else values
    return values if isinstance(values, (list, tuple)) else [values]


def _check_unit(read: Sequence[tuple[Place, Any, float]]) -> None:
    """Refuse 90 beside "85%", which is 0.85."""
    percentages = [value for _, value, _ in read if _is_percentage(value)]
    for place, value, score in read if percentages else ():
        expected = f"no score above 1 beside a percentage, {percentages[0]!r}"
        place.check(abs(score) <= 1 or math.isnan(score) or _is_percentage(value), expected, value)


def _is_percentage(value: object) -> bool:
    return isinstance(value, str) and value.rstrip().endswith("%")


def _averaged(found: _Found, name: str, what: str) -> Answers:
    """The mean score of each question; what may be of several questions counts for none."""
    given: dict[str, list[float]] = {}
    read: list[tuple[Place, Any, float]] = []
    unknown = shared = 0
    for place, query_ids, values in found:
        unknown += not query_ids
        shared += len(query_ids) > 1
        if len(query_ids) == 1:
            scores = [read_score(value, place) for value in values]
            read += zip(repeat(place), values, scores)
            known = given.setdefault(query_ids[0], [])
            known += [score for score in scores if not math.isnan(score)]
    _check_unit(read)
    answers = Answers({key: math.fsum(known) / len(known) for key, known in given.items() if known})
    answers.name = name
    answers.missing = tuple(query_id for query_id, known in given.items() if not known)
    counts = {
        "questions with several scores, whose mean counts": sum(
            len(known) > 1 for known in given.values()
        ),
        f"{what} for no known question": unknown,
        f"{what} for several questions, which don't say for which": shared,
    }
    answers.notes = tuple(f"{said}: {n:,}" for said, n in counts.items() if n)
    return answers


def _are_traces(rows: _Rows) -> bool:
    first = rows[0][1] if rows else None
    is_row = isinstance(first, Mapping) and {"trace_id", "assessments"} <= first.keys()
    return is_row or is_trace(first) or hasattr(first, "info")


def _assessments(rows: _Rows) -> _OfTraces:
    """MLflow's feedback; expectations, and what was replaced by a later one, aren't scores."""
    for place, item in rows:
        trace: Any = item.to_dict() if hasattr(item, "to_dict") else item
        about = mapping(trace["info"]) if is_trace(trace) else trace
        trace_id, given = read_id(about.get("trace_id"), place), about.get("assessments")
        for raw in (from_json(given, place) if isinstance(given, str) else given) or ():
            assessment = raw if isinstance(raw, Mapping) else raw.to_dictionary()
            feedback = assessment.get("feedback")
            if feedback is not None and assessment.get("valid", True):
                name = str(assessment.get("assessment_name") or assessment.get("name"))
                yield place, trace_id, name, mapping(feedback).get("value")


def _annotations(rows: _Rows, annotations: Any) -> _OfTraces:
    """Phoenix's annotations of spans, each of the trace that its span is of."""
    if not rows or not all(name in rows[0][1] for name in IDS):
        expected = f"the spans that annotations= are of, a data frame with {' and '.join(IDS)}"
        raise InvalidInput("source", rows[0][1] if rows else "none", expected)
    if not is_frame(annotations):
        expected = "what get_span_annotations_dataframe returns"
        raise InvalidInput("annotations", type(annotations).__name__, expected)
    trace_of = {row[IDS[1]]: str(row[IDS[0]]) for _, row in rows}
    for place, row in frame_records(annotations):
        if (span_id := row.get("span_id")) is None:
            raise place.lacks("a column or an index 'span_id'", row)
        if span_id in trace_of:
            value = first_of(row, ("result.score", "score", "result.label", "label"))
            name = str(first_of(row, ("annotation_name", "name")) or "")
            yield place, trace_of[span_id], name, value


def _of_traces(
    scored: Sequence[tuple[Place, str, str, object]],
    queries: Mapping[str, set[str]] | None,
    wanted: Mapping[str, str],
) -> Answers:
    """The scores under a name, of the questions that their traces answer."""
    names, chosen = sorted({name for _, _, name, _ in scored}), wanted.get(ANSWER)
    if chosen is None and len(names) > 1:
        raise _several(names, "one assessment or annotation")
    if chosen is not None and chosen not in names:
        raise InvalidInput("columns", chosen, f"one of {', '.join(map(repr, names)) or 'none'}")
    found: _Found = [
        (place, [trace] if queries is None else [*queries.get(trace, ())], [value])
        for place, trace, name, value in scored
        if chosen in (None, name)
    ]
    return _averaged(found, chosen or "".join(names), "scores of traces")
