"""Writing runs and qrels: JSONL and Parquet hold everything, TREC's format is for exchange."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.rankings.relevance import RelevanceLike, as_relevance
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.runtime.atomic_files import is_broken, whole_file
from llama_index_rag_metrics.runtime.containers import map_values
from llama_index_rag_metrics.runtime.errors import InvalidInput

from .fields import CALLS, REPEAT
from .lines import name_of, to_json, write_lines
from .read_runs import IS_LOG
from .records import ASKED, GRADED_BY, format_grade, ranking_record, relevance_record
from .sources import kind_of, pyarrow

_ENDINGS = "a name that ends in .jsonl or .parquet, or another one for TREC's format"
_HOLDS_ALL = "a name that ends in .jsonl or .parquet, which hold {what}"
_REMEDY = "TREC's format can't hold it; JSONL and Parquet hold everything."
_SPACES = re.compile(r"[ \t\v\f\r\n]")


def write_run(run: Run | Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write rankings.

    JSONL and Parquet have one record a query and hold all of a run. A TREC run holds ids, order and
    scores: if the ranking has none, or if trec_eval would order it otherwise by its own, n, n - 1,
    …, 1 are written. Its tag is the run's name, or the file's.

    Args:
        run: a Run, or {query id: ids or Ranking}.
        path: the file, whose ending says the format: .jsonl, .parquet, or any other for TREC's,
            packed by .gz, .bz2 or .xz behind it where it is text.

    Raises:
        InvalidInput: a TREC run can't hold it, such as an id with a space or a failed question.
        MissingExtra: Parquet needs the extra `batch`.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_run({"q1": ["d3", "d1"]}, Path(folder, "bm25.run"))
        ...     print(Path(folder, "bm25.run").read_text(encoding="utf-8"), end="")
        q1 Q0 d3 1 2.0 bm25
        q1 Q0 d1 2 1.0 bm25
    """
    rankings, target = run if isinstance(run, Run) else Run(run), Path(path)
    if holds_repeats(target):
        _write_records(target, _run_records(rankings))
        return
    has_copies = any(len(set(ranking.ids)) < len(ranking.ids) for ranking in rankings.values())
    too_much = {
        "several runs of each question": bool(rankings.repeats),
        "that the retriever failed": bool(rankings.failed),
        "an id twice in one ranking": has_copies,
    }
    for excess, is_there in too_much.items():
        if is_there:
            raise InvalidInput("path", str(path), _HOLDS_ALL.format(what=excess))
    write_lines(target, list(_trec_run_lines(rankings, rankings.name or name_of(target))))


def write_qrels(qrels: Mapping[str, RelevanceLike], path: str | os.PathLike[str]) -> None:
    """Write judgements.

    Args:
        qrels: query id to Relevance, {document id: grade}, ids or groups of ids.
        path: as of `write_run`.

    Raises:
        InvalidInput: the format can't hold it: groups are for JSONL only, and TREC's grades are
            whole.
        MissingExtra: Parquet needs the extra `batch`.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_qrels({"q1": {"d1": 2, "d2": 0}}, Path(folder, "qrels.txt"))
        ...     print(Path(folder, "qrels.txt").read_text(encoding="utf-8"), end="")
        q1 0 d1 2
        q1 0 d2 0
    """
    relevance = map_values(as_relevance, qrels)
    target = Path(path)
    if holds_repeats(target):
        records = [relevance_record(key, judgements) for key, judgements in relevance.items()]
        _write_records(target, records)
        return
    lines = []
    for query_id, judgements in relevance.items():
        if judgements.alternatives is not None or not judgements.grades:
            expected = _HOLDS_ALL.format(what=f"the labels of {query_id!r}")
            raise InvalidInput("path", str(path), expected)
        for item, grade in judgements.grades.items():
            if grade != int(grade):
                expected = "a whole number, since trec_eval cuts off the rest"
                raise InvalidInput("grade", grade, expected, _REMEDY)
            lines.append(f"{_query(query_id)} 0 {_item(item)} {format_grade(grade)}")
    write_lines(target, lines)


def holds_repeats(path: Path) -> bool:
    """Whether a file of this name can hold several runs of a question."""
    kind = kind_of(path)
    if kind not in ("jsonl", "parquet", "trec"):
        raise InvalidInput("path", str(path), _ENDINGS)
    return kind != "trec"


def _run_records(run: Run) -> Iterator[dict[str, Any]]:
    for repeat, rankings in enumerate(run.repeats or [run], 1):
        for query_id, ranking in rankings.items():
            record = ranking_record(query_id, repeat, ranking)
            if query_id in run.queries:
                record["query"] = run.queries[query_id]
            if run.is_log:
                record[IS_LOG] = True
            yield record


def _write_records(path: Path, records: Iterable[dict[str, Any]]) -> None:
    if kind_of(path) == "jsonl":
        write_lines(path, map(to_json, records))
        return
    pa = pyarrow()
    from pyarrow import parquet

    rows = list(records)
    fields = {"query_id", "retrieved_ids", "expected_ids"}.union(*rows)
    schema = pa.schema([column for column in _schema(pa) if column.name in fields])
    try:
        table = pa.Table.from_pylist(rows, schema=schema)
    except (UnicodeEncodeError, pa.ArrowException) as error:  # half an emoji; groups, facets
        expected = f"a name that ends in .jsonl, since Parquet can't hold it ({error})"
        raise InvalidInput("path", str(path), expected) from error
    with whole_file(path) as partial:
        parquet.write_table(table, partial)


def _schema(pa: Any) -> Any:
    text, texts, numbers = pa.string(), pa.list_(pa.string()), pa.list_(pa.float64())
    spans = pa.list_(pa.struct({"source": text, "start": pa.int64(), "end": pa.int64()}))
    columns = {
        "retrieved_ids": texts,
        "scores": numbers,
        "retrieved_texts": texts,
        "retrieved_tokens": pa.list_(pa.int64()),
        "retrieved_spans": spans,
        "latency": pa.float64(),
        "error": text,
    }
    calls = pa.list_(pa.struct({**dict.fromkeys(ASKED, text), **columns}))
    question = {"query_id": text, "query": text, REPEAT: pa.int64(), IS_LOG: pa.bool_()}
    labels = {"expected_ids": texts, "grades": numbers, "expected_spans": spans, GRADED_BY: text}
    return pa.schema({**question, **columns, **labels, CALLS: calls})


def _trec_run_lines(rankings: Mapping[str, Ranking], name: str) -> Iterator[str]:
    tag = re.sub(r"\s+", "-", name.strip()) or "run"
    for query_id, ranking in rankings.items():
        query, scores = _query(query_id), _ordering_scores(ranking)
        for rank, (item, score) in enumerate(zip(ranking.ids, scores, strict=True), 1):
            yield f"{query} Q0 {_item(item)} {rank} {score!r} {tag}"


def _ordering_scores(ranking: Ranking) -> list[float]:
    """Return a ranking's scores if they give its order, else n, n - 1, …, 1."""
    numbers = [math.nan if score is None else float(score) for score in ranking.scores or ()]
    if len(numbers) == len(ranking.ids) and all(map(math.isfinite, numbers)):
        pairs = zip(numbers, ranking.ids, strict=True)
        if all(above > below for above, below in pairwise(pairs)):
            return numbers
    return list(map(float, range(len(ranking.ids), 0, -1)))


def _query(query_id: str) -> str:
    if query_id.startswith("#"):
        raise InvalidInput("query_id", query_id, "an id that doesn't begin a comment", _REMEDY)
    return _item(query_id)


def _item(item: str) -> str:
    is_odd = not item or _SPACES.search(item) or item[0] == "\ufeff"
    if is_odd or is_broken(item):
        raise InvalidInput("id", item, "an id without white space", _REMEDY)
    return item
