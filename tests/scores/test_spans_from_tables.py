"""Spans: as sets of characters, alone and among others, and from files."""

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.spans import SPAN_NAMES, questions
from typer.testing import CliRunner

from llama_index_rag_metrics import (
    Ranking,
    Relevance,
    RetrievalDataset,
    Run,
    Span,
    match_run,
    read_qrels,
    read_run,
    score_rankings,
    score_table,
    write_qrels,
    write_run,
)
from llama_index_rag_metrics.cli import app
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput


@pytest.mark.slow
@given(batch=st.lists(questions(), min_size=1, max_size=6))
@examples(60)
def test_question_alone_and_among_others(batch: list[tuple[Relevance, Ranking]]) -> None:
    names = [*SPAN_NAMES, *(f"{name}@2" for name in SPAN_NAMES)]
    relevance, rankings = map(list, zip(*batch, strict=True))
    together = score_rankings(relevance, rankings, names, no_relevant="zero")
    for row, (wanted, ranking) in enumerate(batch):
        alone = score_rankings([wanted], [ranking], names, no_relevant="zero")
        for name in names:
            assert alone[name].tobytes() == together[name][row : row + 1].tobytes()


WANTED = Relevance({"p": 2, "q": 0}, spans={"p": ("moons.txt", 100, 200)})
FOUND = Ranking(["a", "b"], spans=[Span("moons.txt", 150, 350), None], tokens=[3, 4])


def test_span_metrics_arent_scored_from_tables() -> None:
    table = pl.DataFrame({"retrieved_ids": [["a"]], "expected_ids": [["a"]]})
    with pytest.raises(InvalidInput, match=r"metrics of ids or tokens.*score_rankings\(\) takes"):
        score_table(table, ["recall", "span_recall"])


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


def test_places_as_plain_tuples_are_scored_stored_and_shown() -> None:
    ranking = Ranking(["a", "b"], spans=[("moons.txt", 150, 350), None])  # type: ignore[list-item]
    scores = score_rankings({"q1": WANTED}, Run({"q1": ranking}), "span_recall")
    assert '"start":150' in scores.to_json().replace(" ", "")
    assert "rank 1" in str(scores.worst("span_recall"))
    dataset = RetrievalDataset({"q1": "moons?"}, {"q1": WANTED})
    assert match_run(Run({"q1": ranking}), dataset, "span").run["q1"].ids == ["p", "b"]


def test_places_are_read_from_csv(tmp_path: Path) -> None:
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
