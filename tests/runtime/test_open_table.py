"""A matcher and a file format of a user's own, each added in one place."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from llama_index.core.schema import TextNode

import llama_index_rag_metrics as rag
from llama_index_rag_metrics.files.file_kinds import KINDS
from llama_index_rag_metrics.rankings.matching.matcher_names import MATCHERS
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnknownFormat


@pytest.fixture(autouse=True)
def tables_as_they_were() -> Iterator[None]:
    before = {id(table): dict(table) for table in (MATCHERS, KINDS)}
    yield
    for table in (MATCHERS, KINDS):
        assert dict(table) == before[id(table)]


class TestMatcher:
    def test_it_is_named_by_the_evaluator_and_by_a_metric(self) -> None:
        rag.register_matcher("mine", lambda threshold: rag.ContainmentMatcher(threshold or 0.9))
        try:
            dataset = rag.RetrievalDataset(
                {"q": "where?"}, {"q": None}, expected_texts={"q": ["on the second floor"]}
            )

            def retrieve(query: str) -> list[TextNode]:
                return [TextNode(text="no"), TextNode(text="It is on the second floor of it.")]

            by_evaluator = rag.evaluate(retrieve, dataset, ["mrr"], matcher="mine>=0.8")
            by_metric = rag.evaluate(retrieve, dataset, ["mrr(match=mine)"])
            # the text is within the second of two: 1/2
            assert by_evaluator.scores.means["mrr"] == 0.5
            assert list(by_metric.scores.means.values()) == [0.5]
        finally:
            rag.unregister_matcher("mine")
        with pytest.raises(InvalidInput, match="'mine'"):
            rag.evaluate(retrieve, dataset, ["mrr"], matcher="mine")

    @pytest.mark.parametrize("kind", ["id", "text", "a b", "a>=b", "", "命中"])
    def test_a_name_that_is_taken_or_cannot_be_written_is_refused(self, kind: str) -> None:
        with pytest.raises(InvalidInput, match="kind"):
            rag.register_matcher(kind, lambda threshold: rag.ExactMatcher())

    def test_those_of_the_package_stay(self) -> None:
        with pytest.raises(InvalidInput, match="registered matchers"):
            rag.unregister_matcher("text")


class TestFormat:
    @pytest.fixture(autouse=True)
    def registered(self) -> Iterator[None]:
        def load(path: Path) -> object:
            data = path.read_bytes()
            return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)

        rag.register_format("mine", [".mine"], run=load, qrels=load, dataset=load)
        yield
        rag.unregister_format("mine")

    def test_runs_and_qrels_are_told_by_the_ending(self, tmp_path: Path) -> None:
        (tmp_path / "bm25.mine").write_text('{"q": ["a", "b"]}', encoding="utf-8")
        (tmp_path / "qrels.mine.gz").write_bytes(gzip.compress(b'{"q": {"b": 1}}'))
        run = rag.read_run(tmp_path / "bm25.mine")
        qrels = rag.read_qrels(tmp_path / "qrels.mine.gz")
        assert (run.name, run["q"].ids) == ("bm25", ["a", "b"])
        assert rag.score_rankings(qrels, run, ["mrr"]).means["mrr"] == 0.5  # 1 / rank 2

    def test_datasets_too(self, tmp_path: Path) -> None:
        path = tmp_path / "questions.mine"
        content = {"queries": {"q": "x?"}, "corpus": {}, "relevant_docs": {"q": ["a"]}}
        path.write_text(json.dumps(content), encoding="utf-8")
        dataset = rag.RetrievalDataset.load(path)
        assert (dataset.name, dict(dataset.queries)) == ("questions", {"q": "x?"})

    def test_it_can_be_named(self, tmp_path: Path) -> None:
        path = tmp_path / "run.txt"
        path.write_text('{"q": ["a"]}', encoding="utf-8")
        assert rag.read_run(path, format="mine")["q"].ids == ["a"]
        with pytest.raises(InvalidInput, match="mine"):
            rag.read_run(path, format="other")

    def test_what_it_does_not_hold_is_said(self, tmp_path: Path) -> None:
        rag.register_format("runs", [".runs"], run=lambda path: {})
        try:
            (tmp_path / "a.runs").write_text("", encoding="utf-8")
            with pytest.raises(UnknownFormat, match="no qrels loader"):
                rag.read_qrels(tmp_path / "a.runs")
        finally:
            rag.unregister_format("runs")

    def test_what_is_taken_is_refused(self) -> None:
        for name, ending in (("mine", ".new"), ("trec", ".new"), ("new", ".csv"), ("new", "new")):
            with pytest.raises(InvalidInput, match=r"name|endings"):
                rag.register_format(name, [ending], run=lambda path: {})
        with pytest.raises(InvalidInput, match="at least one loader"):
            rag.register_format("new", [".new"])
