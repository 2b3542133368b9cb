"""Writing runs and qrels: JSONL and Parquet hold everything, TREC's format is for exchange."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.files.fields import CALLS, CONTEXT, REPEAT
from llama_index_rag_metrics.files.lines import name_of, to_json, write_lines
from llama_index_rag_metrics.files.records import relevance_record
from llama_index_rag_metrics.files.sources import kind_of, pyarrow
from llama_index_rag_metrics.files.trec import qrels_rows, trec_run_rows
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.rankings.run import Run
from llama_index_rag_metrics.runtime.atomic_files import whole_file
from llama_index_rag_metrics.runtime.errors import InvalidInput

from .run_records import ASKED, ranking_record

WHOLE = ("jsonl", "parquet")
"""Formats with a record a query: they hold all of a run."""

_ENDINGS = "a name that ends in .jsonl or .parquet, or another one for TREC's format"
_HOLDS_ALL = "a name that ends in .jsonl or .parquet"
_ROWS_AT_ONCE = 16_384


def write_run(
    run: Run | Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    relevance: Mapping[str, RelevanceLike] | None = None,
) -> None:
    """Write rankings.

    JSONL and Parquet have one record a query and hold all of a ranking, the question's text, the
    calls of an agent and several runs of each question, too. A TREC run holds ids, order and
    scores: if the ranking has none, or if trec_eval would order it otherwise by its own, n, n - 1,
    …, 1 are written. Its tag is the run's name, or that of the file without its endings.

    Args:
        run: a Run, or {query id: ids or Ranking}.
        path: the file, whose ending says the format: .jsonl, .parquet, or any other for TREC's;
            .gz is compressed, where the format is text.
        relevance: query id to what is relevant, to stand beside the ranking as `expected_ids` and
            `grades`, in JSONL and Parquet.

    Raises:
        InvalidInput: a TREC run can't hold it: an id with a space, an id twice in one ranking, that
            the retriever failed on a question, several runs of each question.
        MissingExtra: Parquet needs the extra `batch`.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from llama_index_rag_metrics import write_run
        >>> with TemporaryDirectory() as folder:
        ...     write_run({"q1": ["d3", "d1"]}, Path(folder, "bm25.run"))
        ...     print(Path(folder, "bm25.run").read_text(encoding="utf-8"), end="")
        q1 Q0 d3 1 2.0 bm25
        q1 Q0 d1 2 1.0 bm25
    """
    rankings = run if isinstance(run, Run) else Run(run)
    target, form = Path(path), _written_form(path)
    if form in WHOLE:
        _write_records(target, form, _run_records(rankings, relevance))
        return
    if relevance is not None:
        raise InvalidInput("path", str(path), f"{_HOLDS_ALL}, which hold relevance, too")
    _check_fits_trec(rankings, target)
    write_lines(target, list(trec_run_rows(rankings, rankings.name or name_of(target))))


def write_qrels(qrels: Mapping[str, RelevanceLike], path: str | os.PathLike[str]) -> None:
    """Write judgements.

    Args:
        qrels: query id to Relevance, {document id: grade}, ids or groups of ids.
        path: the file, whose ending says the format: .jsonl, .parquet, or any other for TREC's;
            .gz is compressed, where the format is text.

    Raises:
        InvalidInput: the format can't hold it: groups are for JSONL only; a question of which no
            passage is labelled, for JSONL and Parquet; grades in TREC qrels are whole.
        MissingExtra: Parquet needs the extra `batch`.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from llama_index_rag_metrics import write_qrels
        >>> with TemporaryDirectory() as folder:
        ...     write_qrels({"q1": {"d1": 2, "d2": 0}}, Path(folder, "qrels.txt"))
        ...     print(Path(folder, "qrels.txt").read_text(encoding="utf-8"), end="")
        q1 0 d1 2
        q1 0 d2 0
    """
    relevance = {query_id: Relevance(judgements) for query_id, judgements in qrels.items()}
    target, form = Path(path), _written_form(path)
    if form in WHOLE:
        records = [relevance_record(key, judgements) for key, judgements in relevance.items()]
        _write_records(target, form, records, ("expected_ids", "grades"))
        return
    for query_id, judgements in relevance.items():
        if judgements.alternatives is not None or not judgements.grades:
            expected = f"{_HOLDS_ALL}: a line for each label can't say those of {query_id!r}"
            raise InvalidInput("path", str(path), expected)
    write_lines(target, list(qrels_rows(relevance)))


def holds_repeats(path: Path) -> bool:
    """Whether what is written under this name can tell several runs of a question apart."""
    return kind_of(path) in WHOLE


def _written_form(path: str | os.PathLike[str]) -> str:
    form = kind_of(Path(path))
    if form not in (*WHOLE, "trec"):
        raise InvalidInput("path", str(path), _ENDINGS)
    return form


def _run_records(
    run: Run, relevance: Mapping[str, RelevanceLike] | None
) -> Iterator[dict[str, Any]]:
    judged = {key: Relevance(judgements) for key, judgements in (relevance or {}).items()}
    for repeat, rankings in enumerate(run.each_time, 1):
        for query_id, ranking in rankings.items():
            record = ranking_record(query_id, repeat, ranking)
            if query_id in run.queries:
                record["query"] = run.queries[query_id]
            if query_id in judged:
                record.update(relevance_record(query_id, judged[query_id]))
            yield record


def _write_records(
    path: Path,
    form: str,
    records: Iterable[dict[str, Any]],
    always: tuple[str, ...] = ("retrieved_ids",),
) -> None:
    if form == "jsonl":
        write_lines(path, map(to_json, records))
        return
    rows = list(records)
    for row in rows:
        expected_ids = row.get("expected_ids", [])
        if isinstance(expected_ids, Mapping) or any(isinstance(ids, list) for ids in expected_ids):
            expected = f"a name that ends in .jsonl, which holds the groups of {row['query_id']!r}"
            raise InvalidInput("path", str(path), expected)
    _write_parquet(path, rows, {"query_id", *always}.union(*rows))


def _write_parquet(path: Path, records: Iterable[dict[str, Any]], fields: set[str]) -> None:
    pa = pyarrow()
    from pyarrow import parquet

    schema = pa.schema([column for column in _schema(pa) if column.name in fields])
    rows = iter(records)
    with whole_file(path) as partial, parquet.ParquetWriter(partial, schema) as writer:
        while batch := list(islice(rows, _ROWS_AT_ONCE)):
            try:
                table = pa.Table.from_pylist(batch, schema=schema)
            except UnicodeEncodeError as error:
                expected = "a name that ends in .jsonl, which holds half an emoji"
                raise InvalidInput("path", str(path), expected) from error
            writer.write_table(table)


def _schema(pa: Any) -> Any:
    texts, numbers = pa.list_(pa.string()), pa.list_(pa.float64())
    span = pa.struct({"source": pa.string(), "start": pa.int64(), "end": pa.int64()})
    columns = {
        "retrieved_ids": texts,
        "scores": numbers,
        "retrieved_texts": texts,
        "retrieved_tokens": pa.list_(pa.int64()),
        "retrieved_spans": pa.list_(span),
    }
    outcome = {"latency": pa.float64(), "error": pa.string()}
    of_call = {name: pa.string() for name in ASKED}
    question = {"query_id": pa.string(), "query": pa.string(), REPEAT: pa.int64()}
    labels = {"expected_ids": texts, "grades": numbers, "expected_spans": pa.list_(span)}
    calls = pa.list_(pa.struct([*{**of_call, **columns, **outcome}.items()]))
    context = pa.struct([*{**columns, **outcome}.items()])
    fields = {**question, **columns, **labels, **outcome, CALLS: calls, CONTEXT: context}
    return pa.schema(fields)


def _check_fits_trec(run: Run, path: Path) -> None:
    """Refuse what would change a score or a count without a sign."""
    expected = ""
    if run.repeats:
        expected = f"which hold the {len(run.repeats)} runs of each question"
    elif run.failed:
        expected = f"which hold that the retriever failed on {next(iter(run.failed))!r}"
    for query_id, ranking in run.items():
        if len(set(ranking.ids)) < len(ranking.ids):
            expected = expected or f"which hold an id twice in one ranking, as in {query_id!r}"
    if expected:
        raise InvalidInput("path", str(path), f"{_HOLDS_ALL}, {expected}")
