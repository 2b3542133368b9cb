"""Reading runs and qrels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking, Run, slope
from llama_index_rag_metrics.runtime.containers import map_values
from llama_index_rag_metrics.runtime.errors import FileFormatError
from llama_index_rag_metrics.runtime.masking import shorten

from . import records
from .conversations import CONVERSATION
from .fields import LABELS, Fields
from .lines import Location, decoded, raw_lines
from .records import Qrels
from .sources import open_source, unknown_format

IS_LOG = "is_log"  # whether a run holds what was asked, as traces do; in each of its records
_RUNS = (
    "a TREC run",
    "a row per question (query_id, retrieved_ids) or document (query_id, doc_id, score or rank)",
    "{query id: {document id: score}}",
)
_QRELS = (
    "TREC's or BEIR's qrels",
    "a row per question (query_id, expected_ids) or per judgement (query_id, doc_id, grade)",
    "{query id: {document id: grade}}",
)
_NO_RANKING = "a field 'retrieved_ids', or 'doc_id' with a 'score' or a 'rank'"
_NO_LABELS = "a field 'expected_ids', or 'doc_id' with a 'grade'"
_LABELS_AS_RUN = "a 'score' or a 'rank': labels, which have a grade, are read by read_qrels"
ONCE = "every query id once (without one, it is a digest of the question)"
_SCORES = "a score, a number, of each document, or ids: write {query id: {document id: score}}"
_ITEM_ONCE = "every document once a question"
_TREC_QRELS = "4 columns: query id, 0, document id, grade"
_TREC_RUN = "6 columns: query id, Q0, document id, rank, score, tag"
_TURNED = (
    "Turned round: in {rising:,} of {several:,} rankings of the file scores rise from line to "
    "line, as distances do, and the highest is taken for the best; negate distances"
)
_LIKE_ROWS = "Taken for comments: {n:,} lines of six columns that begin with #, such as {first}"
# the passages of a question and their scores, by what orders them or tells them apart
_Passages: TypeAlias = dict[Any, tuple[str, float | None]]


class _Attempt(NamedTuple):
    repeat: int  # which time the question was asked, from 1 on
    query_id: str


def read_run(source: Any, *, name: str = "", columns: Mapping[str, str] | None = None) -> Run:
    """Read rankings, from a file or from objects of other tools.

    Scores are ordered as by trec_eval: by score as 64-bit float, then by document id, both
    descending. That holds for TREC runs, whose rank column isn't read, for {query id: {document
    id: score}}, and for tables without ranks. A list of ids is a ranking as it is.

    Args:
        source: a path, whose ending says the format: .jsonl, .json, .csv, .tsv, .parquet, any other
            a TREC run, each also packed as .gz, .bz2 or .xz; or in memory {query id: {document
            id: score} or ids}, a data frame of pandas or polars, an Arrow table, a ranx Run, or an
            iterable of ir_measures' ScoredDoc or of records. A row holds a query (`query_id`,
            `retrieved_ids`, perhaps `scores`) or a document (`query_id`, `doc_id`, `score` or
            `rank`), and perhaps `repeat`: which time the question was asked.
        name: what to call the run; by default the tag of a TREC run, or the file's name.
        columns: what fields are called in the source: {"retrieved_ids": "my_ids"}.

    Raises:
        FileFormatError: a line can't be read, or repeats a document.
        MissingExtra: Parquet needs the extra `batch`.
        FileNotFoundError: there is no such file.

    Examples:
        >>> run = read_run({"q1": {"d1": 0.2, "d2": 0.9, "d3": 0.2}})
        >>> run["q1"].ids
        ['d2', 'd3', 'd1']
    """
    if isinstance(source, Run):
        run = source.replaced(source, repeats=source.repeats)
        run.name = name or source.name
        return run
    fields = Fields(columns)
    opened = open_source(source, fields, partial(unknown_format, understood=_RUNS, kind="a run"))
    if opened.is_trec:
        rankings, tag, notes = _read_trec_run(Path(source))
        run = Run(rankings, name=name or tag or opened.name, notes=notes)
        run.label_notes = run.notes
        return run
    reader = _RunReader(fields)
    for location, row in opened.rows:
        reader.add(row, location)
    for key, value in (opened.value or {}).items():
        location = Location(f"{opened.location.path}, question {key!r}")
        attempt = _Attempt(1, records.read_id(key, location))
        reader.add_ranking(attempt, _ranking(value, location), location)
    return reader.run(name or opened.name)


def read_qrels(source: Any, *, columns: Mapping[str, str] | None = None) -> Qrels:
    """Read judgements, from a file or from objects of other tools.

    Args:
        source: as of `read_run`, with labels: {query id: {document id: grade}, ids or Relevance},
            TREC's or BEIR's qrels, a dataset in JSON, or records of a query (`query_id`,
            `expected_ids`, perhaps `grades`) or of a judgement (`query_id`, `doc_id`, `grade`).
        columns: what fields are called in the source: {"labels": "gold_ids"}.

    Raises:
        FileFormatError: a line can't be read, or contradicts another.
        MissingExtra: Parquet needs the extra `batch`.
        FileNotFoundError: there is no such file.

    Examples:
        >>> read_qrels({"q1": {"d1": 2, "d7": 0}})
        {'q1': Relevance({'d1': 2.0, 'd7': 0.0})}
    """
    if isinstance(source, Qrels):
        return source
    fields = Fields(columns)
    opened = open_source(source, fields, partial(unknown_format, understood=_QRELS, kind="qrels"))
    reader = _QrelsReader(fields)
    if opened.is_trec:
        reader.add_trec(Path(source))
    for location, row in opened.rows:
        reader.add(row, location)
    if opened.value is not None:
        reader.add_object(opened.value, opened.location)
    return reader.qrels()


def labels_beside(path: Path, columns: Mapping[str, str] | None) -> Qrels:
    """Return the labels beside the rankings of a run, if any; scores aren't read as grades."""
    fields = Fields(columns)
    reader = _QrelsReader(fields)
    unknown = partial(unknown_format, understood=_RUNS, kind="a run")
    for location, row in open_source(path, fields, unknown).rows:
        labels = {name: row[name] for name in row if name not in fields.names("score")}
        if any(fields.value(labels, field) is not None for field in (*LABELS, "grade")):
            reader.add(labels, location)
    return reader.qrels()


class _RunReader:
    """Collects rankings from rows; the first one says the order: by rank, by score, or as read."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._order = ""
        self._rankings: dict[_Attempt, Ranking] = {}
        self._passages: dict[_Attempt, _Passages] = {}
        self._queries: dict[str, str] = {}
        self._is_log = False

    def add(self, row: Mapping[str, Any], location: Location) -> None:
        fields = self._fields
        has_ranking = fields.value(row, "retrieved_ids") is not None
        if not has_ranking and not fields.has(row, "doc_id"):
            raise location.lacks(_NO_RANKING, row)
        query_id = records.question_id(row, fields, location)
        text = fields.value(row, "query")
        if isinstance(text, str):
            self._queries.setdefault(query_id, text)
        self._is_log |= row.get(IS_LOG) is True
        attempt = _Attempt(records.read_repeat(row, location, fields), query_id)
        if has_ranking:
            self.add_ranking(attempt, records.read_ranking(row, location, fields), location)
        else:
            self._add_passage(self._passages.setdefault(attempt, {}), query_id, row, location)

    def add_ranking(self, attempt: _Attempt, ranking: Ranking, location: Location) -> None:
        location.check(attempt not in self._rankings, f"{ONCE}, or repeat: 2, …", attempt.query_id)
        self._rankings[attempt] = ranking

    def _add_passage(
        self, passages: _Passages, query_id: str, row: Mapping[str, Any], location: Location
    ) -> None:
        passage = records.read_id(self._fields.value(row, "doc_id"), location)
        rank = records.number_or_none(self._fields.value(row, "rank"), location)
        score = records.number_or_none(self._fields.value(row, "score"), location)
        keys: dict[str, Any] = {"rank": rank, "score": score, "line": len(passages)}
        if not self._order:
            self._order = next(order for order, key in keys.items() if key is not None)
            are_labels = self._order == "line" and self._fields.has(row, "grade")
            location.check(not are_labels, _LABELS_AS_RUN, sorted(row))
        expected = f"a {self._order}, a number, as in the first record"
        location.check(keys[self._order] is not None, expected, f"{query_id} {passage}")
        key = passage if self._order == "score" else keys[self._order]
        expected = "every document and every rank once a question"
        location.check(key not in passages, expected, f"{query_id} {key}")
        passages[key] = passage, score

    def _ordered(self, passages: _Passages) -> Ranking:
        if self._order == "score":
            return _by_score({item: score or 0.0 for item, score in passages.values()})
        if self._order == "rank":
            passages = dict(sorted(passages.items()))
        ids, scores = zip(*passages.values(), strict=True)
        return Ranking(ids, scores if set(scores) - {None} else None)

    def run(self, name: str) -> Run:
        """Return the run; where questions were asked again, with a run for each time."""
        rankings = map_values(self._ordered, self._passages) | self._rankings
        runs: list[dict[str, Ranking]] = [{}]
        for attempt in sorted(rankings, key=attrgetter("repeat")):
            n_before = sum(attempt.query_id in rankings_before for rankings_before in runs)
            if n_before == len(runs):
                runs.append({})
            runs[n_before][attempt.query_id] = rankings[attempt]
        repeats: list[Run] = []
        if len(runs) > 1:
            repeats = [Run(rankings, name=name, queries=self._queries) for rankings in runs]
        columns: list[list[float]] = []
        for passages in self._passages.values() if self._order == "score" else ():
            scores: list[Any] = list(dict(passages.values()).values())
            if scores in (sorted(scores), sorted(scores, reverse=True)):  # by rank, as it seems
                columns.append(scores)
        notes = list(_turned_round(columns))
        run = Run(runs[0], name=name, queries=self._queries, notes=notes, repeats=repeats)
        run.label_notes = run.notes
        run.is_log = self._is_log
        return run


def _ranking(value: Any, location: Location) -> Ranking:
    """Return the ranking of a value in {query id: value}: ids in order, or their scores."""
    if isinstance(value, Ranking):
        return value
    if not isinstance(value, Mapping):
        is_list = isinstance(value, (list, tuple)) or hasattr(value, "tolist")
        are_ids = is_list and not any(isinstance(item, Mapping) for item in value)
        location.check(are_ids, _SCORES, value)
        return Ranking(records.read_ids(value, location))
    ids = [records.read_id(item, location) for item in value]
    scores = dict(zip(ids, map(records.number_of, value.values()), strict=True))
    location.check(len(scores) == len(value), _ITEM_ONCE, list(value))
    for item, score in zip(value.values(), scores.values(), strict=True):
        location.check(not math.isnan(score), _SCORES, item)
    return _by_score(scores)


def _by_score(scores: Mapping[str, float]) -> Ranking:
    pairs = sorted(zip(scores.values(), scores, strict=True), reverse=True)
    return Ranking(list(map(itemgetter(1), pairs)), list(map(itemgetter(0), pairs)))


class _QrelsReader:
    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._judgements = records.Judgements()
        self._labels: dict[str, Relevance] = {}
        self._metadata: dict[str, dict[str, Any]] = {}
        self._unlabelled: FileFormatError | None = None

    def add_trec(self, path: Path) -> None:
        """Add judgements in TREC's four columns, of which one says nothing, or in BEIR's three."""
        for location, line, columns in _TrecRows(path):
            if len(columns) == 3 and line.count("\t") == 2:
                columns.insert(1, "0")
            location.check(len(columns) == 4, _TREC_QRELS, line)
            self._judgements.add(columns[0], columns[2], columns[3], location)

    def add(self, row: Mapping[str, Any], location: Location) -> None:
        fields = self._fields
        if fields.has(row, "doc_id"):
            self._add_judgement(row, location)
            return
        relevance = records.read_labels(row, fields, location)
        if relevance is not None:
            self._add_labels(records.question_id(row, fields, location), relevance, row, location)
            return
        error = location.lacks(_NO_LABELS, row)
        if not fields.has(row, "expected_ids") and not fields.has(row, "retrieved_ids"):
            raise error
        self._unlabelled = self._unlabelled or error

    def _add_judgement(self, row: Mapping[str, Any], location: Location) -> None:
        grade = self._fields.value(row, "grade")
        if grade is None and "skipped" in row:  # by a reviewer
            return
        if not self._fields.has(row, "grade"):
            raise location.lacks("a field 'grade'", row)
        query_id = records.question_id(row, self._fields, location)
        passage = records.read_id(self._fields.value(row, "doc_id"), location)
        self._judgements.add(query_id, passage, grade, location)

    def _add_labels(
        self, query_id: str, relevance: Relevance, row: Mapping[str, Any], location: Location
    ) -> None:
        # beside what a question that was asked again retrieved, labels may stand again
        is_alike = self._labels.setdefault(query_id, relevance) == relevance
        location.check(is_alike, "the same labels for a question everywhere", query_id)
        if row.get(CONVERSATION) not in (None, ""):
            self._metadata[query_id] = {CONVERSATION: row[CONVERSATION]}

    def add_object(self, value: Mapping[Any, Any], location: Location) -> None:
        """Add the labels of a dataset, or {query id: labels}."""
        parts = value if is_dataset(value) else {"relevance": value}
        labels = parts.get("relevance") or parts.get("relevant_docs") or {}
        models = parts.get(records.GRADED_BY) or {}
        metadata = parts.get("metadata") or {}
        for key, entry in labels.items():
            place = Location(f"{location.path}, question {key!r}")
            relevance = records.graded(records.read_relevance(entry, place), models.get(key))
            self._add_labels(records.read_id(key, place), relevance, metadata.get(key) or {}, place)

    def qrels(self) -> Qrels:
        qrels = Qrels({**self._judgements.relevance(), **self._labels})
        if self._unlabelled and not qrels:
            raise self._unlabelled
        qrels.metadata = self._metadata
        return qrels


def is_dataset(value: Mapping[Any, Any]) -> bool:
    """Whether a value is a dataset, and no labels of a question that is called "queries"."""
    queries = value.get("queries")
    return isinstance(queries, Mapping) and all(isinstance(text, str) for text in queries.values())


def _read_trec_run(path: Path) -> tuple[dict[str, Ranking], str, list[str]]:
    scores: dict[str, dict[str, float]] = {}
    tag, rows = "", _TrecRows(path)
    for location, line, columns in rows:
        # what follows the tag doesn't count; but an id with a space in it also makes a column more
        has_rank = not math.isnan(records.number_of("".join(columns[3:4])))
        is_right = len(columns) == 6 or (6 < len(columns) < 11 and has_rank)  # no two lines in one
        location.check(is_right, _TREC_RUN, line)
        query_id, _, item, _, number, tag = columns[:6]
        score = records.number_of(number)
        location.check(not math.isnan(score), "a score, a number", number)
        of_query = scores.setdefault(query_id, {})
        location.check(item not in of_query, _ITEM_ONCE, f"{query_id} {item}")
        of_query[item] = score
    notes = list(_turned_round(map(list, map(dict.values, scores.values()))))
    if rows.comments:
        example = shorten(rows.comments[0].decode(errors="replace"))
        notes.append(_LIKE_ROWS.format(n=len(rows.comments), first=example))
    return map_values(_by_score, scores), tag, notes


def _turned_round(columns: Iterable[Sequence[float]]) -> Iterator[str]:
    """Yield a sentence where most scores rise from line to line."""
    slopes = [slope(scores) for scores in columns if len(scores) > 1]
    if 2 * slopes.count(1) > len(slopes):
        yield _TURNED.format(rising=slopes.count(1), several=len(slopes))


class _TrecRows:
    """The lines of a TREC file with their columns, without comments."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.comments: list[bytes] = []  # how those begin that look like rows

    def __iter__(self) -> Iterator[tuple[Location, str, list[str]]]:
        for location, raw in raw_lines(self.path):
            columns = raw.split()  # of bytes: at the white space that C knows
            if columns and columns[0].startswith(b"#"):
                if len(columns) == 6 and columns[0] != b"#":
                    self.comments.append(columns[0])
            elif columns:
                line = decoded(raw, location).strip()
                yield location, line, list(map(bytes.decode, columns))
