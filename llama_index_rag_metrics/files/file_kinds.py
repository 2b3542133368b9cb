"""The format of a file: its ending says it, and where that says nothing, it is TREC's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from llama_index_rag_metrics.files import beir, dataset_objects
from llama_index_rag_metrics.files import fields as f
from llama_index_rag_metrics.files.dataset_content import DatasetContent
from llama_index_rag_metrics.files.lines import Place, from_json, name_of, read_lines, read_text
from llama_index_rag_metrics.runtime.errors import UnknownFormat

ENDINGS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".parq": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}

_IN_MEMORY = "a table of this kind is read in memory, by from_pandas(frame)"
_LACKS = {"trec": "it is no JSON", "tsv": _IN_MEMORY, "parquet": _IN_MEMORY, "arrow": _IN_MEMORY}


def kind_of(path: Path) -> str:
    """The kind that the ending says, ".gz" apart; "trec" where it says nothing."""
    _, dot, ending = path.name.lower().removesuffix(".gz").rpartition(".")
    return ENDINGS.get(dot + ending, "trec")


def format_of(path: Path, held: Literal["run", "qrels"]) -> str:
    """The format of a file of rankings or labels; TREC's columns may have tabs between them."""
    kind = kind_of(path)
    if kind == "tsv" and path.is_file() and not _has_headings(path):
        return "trec"
    if held == "run" and kind in ("json", "jsonl") and path.is_file():
        from llama_index_rag_metrics.files.traces.containers import is_trace_file

        return "traces" if is_trace_file(path) else kind
    return kind


def _has_headings(path: Path) -> bool:
    _, line = next(read_lines(path), (None, ""))
    return not {*f.QUERY_ID}.isdisjoint(name.strip() for name in line.split("\t"))


def _read_json(path: Path) -> DatasetContent:
    place = Place(str(path))
    data = from_json(read_text(path), place)
    if data == []:
        reason = "there is no question in it"
        raise UnknownFormat(str(path), reason, dataset_objects.UNDERSTOOD)
    return dataset_objects.read_value(data, place)


_DATASETS: Mapping[str, Callable[[Path], DatasetContent]] = {
    "json": _read_json,
    "jsonl": dataset_objects.read_jsonl,
    "csv": dataset_objects.read_csv,
}


def read_path(path: Path, split: str | None) -> DatasetContent:
    if path.is_dir():
        return _read_folder(path, split)
    path.stat()  # where there is no such file, that is what is wrong with it
    kind = kind_of(path)
    if kind not in _DATASETS:
        raise UnknownFormat(str(path), _LACKS[kind], dataset_objects.UNDERSTOOD)
    content = _DATASETS[kind](path)
    content.name = content.name or name_of(path)
    return content


def _read_folder(folder: Path, split: str | None) -> DatasetContent:
    if beir.is_beir(folder):
        return beir.read_beir(folder, split)
    inside = sorted(path.name for path in folder.iterdir())
    raise UnknownFormat(str(folder), f"the folder holds {inside[:8]}", dataset_objects.UNDERSTOOD)
