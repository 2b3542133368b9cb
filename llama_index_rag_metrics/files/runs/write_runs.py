"""Writing runs and qrels, in every format that is read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llama_index_rag_metrics.files import file_kinds
from llama_index_rag_metrics.files.beir import judgement_rows
from llama_index_rag_metrics.files.lines import name_of, to_json, write_lines
from llama_index_rag_metrics.files.records import format_grade
from llama_index_rag_metrics.files.runs.arrow_runs import write_arrow
from llama_index_rag_metrics.files.runs.run_records import (
    plain_score,
    ranking_record,
    relevance_record,
)
from llama_index_rag_metrics.files.trec import ordering_scores, qrels_rows, trec_run_rows
from llama_index_rag_metrics.rankings.relevance import Relevance, RelevanceLike
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.report.escape import csv_line
from llama_index_rag_metrics.runtime.atomic_files import is_broken
from llama_index_rag_metrics.runtime.errors import FormatTooNarrow, InvalidInput

WHOLE = ("jsonl", "parquet", "arrow")
"""Formats with a record a query: they hold all of a run."""

_RUN_FORMATS = tuple(name for name in file_kinds.RUN_FORMATS if name != "traces")

_WIDE = "JSONL"
_NAMES = {
    "trec": "TREC's format",
    "beir": "BEIR's qrels",
    "json": "JSON of {query id: {document id: number}}",
    "csv": "CSV",
    "tsv": "TSV",
    "parquet": "Parquet",
    "arrow": "Arrow",
}


def write_run(
    run: Run | Mapping[str, Any],
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002
    *,
    relevance: Mapping[str, RelevanceLike] | None = None,
    lossy: bool = False,
) -> None:
    """Write rankings.

    JSONL, Parquet and Arrow have one record a query and hold all of a ranking, the calls of an
    agent, too. The others hold ids, order and scores: texts, latencies, spans and calls are left
    out, and so is, in all but JSON, a query for which nothing was retrieved; nor can they hold
    several runs of each question, which the former tell apart by a field `repeat`: write each of
    `run.repeats` to a file of its own. TREC runs and JSON keep the order by scores: if the ranking
    has none, or if trec_eval would order it otherwise by its own, n, n - 1, …, 1 are written. The
    tag of a TREC run is the run's name, or that of the file without its endings.

    Args:
        run: a Run, or {query id: ids or Ranking}.
        path: the file; .gz is compressed, where the format is text.
        format: "trec", "jsonl", "json", "csv", "tsv", "parquet" or "arrow"; None tells it by the
            file's name, and takes "trec" for any other.
        relevance: query id to what is relevant, to stand beside the ranking as `expected_ids` and
            `grades`, in the formats with one record a query.
        lossy: leave out what would change a score or a count and the format can't hold: that a
            retriever failed on a query, and repetitions of an id.

    Raises:
        FormatTooNarrow: the format can't hold it, as an id with a space in a TREC run.
        MissingExtra: Parquet and Arrow need the extra `batch`.

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
    target, form = Path(path), _form(Path(path), format, _RUN_FORMATS)
    if form in WHOLE:
        _write_records(target, form, rankings, relevance)
        return
    if relevance is not None:
        raise InvalidInput("format", form, f"{', '.join(WHOLE)}, which hold relevance, too")
    if rankings.repeats:  # of which a line a passage can't tell that one retrieved nothing
        raise _narrow(form, f"{len(rankings.repeats)} runs of each question")
    kept = rankings if form in ("csv", "tsv") else _without_repeats(rankings, form, lossy=lossy)
    if rankings.failed and not lossy:
        raise _narrow(form, f"that the retriever failed on {next(iter(rankings.failed))!r}", True)
    if form == "trec":
        with _narrowed(form):
            rows = list(trec_run_rows(kept, rankings.name or name_of(target)))
        write_lines(target, rows)
    elif form == "json":
        scored = {
            query_id: dict(zip(ranking.ids, ordering_scores(ranking), strict=True))
            for query_id, ranking in kept.items()
        }
        write_lines(target, [to_json(scored)])
    else:
        write_lines(target, list(_table(_run_table(kept), form)))


def write_qrels(
    qrels: Mapping[str, RelevanceLike],
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002
) -> None:
    """Write judgements.

    Args:
        qrels: query id to Relevance, {document id: grade}, ids or groups of ids.
        path: the file; .gz is compressed, where the format is text.
        format: "trec", "beir", "jsonl", "json", "csv", "tsv", "parquet" or "arrow"; None tells it
            by the file's name, takes "beir" for .tsv and "trec" for any unknown ending.

    Raises:
        FormatTooNarrow: the format can't hold it: groups are for JSONL and JSON only; a query that
            is judged to have nothing relevant, and no document judged, is for those with one
            record a query and JSON; grades in TREC qrels are whole.
        MissingExtra: Parquet and Arrow need the extra `batch`.

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
    relevance = {query_id: Relevance.of(judgements) for query_id, judgements in qrels.items()}
    target, form = Path(path), _form(Path(path), format, file_kinds.QRELS_FORMATS)
    if form == "tsv" and format is None:
        form = "beir"
    for query_id, judgements in relevance.items():
        if judgements.alternatives is not None and form not in ("jsonl", "json"):
            raise _narrow(form, f"groups of alternatives ({query_id!r})")
        if not judgements.grades and form in ("trec", "beir", "csv", "tsv"):
            raise _narrow(form, f"a question of which no passage is labelled ({query_id!r})")
    if form in WHOLE:
        _write_records(target, form, None, relevance)
    elif form == "json":
        plain = {query_id: judgements.to_plain() for query_id, judgements in relevance.items()}
        write_lines(target, [to_json(plain)])
    elif form in ("trec", "beir"):
        with _narrowed(form):
            rows = qrels_rows(relevance) if form == "trec" else list(judgement_rows(relevance))
        write_lines(target, rows)
    else:
        write_lines(target, list(_table(_qrels_table(relevance), form)))


def _form(path: Path, form: str | None, known: tuple[str, ...]) -> str:
    if form is None:
        is_json = path.name.lower().removesuffix(".gz").endswith(".json")
        by_name = "json" if is_json else file_kinds.kind_by_name(path)
        form = "trec" if by_name in (None, "text") else by_name
    file_kinds.check_format(form, known)
    return form


def holds_repeats(path: Path) -> bool:
    """Whether what is written under this name can tell several runs of a question apart."""
    return _form(path, None, _RUN_FORMATS) in WHOLE


def _write_records(
    path: Path, form: str, run: Run | None, relevance: Mapping[str, RelevanceLike] | None
) -> None:
    judged = {key: Relevance.of(judgements) for key, judgements in (relevance or {}).items()}
    rankings = [
        (query_id, ranking_record(query_id, time, ranking))
        for time, each in enumerate(run.each_time if run else (), 1)
        for query_id, ranking in each.items()
    ]
    records = [
        {**record, **(relevance_record(query_id, judged[query_id]) if query_id in judged else {})}
        for query_id, record in (rankings if run is not None else [(key, {}) for key in judged])
    ]
    if form == "jsonl":
        write_lines(path, map(to_json, records))
        return
    for query_id, judgements in judged.items():
        if judgements.alternatives is not None:
            raise _narrow(form, f"groups of alternatives ({query_id!r})")
    always = {"query_id", *(["retrieved_ids"] if run is not None else ["expected_ids", "grades"])}
    fields = always.union(*records)
    write_arrow(path, "parquet" if form == "parquet" else "arrow", records, fields)


def _without_repeats(run: Run, form: str, *, lossy: bool) -> dict[str, Ranking]:
    kept = {}
    for query_id, ranking in run.items():
        positions = sorted({item: at for at, item in reversed([*enumerate(ranking.ids)])}.values())
        if len(positions) < len(ranking.ids):
            if not lossy:
                raise _narrow(form, f"an id twice in one ranking ({query_id!r})", True)
            scores = ranking.scores and [ranking.scores[position] for position in positions]
            ranking = Ranking([ranking.ids[position] for position in positions], scores)  # noqa: PLW2901
        kept[query_id] = ranking
    return kept


def _run_table(rankings: Mapping[str, Ranking]) -> Iterator[tuple[str, ...]]:
    yield "query_id", "doc_id", "rank", "score"
    for query_id, ranking in rankings.items():
        scores = ranking.scores or [None] * len(ranking.ids)
        for rank, (item, score) in enumerate(zip(ranking.ids, scores, strict=True), 1):
            number = plain_score(score)
            yield query_id, item, str(rank), "" if number is None else repr(number)


def _qrels_table(relevance: Mapping[str, Relevance]) -> Iterator[tuple[str, ...]]:
    yield "query_id", "doc_id", "grade"
    for query_id, judgements in relevance.items():
        for item, grade in judgements.grades.items():
            yield query_id, item, format_grade(grade)


def _table(rows: Iterable[tuple[str, ...]], form: str) -> Iterator[str]:
    """The lines of a table; CSV quotes what needs it, TSV refuses it."""
    for row in rows:
        if any(map(is_broken, row)) or (form == "tsv" and re.search(r"[\t\r\n]", "".join(row))):
            raise _narrow(form, f"the ids {row[:2]!r}")
        yield csv_line(row) if form == "csv" else "\t".join(row)


@contextmanager
def _narrowed(form: str) -> Iterator[None]:
    """Name the format of runs in what a dataset's writer refuses."""
    try:
        yield
    except FormatTooNarrow as error:
        raise FormatTooNarrow(_NAMES[form], error.losses, lossy=False, wide=_WIDE) from None


def _narrow(form: str, loss: str, lossy: bool = False) -> FormatTooNarrow:
    return FormatTooNarrow(_NAMES[form], [loss], lossy=lossy, wide=_WIDE)
