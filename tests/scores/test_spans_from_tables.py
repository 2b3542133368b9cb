"""Spans from columns and files give what they give from lists, to the last bit."""

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.spans import SPAN_NAMES, by_sets, questions
from typer.testing import CliRunner

from llama_index_rag_metrics import (
    Ranking,
    Relevance,
    Run,
    Span,
    metric,
    read_qrels,
    read_run,
    score_rankings,
    score_table,
    write_qrels,
    write_run,
)
from llama_index_rag_metrics.cli import app
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput

SPANS = pl.List(pl.Struct({"source": pl.String, "start": pl.Int64, "end": pl.Int64}))


def frame_of(batch: list[tuple[Relevance, Ranking]]) -> pl.DataFrame:
    def column(spans: Any) -> list[dict[str, Any] | None]:
        return [span and span._asdict() for span in spans]

    def expected_spans(relevance: Relevance) -> list[dict[str, Any] | None]:
        return column(map((relevance.spans or {}).get, relevance.grades))

    judged = [relevance for relevance, _ in batch]
    return pl.DataFrame(
        {
            "retrieved_ids": [list(ranking.ids) for _, ranking in batch],
            "retrieved_spans": [column(ranking.spans) for _, ranking in batch],
            "retrieved_tokens": [list(ranking.tokens or ()) for _, ranking in batch],
            "expected_ids": [list(relevance.grades) for relevance in judged],
            "expected_spans": list(map(expected_spans, judged)),
            "grades": [list(relevance.grades.values()) for relevance in judged],
        },
        schema={
            "retrieved_ids": pl.List(pl.String),
            "retrieved_spans": SPANS,
            "retrieved_tokens": pl.List(pl.Int64),
            "expected_ids": pl.List(pl.String),
            "expected_spans": SPANS,
            "grades": pl.List(pl.Float64),
        },
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", SPAN_NAMES)
@given(
    batch=st.lists(questions(), min_size=1, max_size=6),
    k=st.none() | st.integers(1, 6),
    budget=st.integers(1, 30),
)
@examples(150)
def test_spans_as_sets_and_as_lists(
    name: str, batch: list[tuple[Relevance, Ranking]], k: int | None, budget: int
) -> None:
    names = [name + (f"@{k}" if k else ""), f"{name}(min_grade=2)", f"{name}@{budget}tokens"]
    table = score_table(frame_of(batch), names, no_relevant="zero")
    expected = [by_sets(name, *question, k, 1.0) for question in batch]
    assert table[names[0]].to_list() == pytest.approx(expected, rel=0, abs=1e-12)
    relevance, rankings = map(list, zip(*batch, strict=True))
    lists = score_rankings(relevance, rankings, names, no_relevant="zero")
    for column in names:
        assert table[column].to_numpy().tobytes() == lists[column].tobytes()


@pytest.mark.slow
@given(batch=st.lists(questions(), min_size=1, max_size=6))
@examples(60)
def test_row_alone_and_in_a_table(batch: list[tuple[Relevance, Ranking]]) -> None:
    frame = frame_of(batch)
    names = [*SPAN_NAMES, *(f"{name}@2" for name in SPAN_NAMES)]
    together = score_table(frame, names, no_relevant="zero")
    backwards = score_table(frame.reverse(), names, no_relevant="zero").reverse()
    assert together.equals(backwards)
    for row in range(len(frame)):
        assert score_table(frame[row], names, no_relevant="zero").equals(together[row])


WANTED = Relevance({"p": 2, "q": 0}, spans={"p": ("moons.txt", 100, 200)})
FOUND = Ranking(["a", "b"], spans=[Span("moons.txt", 150, 350), None], tokens=[3, 4])


def test_labels_by_place_need_no_ids() -> None:
    place = {"source": "moons.txt", "start": 100, "end": 200}
    table = pa.table(
        {
            "retrieved_ids": [["a"], ["b"], []],
            "retrieved_spans": [[{**place, "start": 150}], None, []],
            "expected_spans": [[place], [place], None],
        }
    )
    scored = score_table(table, "span_recall")
    assert scored["span_recall"].to_pylist() == [0.5, 0.0, None]
    assert scored["excluded"].to_pylist() == [None, None, "unjudged"]
    assert scored["n_relevant"].to_pylist() == [1, 1, 0]


AFTER = r"span of .*\(document id, start, end\), with the end (after|not before) the start, got "


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("retrieved_spans", [[{"source": "m", "start": 5, "end": 4}]], AFTER),
        ("retrieved_spans", [[{"source": "m", "start": -1, "end": 4}]], AFTER),
        ("retrieved_spans", [[]], "of row 0: expected 1 places, one for each id, got 0"),
        ("retrieved_spans", [["m"]], AFTER),
        ("retrieved_spans", [[{"source": "m", "start": 0.5, "end": 4.0}]], AFTER),
        ("expected_spans", [[{"source": "m", "start": 4, "end": 4}]], AFTER),
        ("expected_spans", [[{"source": "m"}]], AFTER),
    ],
)
def test_value_that_can_not_be_a_place(column: str, value: Any, message: str) -> None:
    rows = {"retrieved_ids": [["a"]], "expected_ids": [["p"]]}
    places = {name: [[{"source": "m", "start": 0, "end": 9}]] for name in COLUMNS}
    with pytest.raises(InvalidInput, match=message):
        score_table(pl.DataFrame({**rows, **places, column: value}), "span_recall")


COLUMNS = ("expected_spans", "retrieved_spans")


@pytest.mark.parametrize("column", COLUMNS)
def test_column_that_is_missing_is_named(column: str) -> None:
    rows = {"retrieved_ids": [["a"]], "expected_ids": [["p"]]}
    places = {name: [[{"source": "m", "start": 0, "end": 9}]] for name in COLUMNS}
    with pytest.raises(InvalidInput, match=f"a column {column}"):
        score_table(pl.DataFrame({**rows, **places}).drop(column), "span_recall")


ENDINGS = [".jsonl", ".parquet"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_files_hold_places_and_tokens(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"run{ending}"
    write_run(Run({"q1": FOUND}), path)
    assert read_run(path)["q1"] == FOUND
    names = ["span_recall", "span_iou@3tokens", "span_recall@2tokens", "recall@3tokens"]
    # within 3 tokens a alone, within 2 nothing
    expected = {
        "span_recall": 0.5,
        "span_iou@3tokens": 0.2,
        "span_recall@2tokens": 0.0,
        "recall@3tokens": 0.0,
    }
    qrels = tmp_path / f"qrels{ending}"
    write_qrels({"q1": WANTED, "q2": WANTED}, qrels)
    labels = read_qrels(qrels)
    assert labels["q1"] == WANTED
    assert dict(score_rankings({"q1": labels["q1"]}, read_run(path), names).means) == expected
    scores = score_rankings(labels, read_run(path), names)
    assert scores["span_recall"].tolist() == [0.5, 0.0]  # nothing was retrieved for the second
    result = CliRunner().invoke(
        app, ["score", str(path), "--qrels", str(qrels), "--json", "-", "-m", "span_recall"]
    )
    assert result.exit_code == 0, result.output
    assert '"span_recall": 0.25' in result.output


def test_places_in_csv(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    place = '[{""source"": ""m"", ""start"": 0, ""end"": 9}, null]'
    label = '[{""source"": ""m"", ""start"": 0, ""end"": 18}]'
    path.write_text(
        "query_id,retrieved_ids,retrieved_spans,expected_spans\n"
        f'q1,"[""a"", ""b""]","{place}","{label}"\n',
        encoding="utf-8",
    )
    assert read_run(path)["q1"].spans == [Span("m", 0, 9), None]
    scores = score_rankings(read_qrels(path), read_run(path), "span_recall")
    assert scores.means["span_recall"] == 0.5


@pytest.mark.parametrize("ending", ENDINGS)
def test_labels_by_place_alone_in_files(tmp_path: Path, ending: str) -> None:
    place = {"source": "m", "start": 0, "end": 10}
    row = {"query_id": "q", "retrieved_ids": ["a"], "retrieved_spans": [{**place, "end": 5}]}
    path = tmp_path / f"run{ending}"
    frame = pl.DataFrame([{**row, "expected_spans": [place]}])
    if ending == ".jsonl":
        frame.write_ndjson(path)
    else:
        frame.write_parquet(path)
    scores = score_rankings(read_qrels(path), read_run(path), ["span_recall", "recall"])
    assert dict(scores.means) == {"span_recall": 0.5, "recall": 0.0}


def test_place_that_is_none_is_found(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    line = '{"query_id": "q", "retrieved_ids": ["a"], "retrieved_spans": [{"source": "m"}]}'
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"run.jsonl, line 1: expected spans, {source"):
        read_run(path)


def test_text_longer_than_a_number_holds_is_refused() -> None:
    far = 2**40
    wanted = [Relevance(spans=[(f"d{n}", far - 2, far)]) for n in range(3)]
    rankings = [Ranking(["a"], spans=[Span(f"d{n}", far - 1, far)]) for n in range(3)]
    assert score_rankings(wanted, rankings, "span_recall").means["span_recall"] == 0.5
    with pytest.raises(InvalidInput, match="span of 'rank 1': expected"):
        score_rankings(wanted[:1], [Ranking(["a"], spans=[Span("d0", 5, far + 1)])], "span_recall")


def test_groups_beside_places_are_refused() -> None:
    table = pl.DataFrame(
        {
            "retrieved_ids": [["a"]],
            "expected_ids": [[["p"]]],
            "expected_spans": [[{"source": "m", "start": 0, "end": 9}]],
            "retrieved_spans": [[{"source": "m", "start": 0, "end": 9}]],
        }
    )
    with pytest.raises(InvalidInput, match="a list of ids in every row"):
        score_table(table, metric("span_recall"))


def test_table_without_any_judgement() -> None:
    place = {"source": "x", "start": 0, "end": 3}
    columns = {"retrieved_ids": [["a"]], "expected_ids": [None], "expected_spans": [None]}
    scored = score_table(pl.DataFrame({**columns, "retrieved_spans": [[place]]}), ["span_recall"])
    assert scored["span_recall"].to_list() == [None]
    assert scored["excluded"].to_list() == ["unjudged"]
