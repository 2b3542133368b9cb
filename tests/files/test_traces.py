"""Traces as runs: sessions, rerankings, questions, dialects; spans written by hand."""

import gzip
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.runs import ids_of
from support.telemetry import openinference, request, retrieval, span, write_lines

from llama_index_rag_metrics import Ranking, RetrievalDataset, read_traces, score_rankings
from llama_index_rag_metrics.files.trace_spans import is_trace_file
from llama_index_rag_metrics.rankings.run import Call
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput

pytestmark = pytest.mark.servers

AGENT: dict[str, Any] = {"openinference__span__kind": "AGENT"}


def calls_of(ranking: Ranking) -> Sequence[Call]:
    assert ranking.calls is not None
    return ranking.calls


def mlflow_trace(outputs: str, trace: str = "t1", **further: Any) -> dict[str, Any]:
    span = {"trace_id": trace, "span_id": "s1", "parent_span_id": None}
    kinds = {"mlflow.spanType": '"RETRIEVER"', "mlflow.spanOutputs": outputs}
    spans = [{**span, "attributes": kinds, **further}]
    return {"info": {}, "data": {"spans": spans}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "traces.jsonl"


UNUSED = "rerankings without nodes or of several retrievals: the order before them counts"


class TestSessions:
    def test_retrieval_by_itself_is_a_plain_ranking(self, path: Path) -> None:
        write_lines(path, request(retrieval("s", "Who?", ["b", "a"], begin=1, seconds=0.25)))
        run = read_traces(path)
        texts = ["text of b", "text of a"]
        assert run["t1"] == Ranking(["b", "a"], [1.0, 0.5], texts=texts, latency=0.25)
        assert run["t1"].calls is None
        assert (run.queries, run.notes, run.name) == ({"t1": "Who?"}, (), "traces")

    def test_calls_are_in_the_order_of_their_starts(self, path: Path) -> None:
        write_lines(
            path,
            request(retrieval("second", "y", ["b", "c"], "root", begin=2)),
            request(retrieval("first", "x", ["a", "b"], "tool", begin=1)),
            request(span("tool", "root", openinference__span__kind="TOOL", tool__name="search")),
            request(span("root", **AGENT, input__value="What?")),
        )
        run = read_traces(path)
        assert [(call.query, call.asked_by, list(call.ids)) for call in calls_of(run["t1"])] == [
            ("x", "search", ["a", "b"]),
            ("y", "", ["b", "c"]),
        ]
        assert list(run["t1"].ids) == ["a", "b", "c"]  # first seen
        assert run.queries == {"t1": "What?"}

    def test_outermost_retrieval_counts_alone(self, path: Path) -> None:
        write_lines(
            path,
            request(retrieval("bm25", "x", ["a"], "inner", begin=1)),
            request(span("inner", "fusion", openinference__span__kind="CHAIN")),
            request(retrieval("dense", "x", ["b"], "fusion", begin=1)),
            request(retrieval("fusion", "x", ["b", "a"], begin=0)),
        )
        assert read_traces(path)["t1"].ids == ["b", "a"]

    def test_retrieval_without_documents_hands_over_to_those_inside(self, path: Path) -> None:
        silent = span("wrapper", openinference__span__kind="RETRIEVER", input__value="x")
        write_lines(path, request(silent, retrieval("inner", "x", ["a"], "wrapper")))
        run = read_traces(path)
        assert (run["t1"].ids, run.notes) == (["a"], ())

    def test_retrieval_without_a_field_of_documents_is_not_empty(self, path: Path) -> None:
        hidden = span("s", openinference__span__kind="RETRIEVER", input__value="x")
        other = retrieval("r", "y", [], trace="t2")
        run = read_traces(write_lines(path, request(hidden, other)))
        assert ids_of(run) == {"t2": []}
        assert run.notes == (
            "questions left out: a retrieval has no documents (was recording them turned off?): 1",
        )
        assert run.notes == tuple(score_rankings({"t2": ["a"]}, run, "mrr").notes[:1])

    def test_error_is_the_answer_whatever_was_found_inside(self, path: Path) -> None:
        write_lines(
            path,
            request(retrieval("inner", "x", ["a"], "outer")),
            request(span("outer", openinference__span__kind="RETRIEVER", error="ValueError: down")),
        )
        assert read_traces(path).failed == {"t1": "ValueError: down"}

    def test_spans_that_part_each_other_end_nowhere_else(self, path: Path) -> None:
        loop = [retrieval("a", "x", ["d1"], "b"), span("b", "a", **AGENT)]
        assert list(read_traces(write_lines(path, request(*loop)))["t1"].ids) == ["d1"]

    @pytest.mark.parametrize(
        ("tool", "queries", "question"),
        [("", ["Who?"], "Who?"), ("", ["Who?", "When?"], None), ("search", ["Who?"], None)],
    )
    def test_search_of_an_agent_is_not_the_question(
        self, path: Path, tool: str, queries: list[str], question: str | None
    ) -> None:
        kind: dict[str, Any] = {}
        if tool:
            kind = {"openinference__span__kind": "TOOL", "tool__name": tool}
        spans = [
            retrieval(f"r{number}", query, ["d1"], "root") for number, query in enumerate(queries)
        ]
        write_lines(path, request(span("root", session__id="q1", **kind), *spans))
        assert read_traces(path, question_id="session.id").queries.get("q1") == question

    def test_spans_that_an_exporter_sent_again_count_once(self, path: Path) -> None:
        asked = request(span("root"), retrieval("r", "Who?", ["d1"], "root"))
        read = read_traces(write_lines(path, asked, asked), questions={"q1": "Who?"})
        assert (read["q1"].ids, read["q1"].calls) == (["d1"], None)

    def test_agent_without_any_retrieval(self, path: Path) -> None:
        run = read_traces(write_lines(path, request(span("s", **AGENT))))
        assert (len(run), run.notes) == (0, ("none of 1 spans is a retrieval",))
        assert len(read_traces(write_lines(path))) == 0


class TestRerankings:
    def test_reranking_replaces_what_was_retrieved_before_it(self, path: Path) -> None:
        write_lines(
            path,
            request(retrieval("r1", "x", ["a", "b", "c"], "engine1", begin=0, seconds=1)),
            request(
                retrieval("k1", "x", ["c", "a"], "engine1", kind="RERANKER", begin=1, seconds=2)
            ),
            request(retrieval("r2", "y", ["a", "c", "d"], "engine2", begin=0.5)),
            request(span("engine1", "root", **AGENT), span("engine2", "root", **AGENT)),
            request(span("root", **AGENT)),
        )
        run = read_traces(path)
        first, second = calls_of(run["t1"])
        # the reranker's scores, and 1 s of retrieval and 2 s of reranking
        assert (list(first.ids), first.scores, first.latency) == (["c", "a"], [1.0, 0.5], 3.0)
        assert list(second.ids) == ["a", "c", "d"]

    @pytest.mark.parametrize(
        ("query", "kept", "given"),
        [
            ("x", ["b", "a"], {}),
            ("x", ["b"], {"reranker.input_documents.0.document.id": "a"}),
            ("x", ["b"], {"mlflow.spanInputs": '{"nodes": [{"node": {"id_": "a"}}]}'}),
            ('{"nodes": ["<NodeWithScore(node=TextNode(id_=a), score=1.0)>"]}', ["b"], {}),
        ],
    )
    def test_reranking_of_several_retrievals_is_of_none(
        self, path: Path, query: str, kept: list[str], given: dict[str, Any]
    ) -> None:
        write_lines(
            path,
            request(retrieval("r1", "x", ["a"], "root"), retrieval("r2", "x", ["b"], "root")),
            request(retrieval("k", query, kept, "root", kind="RERANKER", begin=1, **given)),
            request(span("root", **AGENT)),
        )
        run = read_traces(path)
        assert [list(call.ids) for call in calls_of(run["t1"])] == [["a"], ["b"]]
        assert run.notes == (f"{UNUSED}: 1",)

    def test_reranking_that_fits_two_retrievals_is_of_the_last(self, path: Path) -> None:
        write_lines(
            path,
            request(retrieval("r1", "x", ["a", "b"], "root", begin=0)),
            request(retrieval("r2", "y", ["a", "b", "c"], "root", begin=2)),
            request(retrieval("k2", "y", ["b"], "root", begin=3, kind="RERANKER")),
            request(span("root", **AGENT)),
        )
        calls = calls_of(read_traces(path)["t1"])
        assert [list(call.ids) for call in calls] == [["a", "b"], ["b"]]

    def test_reranking_that_failed_or_holds_no_documents_is_counted(self, path: Path) -> None:
        kind: dict[str, Any] = {"openinference__span__kind": "RERANKER"}
        write_lines(
            path,
            request(retrieval("r", "x", ["a", "b"], "root")),
            request(span("failed", "root", begin=1, error="ValueError: down", **kind)),
            request(span("silent", "root", begin=2, **kind), span("root", **AGENT)),
            request(span("Cutoff._postprocess_nodes", "root")),  # as LlamaIndex's own exporter
        )
        run = read_traces(path)
        assert (list(run["t1"].ids), run.notes) == (["a", "b"], (f"{UNUSED}: 3",))

    @pytest.mark.parametrize("silent", ["outer", "inner"])
    def test_one_of_two_nested_rerankings_is_enough(self, path: Path, silent: str) -> None:
        steps, parents = {}, {"outer": "root", "inner": "outer"}
        for name, parent in parents.items():
            steps[name] = retrieval(name, "x", ["b", "a"], parent, kind="RERANKER", begin=1)
        kind: dict[str, Any] = {"openinference__span__kind": "RERANKER"}
        steps[silent] = span(silent, parents[silent], begin=1, **kind)
        write_lines(path, request(retrieval("r", "x", ["a", "b"], "root"), *steps.values()))
        run = read_traces(path)
        assert (list(run["t1"].ids), run.notes) == (["b", "a"], ())


class TestRewrittenSearches:
    """An agent that isn't recorded with its question, and first searches for the question."""

    LOST = ("retrievals for no known question (question_id= reads it from an attribute): 1",)

    def searches(self, parent: str = "root") -> list[dict[str, Any]]:
        return [
            retrieval("first", "Who found it?", ["x"], parent, begin=1),
            retrieval("second", "William Herschel", ["herschel"], parent, begin=2),
        ]

    def test_searches_in_one_agent_are_for_its_question(self, path: Path) -> None:
        write_lines(path, request(span("root", **AGENT), *self.searches()))
        run = read_traces(path, questions={"q1": "Who found it?"})
        assert [call.query for call in calls_of(run["q1"])] == ["Who found it?", "William Herschel"]
        assert (list(run["q1"].ids), run.notes) == (["x", "herschel"], ())

    @pytest.mark.parametrize(
        "root",
        [{"openinference__span__kind": "CHAIN"}, {**AGENT, "input__value": "Compare the two."}],
        ids=["no agent", "asked something else"],
    )
    def test_nothing_tells_what_they_are_for(self, path: Path, root: dict[str, Any]) -> None:
        write_lines(path, request(span("root", **root), *self.searches()))
        run = read_traces(path, questions={"q1": "Who found it?"})
        assert (run["q1"].ids, run.notes) == (["x"], self.LOST)

    def test_agent_with_two_known_questions(self, path: Path) -> None:
        inner = retrieval("third", "When?", ["z"], "inner", begin=3)
        agents = [span("root", **AGENT), span("inner", "root", **AGENT)]
        write_lines(path, request(*agents, *self.searches(), inner))
        run = read_traces(path, questions={"q1": "Who found it?", "q2": "When?"})
        assert ids_of(run) == {"q1": ["x"], "q2": ["z"]}
        assert run.notes == self.LOST

    def test_span_without_the_attribute_that_others_of_the_trace_have(self, path: Path) -> None:
        named = retrieval("first", "Who?", ["x"], "root", question_id="q1")
        write_lines(path, request(span("root"), named, self.searches()[1]))
        run = read_traces(path, question_id="question_id")
        assert (run["q1"].ids, run.notes) == (["x"], self.LOST)


class TestPostprocessors:
    """As OpenInference's spans of query engines say what they kept."""

    def chain(self, span_id: str, parent: str | None = None, **values: Any) -> dict[str, Any]:
        return span(span_id, parent, openinference__span__kind="CHAIN", **values)

    def test_postprocessor_of_any_kind_replaces_what_was_retrieved(self, path: Path) -> None:
        kept = json.dumps(["<NodeWithScore(node=TextNode(id_=b), score=None)>"])
        cut = self.chain("cut", "root", output__value=kept, metadata="{}")
        cut |= {"name": "Cutoff._postprocess_nodes", "startTimeUnixNano": "2000000000"}
        cut |= {"endTimeUnixNano": "3000000000"}
        write_lines(
            path,
            request(retrieval("r", "x", ["a", "b"], "root", begin=1, seconds=0.5), cut),
            request(self.chain("root", input__value="x")),
        )
        ranking = read_traces(path)["t1"]
        assert (ranking.ids, ranking.scores, ranking.texts) == (["b"], None, ["text of b"])
        assert ranking.latency == 1.5
        # by a key of metadata the nodes of these spans can't be told
        source: dict[str, Any] = {
            "retrieval.documents.0.document.metadata": json.dumps({"page": 7})
        }
        write_lines(path, request(retrieval("r", "x", ["a"], "root", **source), cut))
        assert read_traces(path, match_on="page")["t1"].ids == ["7"]

    def test_failed_question_and_one_without_calls_need_none(self, path: Path) -> None:
        failed = span("r", openinference__span__kind="RETRIEVER", error="ValueError: down")
        silent = span("s", trace="t2", **AGENT, question_id="q2")
        failed["attributes"].append({"key": "question_id", "value": {"stringValue": "q1"}})
        run = read_traces(write_lines(path, request(failed, silent)), question_id="question_id")
        assert (run.failed, run["q2"].ids) == ({"q1": "ValueError: down"}, [])


class TestQuestions:
    def test_question_by_an_attribute_of_any_span_above(self, path: Path) -> None:
        write_lines(
            path,
            request(retrieval("r1", "x", ["a"], "p1"), span("p1", "root", question_id="q1")),
            request(retrieval("r2", "y", ["b"], "root", llamaindex__question_id="q2")),
            request(span("root", **AGENT)),
            request(retrieval("r3", "z", ["c"], trace="t2", question_id=7, begin=5)),
        )
        run = read_traces(path, question_id="question_id")
        assert ids_of(run) == {"q1": ["a"], "q2": ["b"], "7": ["c"]}

    def test_question_by_a_key_of_a_json_attribute(self, path: Path) -> None:
        metadata = json.dumps({"question_id": "q1"})
        write_lines(path, request(retrieval("r", "x", ["a"], metadata=metadata)))
        assert list(read_traces(path, question_id="metadata.question_id")) == ["q1"]
        with pytest.raises(InvalidInput, match=r"question_id='metadata\.question_id'") as raised:
            read_traces(path, question_id="question_id")
        assert "documents.0" not in str(raised.value)  # no attribute of a passage names a question

    def test_calls_in_several_traces_with_one_id_are_one_session(self, path: Path) -> None:
        second = retrieval("r2", "y", ["b"], trace="t2", session__id="s", begin=2)
        first = retrieval("r1", "x", ["a"], trace="t1", session__id="s", begin=1)
        run = read_traces(write_lines(path, request(second, first)), question_id="session.id")
        assert [call.query for call in calls_of(run["s"])] == ["x", "y"]
        assert "calls in several traces" in run.notes[0]  # perhaps it was asked on two days

    def test_question_by_its_text_though_the_agent_asks_otherwise(self, path: Path) -> None:
        write_lines(
            path,
            request(retrieval("r1", "rings", ["a"], "root", begin=1)),
            request(retrieval("r2", "What of Saturn?", ["b"], "root", begin=2)),
            request(span("root", **AGENT, input__value=" Which planet? ")),
            request(retrieval("r3", "something else", ["c"], trace="t2")),
        )
        queries = {"q1": "Which planet?", "q2": "What of Saturn?", "q3": "Which planet?"}
        run = read_traces(path, questions=RetrievalDataset(queries=queries))
        # both questions of that text; what was asked on the way to it isn't a question by itself
        assert ids_of(run) == {"q1": ["a", "b"], "q3": ["a", "b"]}
        assert run.queries == {"q1": "Which planet?", "q3": "Which planet?"}
        assert run.notes == TestRewrittenSearches.LOST

    def test_last_time_that_it_was_asked_counts(self, path: Path) -> None:
        new = retrieval("r2", "Who?", ["new"], trace="t2", begin=9)
        old = retrieval("r1", "Who?", ["old"], trace="t1", begin=1)
        run = read_traces(write_lines(path, request(new, old)), questions={"q": "Who?"})
        assert run["q"].ids == ["new"]
        new["startTimeUnixNano"] = old["startTimeUnixNano"]  # the order of the file, then
        write_lines(path, request(old, new))
        assert read_traces(path, questions={"q": "Who?"})["q"].ids == ["new"]
        assert run.notes == ("questions asked several times; the last time counts: 1",)

    def test_question_without_any_call_is_empty(self, path: Path) -> None:
        write_lines(
            path,
            request(span("root", **AGENT, question_id="q1", input__value="Hello?")),
            request(retrieval("r", "x", ["a"], trace="t2", question_id="q2")),
        )
        for known in ({"question_id": "question_id"}, {"questions": {"q1": "Hello?", "q2": "x"}}):
            run = read_traces(path, **known)
            assert (run["q1"].ids, run["q1"].calls or (), run.failed) == ([], (), {})

    def test_attribute_or_question_that_nobody_knows(self, path: Path) -> None:
        write_lines(path, request(retrieval("r", "Who?", ["a"])))
        with pytest.raises(InvalidInput, match=r"question_id: expected an attribute.*input\.value"):
            read_traces(path, question_id="query")
        with pytest.raises(InvalidInput, match=r"questions: expected texts .*, got 'When\?'"):
            read_traces(path, questions={"q": "When?"})
        with pytest.raises(InvalidInput, match="questions: expected a dataset"):
            read_traces(path, questions=["When?"])


class TestDocuments:
    def test_match_on_metadata(self, path: Path) -> None:
        source: dict[str, Any] = {
            "retrieval.documents.0.document.metadata": json.dumps({"page": 7})
        }
        write_lines(path, request(retrieval("r", "x", ["a"], **source)))
        assert read_traces(path, match_on="page")["t1"].ids == ["7"]
        with pytest.raises(FileFormatError, match=r"line 1: expected documents with 'file'.*page"):
            read_traces(path, match_on="file")
        with pytest.raises(FileFormatError, match="expected documents with 'ref_doc_id'"):
            read_traces(path, match_on="ref_doc_id")

    def test_documents_without_ids_are_named_by_their_text(self, path: Path) -> None:
        texts: dict[str, Any] = {
            f"retrieval.documents.{i}.document.content": text for i, text in enumerate("aba")
        }
        run = read_traces(write_lines(path, request(retrieval("r", "x", [], **texts))))
        first, second, third = run["t1"].ids
        assert second != first == third == "text-ca978112ca1bbdca"  # SHA-256 of "a"
        assert run["t1"].texts == ["a", "b", "a"]
        assert run.notes == (
            "documents without an id, known by a digest of their text (match_on= takes an id from "
            "their metadata, a matcher finds texts): 3",
        )

    def test_documents_that_the_exporter_dropped_are_an_error(self, path: Path) -> None:
        cut, gap = retrieval("r", "x", ["a", "b"]), retrieval("r", "x", ["a", "b", "c"])
        cut["droppedAttributesCount"] = 4
        gap["attributes"] = [pair for pair in gap["attributes"] if ".1." not in pair["key"]]
        of_gap = r"every document from retrieval\.documents.0 on"
        for broken, message in ((cut, "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"), (gap, of_gap)):
            with pytest.raises(FileFormatError, match=message):
                read_traces(write_lines(path, request(broken)))

    def test_what_openinference_was_told_to_hide_is_not_there(self, path: Path) -> None:
        write_lines(path, request(retrieval("r", "__REDACTED__", ["a"])))
        path.write_text(path.read_text().replace("text of a", "__REDACTED__"))
        run = read_traces(path)
        assert (run["t1"].ids, run["t1"].texts, run.queries) == (["a"], None, {})

    def test_scores_that_are_no_numbers(self, path: Path) -> None:
        strange = retrieval("r", "x", ["a", "b"])
        pairs = [pair for pair in strange["attributes"] if pair["key"].endswith("score")]
        for pair, value in zip(pairs, [{"doubleValue": "NaN"}, {"intValue": "3"}], strict=True):
            pair["value"] = value
        assert read_traces(write_lines(path, request(strange)))["t1"].scores == [None, 3.0]


class TestDialects:
    def test_conventions_of_opentelemetry(self, path: Path) -> None:
        documents = [{"id": "a", "score": 0.5}, {"id": "b", "score": math.pi}]
        for attribute in (documents, json.dumps(documents)):
            values: dict[str, Any] = {
                "gen_ai.operation.name": "retrieval",
                "gen_ai.retrieval.documents": attribute,
                "gen_ai.retrieval.query.text": "Who?",
            }
            run = read_traces(write_lines(path, request(span("s", **values))))
            assert (run["t1"].ids, run["t1"].scores) == (["a", "b"], [0.5, math.pi])
            assert run.queries == {"t1": "Who?"}

    def test_phoenix_frame(self, tmp_path: Path) -> None:
        pd = pytest.importorskip("pandas", reason="a data frame")
        rows = {
            "context.span_id": ["s2", "s1"],
            "context.trace_id": ["t", "t"],
            "parent_id": ["s1", None],
            "span_kind": ["RETRIEVER", "CHAIN"],
            "start_time": pd.to_datetime(["2026-11-22 06:00:01", "2026-11-22 06:00:00"], utc=True),
            "end_time": pd.to_datetime(["2026-11-22 06:00:03", "2026-11-22 06:00:04"], utc=True),
            "status_code": ["OK", "OK"],
            "events": [[], []],
            "attributes.input.value": ["x", "Who?"],
            "attributes.retrieval.documents": [
                [
                    {"document.id": "b", "document.score": 0.5, "document.metadata": {"n": 1}},
                    {"document.id": "a", "document.score": 0.25, "document.metadata": {"n": 2}},
                ],
                None,
            ],
        }
        frame = pd.DataFrame(rows)
        frame.index = pd.Index(frame["context.span_id"])  # as Phoenix's client makes them
        run = read_traces(frame, questions={"q": "Who?"})
        assert (list(run["q"].ids), run["q"].scores) == (["b", "a"], [0.5, 0.25])
        assert run["q"].latency == 2.0
        assert [call.query for call in calls_of(run["q"])] == ["x"]
        assert list(read_traces(frame, match_on="n")["t"].ids) == ["1", "2"]
        pytest.importorskip("pyarrow", reason="the extra batch")
        frame.to_parquet(tmp_path / "spans.parquet")
        assert read_traces(tmp_path / "spans.parquet", questions={"q": "Who?"}) == run
        assert is_trace_file(tmp_path / "spans.parquet")  # so the command line reads it as such
        with pytest.raises(FileFormatError, match="the data frame isn't traces: it has"):
            read_traces(pd.DataFrame({"a": [1]}))

    @pytest.mark.parametrize("ending", ["columns", "records", "parquet"])
    def test_frame_of_mlflow_is_read_as_it_is_written(self, tmp_path: Path, ending: str) -> None:
        pd, file = pytest.importorskip("pandas"), tmp_path / f"frame.{ending}"
        traces = [json.dumps(mlflow_trace('[{"id": "d1"}]', trace)) for trace in ("t1", "t2")]
        frame = pd.DataFrame(
            {"trace_id": ["t1", "t2"], "trace": traces, "trace_metadata": ["", ""]}
        )
        if ending == "parquet":
            pytest.importorskip("pyarrow", reason="the extra batch")
            frame.to_parquet(file)
        else:
            file = file.with_suffix(".json")
            frame.to_json(file, orient=ending)
        assert is_trace_file(file)
        assert dict(read_traces(file)) == dict(read_traces(frame))
        assert list(read_traces(file)) == ["t1", "t2"]


class TestFiles:
    def test_gzip_whole_files_and_blank_lines(self, path: Path, tmp_path: Path) -> None:
        second = request(retrieval("r2", "y", ["b"], trace="t2"))
        lines = [request(retrieval("r1", "x", ["a"])), second]
        expected = read_traces(write_lines(path, *lines))
        packed = tmp_path / "packed.jsonl.gz"
        packed.write_bytes(gzip.compress(path.read_bytes().replace(b"\n", b"\r\n\r\n")))
        assert read_traces(packed) == expected
        resources = [resource for line in lines for resource in line["resourceSpans"]]
        whole = {"resourceSpans": resources}
        pretty, dense = tmp_path / "pretty.json", tmp_path / "dense.json"
        pretty.write_text(json.dumps(whole, indent=2))
        dense.write_text(json.dumps(whole))
        assert read_traces(pretty) == read_traces(dense) == expected

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ('{"resourceSpans": [', "line 2: expected JSON"),
            ("[" * 100_000, "line 2: expected JSON"),
            ('{"resourceSpans": 5}', "line 2: expected a span"),
            ('{"resourceSpans": [{"scopeSpans": [{"spans": [7]}]}]}', "line 2: expected a span"),
            ('{"spans": []}', "line 2: expected one of: OTLP/JSON"),
            ("7", "line 2: expected one of"),
            ("\udc80", "line 2: expected text in UTF-8"),
        ],
    )
    def test_line_that_is_none_has_its_number(self, path: Path, line: str, message: str) -> None:
        good = json.dumps(request(retrieval("r1", "x", ["a"])))
        path.write_bytes(f"{good}\n{line}\n{good}\n".encode("utf-8", "surrogateescape"))
        with pytest.raises(FileFormatError, match=message):
            read_traces(path)

    @pytest.mark.parametrize(
        ("attribute", "value"),
        [
            ("retrieval.documents.0.document.id", {"doubleValue": 0.5}),
            ("retrieval.documents.0.document.id", {"arrayValue": {"values": 3}}),
            ("retrieval.documents.0.document.score", {"stringValue": "high"}),
            ("retrieval.documents.0.document.score", {"intValue": "9" * 5000}),
            ("retrieval.documents.0.document.content", {"intValue": "3"}),
            ("retrieval.documents.0.document.id", {"a": 1, "b": 2}),
            ("retrieval.documents.0.document.id", "plain"),
            ("input.value", 5),
        ],
    )
    def test_unreadable_span_is_named(self, path: Path, attribute: str, value: object) -> None:
        bad = retrieval("r1", "x", ["a"], "root")
        for pair in bad["attributes"]:
            if pair["key"] == attribute:
                pair["value"] = value
        good = retrieval("r2", "y", ["b"], "root")
        write_lines(path, request(good), request(bad), request(span("root", **AGENT)))
        with pytest.raises(FileFormatError, match="line 2: expected"):
            read_traces(path)

    def test_values_null_or_empty_are_not_there(self, path: Path) -> None:
        sparse = retrieval("r1", "x", ["a"], empty={}, llm="")
        sparse["attributes"] += [{"key": "null", "value": None}, {"key": "nothing"}]
        bare = span("root", **AGENT)
        bare["attributes"] = None
        assert read_traces(write_lines(path, request(sparse, bare)))["t1"].ids == ["a"]

    @pytest.mark.parametrize("kind", ["id", "text"])
    def test_emoji_cut_in_half_in_the_json_of_an_attribute_is_a_text(self, kind: str) -> None:
        # JSON in JSON, cut after the first half of a pair
        document = {"page_content": "t \ud83d", "id": "d1"}
        for ensure_ascii in (True, False):
            outputs = json.dumps([document], ensure_ascii=ensure_ascii)
            run = read_traces([mlflow_trace(outputs)])
            assert (run["t1"].ids, run["t1"].texts) == (["d1"], ["t \ud83d"])

    def test_source_that_is_nothing_of_these(self, tmp_path: Path) -> None:
        with pytest.raises(FileFormatError, match="isn't traces: it is a folder"):
            read_traces(tmp_path)
        with pytest.raises(FileFormatError, match="this int isn't traces"):
            read_traces(5)
        with pytest.raises(FileFormatError, match="this list, record 1: expected one of"):
            read_traces([{"id": 1, "observations": []}])
        with pytest.raises(FileNotFoundError):
            read_traces(tmp_path / "none.jsonl")


HAMLET = {"q1": "Who wrote Hamlet?", "q2": "And when?"}


def program(trace: str, begin: float, kind: str = "CHAIN", **further: Any) -> dict[str, Any]:
    known: dict[str, Any] = {"openinference.span.kind": kind, "input.value": HAMLET["q1"]}
    return span("root", trace=trace, begin=begin, **known, **further)


@pytest.mark.parametrize("kind", ["CHAIN", "AGENT"])
def test_last_time_counts_also_where_nothing_was_retrieved(path: Path, kind: str) -> None:
    found = retrieval("r", HAMLET["q1"], ["d1"], "root", trace="t1", begin=2)
    write_lines(path, request(program("t2", 9, kind), found, program("t1", 1, kind)))
    assert read_traces(path, questions=HAMLET)["q1"].ids == []


def test_time_is_when_it_was_asked_and_not_that_of_a_call(path: Path) -> None:
    calls = [
        retrieval("r2", "another search", ["d2"], "root", trace="t1", begin=8),
        retrieval("r1", HAMLET["q1"], ["d1"], "root", trace="t1", begin=7),
        retrieval("r1", HAMLET["q1"], ["d3"], "root", trace="t2", begin=6),
    ]
    write_lines(path, request(*calls, program("t1", 1), program("t2", 5)))
    assert read_traces(path, questions=HAMLET)["q1"].ids == ["d3"]


def test_reranking_inside_another_is_a_part_of_it(path: Path) -> None:
    spans = [
        retrieval("r", HAMLET["q1"], ["a", "b", "c"], begin=1),
        retrieval("outer", HAMLET["q1"], ["b"], kind="RERANKER", begin=2, seconds=3),
        retrieval("inner", HAMLET["q1"], ["b", "a"], "outer", kind="RERANKER", begin=3),
    ]
    ranking = read_traces(write_lines(path, request(*spans)))["t1"]
    assert ranking.ids == ["b"]
    assert ranking.latency == pytest.approx(0.5 + 3)


def test_synthesizer_alone_asks_no_question(path: Path) -> None:
    pytest.importorskip("openinference.instrumentation.llama_index", reason="its spans")
    from llama_index.core import MockEmbedding, VectorStoreIndex, get_response_synthesizer
    from llama_index.core.llms import MockLLM
    from llama_index.core.schema import TextNode

    index = VectorStoreIndex(
        [TextNode(id_="d1", text="Shakespeare did.")], embed_model=MockEmbedding(embed_dim=2)
    )
    with openinference(path):  # each of the steps is a trace of its own
        nodes = index.as_retriever().retrieve(HAMLET["q1"])
        get_response_synthesizer(llm=MockLLM()).synthesize(HAMLET["q1"], nodes)
    run = read_traces(path, questions=HAMLET)
    assert (run["q1"].ids, run.notes) == (["d1"], ())
