"""The command `evaluate`: a folder to call it in, factories of retrievers, and what it prints."""

import json
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import Result

from support.command_line import columns_of, run

FACTORIES = '''
    import threading

    async def _ask(query):
        return ["d2", "d1"]

    def of_nothing():
        return _ask

    def of_dataset(dataset):
        return lambda query: list(dataset.corpus)

    def of_nodes(nodes, similarity_top_k=2):
        return lambda query: [node.node_id for node in nodes][:similarity_top_k]

    class Backwards:
        """A class can be the factory, too."""

        def __init__(self, nodes):
            self.ids = [node.node_id for node in nodes][::-1]

        def __call__(self, query):
            return self.ids

    def index(nodes):
        from llama_index.core import MockEmbedding, VectorStoreIndex
        return VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=2))

    def flaky(nodes):
        def ask(query):
            if "potato" in query:
                raise TimeoutError("the store is [red]asleep")
            return ["d1"]
        return ask

    def slow(nodes):
        def ask(query):
            if "kiln" not in query:
                print(f"asked for {query}", flush=True)
                threading.Event().wait()
            return ["d1"]
        return ask
'''


@contextmanager
def current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with a BEIR dataset and a module of factories, as the current folder."""
    lines = {
        "corpus.jsonl": [
            {"_id": "d1", "title": "Kiln", "text": "The kiln is red."},
            {"_id": "d2", "title": "", "text": "Potatoes grow in the garden."},
            {"_id": "d3", "title": "菜圃", "text": "番茄種在菜圃裡。"},
        ],
        "queries.jsonl": [
            {"_id": "q1", "text": "red kiln", "metadata": {"language": "en"}},
            {"_id": "q2", "text": "potatoes", "metadata": {"language": "en"}},
            {"_id": "q3", "text": "番茄種在哪裡？", "metadata": {"language": "zh"}},
        ],
    }
    for name, records in lines.items():
        text = "\n".join(json.dumps(record, ensure_ascii=False) for record in records)  # type: ignore[attr-defined]
        (tmp_path / "beir").mkdir(exist_ok=True)
        (tmp_path / "beir" / name).write_text(text, encoding="utf-8")
    (tmp_path / "beir" / "qrels").mkdir()
    (tmp_path / "beir" / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\nq1\td1\t2\nq2\td2\t1\nq3\td3\t1\n"
    )
    (tmp_path / "my_factories.py").write_text(textwrap.dedent(FACTORIES))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("my_factories", None)
    sys.modules.pop("my_broken", None)


def evaluate(*arguments: str) -> Result:
    return run("evaluate", "--dataset", "beir", "--no-progress", *arguments)


def row(result: Result, label: str) -> list[str]:
    """The values of a column of the tables."""
    columns = columns_of(result.stdout)
    assert label in columns, result.output
    return columns[label]
