"""Scores of answers: tables, lines, mappings, and what MLflow and Phoenix keep."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.telemetry import mlflow_store

from llama_index_rag_metrics import Answers, read_answers, read_traces
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput, UnknownFormat

pd = pytest.importorskip("pandas", reason="data frames")

RECORDS = [
    {"id": "q1", "question": "Why?", "correct": True},
    {"id": "q2", "question": "Who?", "correct": False},
    {"id": "q3", "question": "When?", "correct": None},
]


def csv(path: Path) -> Path:
    path = path / "answers.csv"
    path.write_text('id,question,correct\nq1,"Why, then?",yes\nq2,Who?,No\nq3,When?,\n')
    return path


def lines(path: Path) -> Path:
    path = path / "answers.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in RECORDS))
    return path


def listed(path: Path) -> Path:
    path = path / "answers.json"
    path.write_text(json.dumps(RECORDS))
    return path


def parquet(path: Path) -> Path:
    pytest.importorskip("pyarrow", reason="Parquet")
    path = path / "answers.parquet"
    frame(path).to_parquet(path)
    return path


def frame(_: Path) -> Any:
    return pd.DataFrame(RECORDS)


def polars_frame(_: Path) -> Any:
    return pytest.importorskip("polars", reason="its frames").DataFrame(RECORDS)


class TestForms:
    @pytest.mark.parametrize(
        "made", [csv, lines, listed, parquet, frame, polars_frame, lambda _: iter(RECORDS)]
    )
    def test_tables(self, made: Callable[[Path], Any], tmp_path: Path) -> None:
        answers = read_answers(made(tmp_path))
        assert (dict(answers), answers.missing) == ({"q1": 1.0, "q2": 0.0}, ("q3",))
        assert (answers.name, answers.notes) == ("correct", ())
        assert read_answers(answers) is answers

    def test_mappings(self, tmp_path: Path) -> None:
        given = {"q1": 0.5, "q2": np.float64(1), "q3": math.nan, "q4": "0.25", "q5": [1, 0, None]}
        given |= {"q6": np.array([1.0, 0.0]), "q7": np.float32("nan"), "q8": pd.NA, "q9": np.True_}
        expected = {"q1": 0.5, "q2": 1.0, "q4": 0.25, "q5": 0.5, "q6": 0.5, "q9": 1.0}
        assert dict(read_answers(given)) == expected
        # whatever columns of other sources are called
        assert dict(read_answers(given, columns={"query_id": "uuid", "answer": "x"})) == expected
        assert dict(read_answers(pd.Series(given, dtype=object))) == expected
        path = tmp_path / "answers.json"
        path.write_text(json.dumps({"q1": {"tone": 1, "why": "kind"}, "q2": {"tone": 0}}))
        assert dict(read_answers(path)) == {"q1": 1.0, "q2": 0.0}

    def test_names_of_columns(self) -> None:
        rows = [{"uuid": 7, "id": "x", "faithful": 0.5, "cost": 1, "answer": "Because."}]
        columns = {"query_id": "uuid", "answer": "faithful"}
        answers = read_answers(pd.DataFrame(rows), columns=columns)
        assert (dict(answers), answers.name) == ({"7": 0.5}, "faithful")
        with pytest.raises(InvalidInput) as error:
            read_answers(rows, columns={"query_id": "uuid"})
        assert str(error.value) == (
            "columns: expected one column of scores, got ['faithful', 'cost']. Say which: "
            "columns={'answer': name}."
        )
        with pytest.raises(InvalidInput, match="columns: expected fields such as query_id and "):
            read_answers(rows, columns={"score": "cost"})

    def test_questions_are_found_by_their_text(self) -> None:
        class Evaluated:  # as ragas has it
            def to_pandas(self) -> Any:
                texts = ["Why?", " Who? ", "Where?"]
                return pd.DataFrame({"user_input": texts, "answer_correctness": [1.0, 0.5, 0.0]})

        answers = read_answers(Evaluated(), questions={"q1": "Why?", "q2": "Who?", "q3": "Who?"})
        # which of two questions with one text was answered isn't known
        assert dict(answers) == {"q1": 1.0}
        assert answers.notes == (
            "rows for no known question: 1",
            "rows for several questions, which don't say for which: 1",
        )
        with pytest.raises(FileFormatError, match="a field 'query_id'"):
            read_answers(Evaluated())

    def test_an_id_with_the_text_of_another_question(self) -> None:
        rows = [{"id": 1, "question": "Who?", "ok": 1}]
        texts = {"1": "Why?", "2": "Who?"}
        with pytest.raises(FileFormatError, match="expected the text of question '1', or no id"):
            read_answers(rows, questions=texts)
        # texts that no question has say nothing against the id
        rows[0]["question"] = "Why, then?"
        assert dict(read_answers(rows, questions=texts)) == {"1": 1.0}
        assert dict(
            read_answers(
                [{"Nr": 7, "Prompt": " who? ".strip().capitalize(), "ok": 1}],
                columns={"query": "Prompt", "answer": "ok"},
                questions=texts,
            )
        ) == {"2": 1.0}

    @pytest.mark.parametrize(
        ("good", "bad"),
        [
            ("👍", "👎"),
            ("👍\ufe0f", "👎\U0001f3fd"),
            ("Thumbs up", "thumbs_down"),
            ("Good", "bad "),
            ("100 %", "0%"),
            ("y", "n"),
        ],
    )
    def test_words_of_scores(self, good: str, bad: str) -> None:
        answers = read_answers({"q1": good, "q2": bad, "q3": "-"})
        assert (dict(answers), answers.missing) == ({"q1": 1.0, "q2": 0.0}, ("q3",))

    def test_percentages_are_in_all_cells_or_in_none(self) -> None:
        assert dict(read_answers({"q1": "85%", "q2": 0.9, "q3": "yes"})) == {
            "q1": 0.85,
            "q2": 0.9,
            "q3": 1.0,
        }
        with pytest.raises(FileFormatError, match="no score above 1 beside a percentage, '85%'"):
            read_answers({"q1": "85%", "q2": 90})

    def test_a_column_with_an_unreadable_cell_is_no_reason_to_take_another(self) -> None:
        rows = [{"id": f"q{n}", "correct": n % 2, "seconds": n / 10} for n in range(5)]
        rows.append({"id": "q5", "correct": "unclear", "seconds": 0.1})
        with pytest.raises(InvalidInput, match=r"got \['correct', 'seconds'\]"):
            read_answers(rows)
        with pytest.raises(FileFormatError, match=r"record 6: expected a score.*got 'unclear'"):
            read_answers(rows, columns={"answer": "correct"})
        with pytest.raises(FileFormatError, match="a field 'corect'"):
            read_answers(rows, columns={"answer": "corect"})
        # what was answered may look like a score, too
        answered = [{"id": "q1", "answer": "yes", "correct": 0}]
        with pytest.raises(InvalidInput, match=r"got \['answer', 'correct'\]"):
            read_answers(answered)

    def test_the_index_that_pandas_writes_is_no_score(self, tmp_path: Path) -> None:
        path = tmp_path / "answers.csv"
        for good, bad in (("yes", "no"), ("gut", "schlecht")):
            pd.DataFrame({"id": ["q1", "q2"], "ok": [good, bad]}).to_csv(path)
            if good == "yes":
                assert dict(read_answers(path)) == {"q1": 1.0, "q2": 0.0}
            else:
                with pytest.raises(FileFormatError, match="expected a score: a finite number"):
                    read_answers(path)

    def test_the_same_repeat_twice(self) -> None:
        rows = [{"id": "q1", "repeat": 1, "ok": 1}, {"id": "q1", "repeat": 1, "ok": 0}]
        with pytest.raises(FileFormatError, match="every question once, or a column 'repeat'"):
            read_answers(rows)

    def test_repeats_count_by_their_mean(self) -> None:
        rows = [
            {"query_id": "q1", "repeat": number, "score": score}
            for number, score in enumerate([1, 0, 0, None], 1)
        ]
        answers = read_answers(rows)
        assert dict(answers) == {"q1": pytest.approx(1 / 3)}
        assert answers.notes == ("questions with several scores, whose mean counts: 1",)

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            ([{"id": "q1", "ok": 1}, {"id": "q1", "ok": 1}], "every question once, or a column"),
            ([{"name": "q1", "ok": 1}], "a field 'query_id'"),
            ([{"id": "q1", "ok": "perhaps"}], "expected a score: a finite number, true"),
            ([{"id": "q1", "a": "b", "c": "d"}], "a field 'answer', a score"),
            ([{"id": "q1", "answer": "42 km"}], "expected a score: a finite number, true"),
            ([["q1", 1]], "a record with a question id and a score"),
            ({"q1": math.inf}, "question 'q1': expected a score: a finite number"),
            ({"q1": "1e300"}, "question 'q1': expected a score: a finite number"),
        ],
    )
    def test_what_cannot_be_read(self, rows: Any, message: str) -> None:
        with pytest.raises(FileFormatError, match=message):
            read_answers(rows)

    def test_a_score_that_is_none_where_the_column_is_named(self) -> None:
        rows = [{"id": "q1", "ok": "1"}, {"id": "q2", "ok": "perhaps"}]
        with pytest.raises(FileFormatError, match="record 2: expected a score: a finite number"):
            read_answers(rows, columns={"answer": "ok"})

    def test_a_table_of_traces_is_no_trace(self, tmp_path: Path) -> None:
        path = tmp_path / "answers.jsonl"
        path.write_text('{"trace_id": "t1", "context": "c", "ok": 1}\n' * 1)
        answers = read_answers(path, columns={"query_id": "trace_id"})
        assert dict(answers) == {"t1": 1.0}

    def test_other_sources(self, tmp_path: Path) -> None:
        path = tmp_path / "qrels.txt"
        path.write_text("q1 0 d1 1\n")
        with pytest.raises(UnknownFormat, match="no table with a column of question ids"):
            read_answers(path)
        with pytest.raises(UnknownFormat):
            read_answers(3)
        assert read_answers([]) == Answers()


class TestMLflow:
    @pytest.fixture(autouse=True)
    def traces(self, tmp_path: Path) -> None:
        mlflow = pytest.importorskip("mlflow", reason="the tool that is read")
        pytest.importorskip("mlflow.genai.scorers", reason="MLflow 3")
        mlflow_store(tmp_path)

        @mlflow.trace(span_type="RETRIEVER")  # type: ignore[untyped-decorator]
        def retrieve(question: str) -> list[Any]:
            mlflow.update_current_trace(tags={"question_id": question[:2]})
            return [mlflow.entities.Document(page_content="x", metadata={}, id="d1")]

        self.ids = []
        for question in ("q1 why?", "q2 who?"):
            retrieve(question)
            self.ids.append(mlflow.get_last_active_trace_id())
        mlflow.flush_trace_async_logging()
        one, other = self.ids
        log = mlflow.log_feedback
        log(trace_id=one, name="correct", value=True)
        log(trace_id=one, name="correct", value="no")
        given = log(trace_id=other, name="correct", value="yes")
        log(trace_id=other, name="tone", error=Exception("refused"))
        mlflow.override_feedback(
            trace_id=other, assessment_id=given.assessment_id, value=0.25, rationale="less so"
        )
        mlflow.log_expectation(trace_id=other, name="expected", value=["d1"])

    def sources(self, folder: Path) -> list[Any]:
        import mlflow

        found = mlflow.search_traces(return_type="list")
        path = folder / "traces.jsonl"
        path.write_text("".join(f"{json.dumps(trace.to_dict())}\n" for trace in found))
        whole = folder / "traces.json"
        whole.write_text(json.dumps([trace.to_dict() for trace in found], indent=1))
        frame = mlflow.search_traces()
        as_texts = frame.assign(assessments=frame.assessments.map(json.dumps))
        return [frame, as_texts, found, path, whole]

    def test_assessments(self, tmp_path: Path) -> None:
        columns = {"answer": "correct"}
        for source in self.sources(tmp_path):
            answers = read_answers(source, columns=columns)
            # the mean of two; the later value of one that was replaced
            assert dict(answers) == dict(zip(self.ids, (0.5, 0.25), strict=True))
            assert answers.notes == ("questions with several scores, whose mean counts: 1",)
            tone = read_answers(source, columns={"answer": "tone"})
            assert (dict(tone), tone.missing) == ({}, (self.ids[1],))
            with pytest.raises(InvalidInput, match=r"got \['correct', 'tone'\]"):
                read_answers(source)
            with pytest.raises(InvalidInput, match="columns: expected one of 'correct', 'tone'"):
                read_answers(source, columns={"answer": "colour"})

    def test_of_the_questions_of_the_run(self, tmp_path: Path) -> None:
        for source in self.sources(tmp_path):
            for how in (
                {"question_id": "question_id"},
                {"questions": {"q1": "q1 why?", "q2": "q2 who?"}},
            ):
                answers = read_answers(source, columns={"answer": "correct"}, **how)
                assert dict(answers) == {"q1": 0.5, "q2": 0.25}
                assert set(read_traces(source, **how)) == set(answers)
            one = {"q2": "q2 who?"}
            answers = read_answers(source, columns={"answer": "correct"}, questions=one)
            assert dict(answers) == {"q2": 0.25}
            assert "scores of traces for no known question: 2" in answers.notes


class TestPhoenix:
    SPANS = pd.DataFrame(
        {
            "context.trace_id": ["t1", "t1", "t2", "t3"],
            "context.span_id": ["a", "b", "c", "d"],
            "parent_id": [None, "a", None, None],
            "span_kind": ["CHAIN", "RETRIEVER", "RETRIEVER", "RETRIEVER"],
            "attributes.metadata": [{"question_id": name} for name in ("q1", "q1", "q2", "q2")],
            "attributes.retrieval.documents": [None, *([[{"document.id": "d1"}]] * 3)],
        }
    )

    @staticmethod
    def annotations() -> Any:
        """As the client makes them: by span, the result in columns of its own."""
        rows = [
            ("a", "correct", None, "correct"),
            ("c", "correct", 0.0, "incorrect"),
            ("d", "correct", 1.0, None),
            ("c", "tone", 0.5, None),
            ("elsewhere", "correct", 1.0, None),
        ]
        names = ["span_id", "annotation_name", "result.score", "result.label"]
        return pd.DataFrame(rows, columns=names).set_index("span_id")

    def test_annotations_of_spans(self) -> None:
        columns = {"answer": "correct"}
        found = {"columns": columns, "annotations": self.annotations()}
        assert dict(read_answers(self.SPANS, **found)) == {"t1": 1.0, "t2": 0.0, "t3": 1.0}
        answers = read_answers(self.SPANS, **found, question_id="metadata.question_id")
        assert dict(answers) == {"q1": 1.0, "q2": 0.5}
        for is_dropped in (True, False):
            again = self.SPANS.set_index("context.span_id", drop=is_dropped)
            assert dict(read_answers(again, **found)) == {"t1": 1.0, "t2": 0.0, "t3": 1.0}

    def test_several_times_asked(self) -> None:
        # as read_traces: the last session counts, or all of them
        found: dict[str, Any] = {
            "columns": {"answer": "correct"},
            "annotations": self.annotations(),
            "question_id": "metadata.question_id",
        }
        for repeats in ("last", "keep"):
            answers = read_answers(self.SPANS, **found, repeats=repeats)
            assert dict(answers) == {"q1": 1.0, "q2": 0.5}

    def test_what_is_missing(self) -> None:
        with pytest.raises(
            InvalidInput, match=r"^source: expected the spans that annotations= are"
        ):
            read_answers({"a": 1}, annotations=self.annotations())
        with pytest.raises(InvalidInput, match=r"^annotations: expected what get_span_annotations"):
            read_answers(self.SPANS, annotations={"a": 1})
