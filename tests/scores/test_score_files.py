"""Scoring files: the numbers of score_rankings, whatever the format, the order and the size."""

from __future__ import annotations

import gzip
import random
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from llama_index_rag_metrics import (
    Relevance,
    Run,
    Scores,
    read_qrels,
    read_run,
    score_files,
    score_rankings,
    table_totals,
    write_qrels,
    write_run,
)
from llama_index_rag_metrics.files.lines import LONGEST_LINE
from llama_index_rag_metrics.files.runs import stored_runs as blocks
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput, LinesSkipped

NAMES = ["recall", "mrr@3", "ndcg", "judged", "precision@5"]

QRELS = {"q1": {"a": 2, "b": 1, "z": 0}, "q2": {"c": 1}, "q3": {"a": 1}, "q4": {"x": 0}}
LINES = [
    "q1 Q0 b 1 0.5 bm25",
    "q1 Q0 a 2 0.5 bm25",
    "q1 Q0 d 3 -1e-3 bm25",
    "q2 Q0 q2 1 7 bm25",
    "q2 Q0 c 2 6.5 bm25",
    "q4 Q0 x 1 1 bm25",
    "q9 Q0 a 1 1 bm25",
]
"""q1: a tie, which trec_eval breaks by id, descending; q3 has no ranking; q9 no judgements."""


def write(folder: Path, lines: list[str], name: str = "a.run", end: str = "\n") -> Path:
    path = folder / name
    text = "".join(line + end for line in lines).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


def expected_scores() -> Scores:
    rankings = {"q1": ["b", "a", "d"], "q2": ["q2", "c"], "q4": ["x"], "q9": ["a"]}
    return score_rankings(QRELS, rankings, NAMES, name="bm25")


def assert_same(ours: Scores, theirs: Scores) -> None:
    """The same in all but the order of the queries."""
    assert ours.per_query == theirs.per_query
    assert ours.means == theirs.means
    assert ours.counts == theirs.counts
    assert ours.excluded == theirs.excluded
    assert sorted(ours.empty) == sorted(theirs.empty)
    assert (ours.name, ours.notes) == (theirs.name, theirs.notes)


@pytest.mark.parametrize("name", ["a.run", "a.txt.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "  \n", "\n\n"])
@pytest.mark.parametrize("space", [" ", "\t", "   ", " \t "])
def test_trec_runs(tmp_path: Path, name: str, end: str, space: str) -> None:
    path = write(tmp_path, [line.replace(" ", space) for line in LINES], name, end)
    assert_same(score_files(path, QRELS, NAMES), expected_scores())


@pytest.mark.parametrize("indent", [" ", "\t", "\ufeff"])
def test_before_the_first_column(tmp_path: Path, indent: str) -> None:
    path = write(tmp_path, [indent + LINES[0], *LINES[1:]])
    assert_same(score_files(path, QRELS, NAMES), expected_scores())


def test_without_a_newline_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    path.write_text("\n".join(LINES))
    assert_same(score_files(path, QRELS, NAMES), expected_scores())


def test_queries_that_arent_contiguous(tmp_path: Path) -> None:
    lines = LINES.copy()
    random.Random(5).shuffle(lines)
    assert_same(score_files(write(tmp_path, lines), QRELS, NAMES), expected_scores())


@pytest.mark.parametrize("size", [1, 20, 45, 90])
def test_blocks_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Scattered in different blocks, too, which is seen only after the last one."""
    monkeypatch.setattr(blocks, "_BLOCK", size)
    monkeypatch.setattr(blocks, "_PART", 100)
    assert_same(score_files(write(tmp_path, LINES), QRELS, NAMES), expected_scores())
    lines = [*LINES[1:], LINES[0]]
    assert_same(score_files(write(tmp_path, lines), QRELS, NAMES), expected_scores())


words = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1, max_size=4)
words = words.filter(lambda word: not word.startswith("#"))
scores = st.floats(-3, 3).map(lambda score: round(score, 1)) | st.floats(allow_nan=False)


@examples(60)
@given(
    st.dictionaries(words, st.dictionaries(words, scores, min_size=1, max_size=6), max_size=5),
    st.randoms(use_true_random=False),
)
def test_the_order_of_read_run(
    tmp_path_factory: pytest.TempPathFactory, run: dict[str, dict[str, float]], rng: random.Random
) -> None:
    """Any ids, scores and order of the lines; every document is judged, so that order shows."""
    lines = [f"{q} 0 {d} 1 {score!r} t" for q, docs in run.items() for d, score in docs.items()]
    rng.shuffle(lines)
    path = write(tmp_path_factory.mktemp("runs"), lines)
    qrels = {q: {d: float(grade) for grade, d in enumerate(docs, 1)} for q, docs in run.items()}
    theirs = score_rankings(qrels, read_run(path), ["ndcg", "ap"], name="t" if run else "a")
    assert_same(score_files(path, qrels, ["ndcg", "ap"]), theirs)


@pytest.mark.parametrize("name", ["run.parquet", "run.arrow", "run.jsonl", "run.csv", "run.json"])
def test_other_formats(tmp_path: Path, name: str) -> None:
    run = Run({"q1": ["b", "a", "d"], "q2": ["q2", "c"], "q4": ["x"], "q9": ["a"]}, name="bm25")
    write_run(run, tmp_path / name)
    scored = score_files(tmp_path / name, QRELS, NAMES, name="bm25")
    assert_same(scored, expected_scores())


def test_rows_that_hold_their_relevance(tmp_path: Path) -> None:
    pl.DataFrame(
        {
            "query_id": ["q1", "q2", "q3"],
            "retrieved_ids": [["b", "a"], [], None],
            "expected_ids": [["a"], ["c"], ["d"]],
            "grades": [[2.0], None, None],
            "error": [None, None, "timeout"],
            "texts": [["long"], [], []],
        }
    ).write_parquet(tmp_path / "logged.parquet")
    scores = score_files(tmp_path / "logged.parquet", None, "mrr")
    assert scores.by_query("mrr") == {"q1": 0.5, "q2": 0.0, "q3": 0.0}
    assert scores.failed == {"q3": "timeout"}
    assert scores.empty == ("q2",)


def logged(folder: Path) -> Path:
    path = folder / "logged.parquet"
    pl.DataFrame(
        {
            "query_id": ["q1", "q2", "q9"],
            "retrieved_ids": [["a"], ["x"], ["a"]],
            "language": ["en", "ja", "en"],
            "length": [7, None, 3],
        }
    ).write_parquet(path)
    return path


def test_columns_to_slice_by(tmp_path: Path) -> None:
    scores = score_files(logged(tmp_path), QRELS, "mrr", keep=["language", "length"])
    assert scores.metadata["q1"] == {"language": "en", "length": 7}
    means = {value: part.means["mrr"] for value, part in scores.slices("language").items()}
    assert means == {"en": 1.0, "ja": 0.0, None: 0.0}  # q3 and q4 weren't asked


def test_columns_that_go_along_into_a_file(tmp_path: Path) -> None:
    out = tmp_path / "scores.parquet"
    totals = score_files(logged(tmp_path), QRELS, "mrr", keep=["language"], per_query=out)
    stored = pl.read_parquet(out)
    assert dict(stored.select("query_id", "language").rows())["q2"] == "ja"
    assert table_totals(stored).means == totals.means


def test_columns_that_arent_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"keep: expected columns of .* got 'lang'"):
        score_files(logged(tmp_path), QRELS, "mrr", keep=["lang"])
    with pytest.raises(InvalidInput, match="which has none"):
        score_files(write(tmp_path, LINES), QRELS, "mrr", keep=["language"])


def test_a_folder_of_files(tmp_path: Path) -> None:
    for name, query in (("b/2.parquet", "q2"), ("a/1.parquet", "q1")):
        (tmp_path / name).parent.mkdir()
        row = {"query_id": [query], "retrieved_ids": [["a"]], "expected_ids": [["a"]]}
        pl.DataFrame(row).write_parquet(tmp_path / name)
    assert score_files(tmp_path, None, "mrr").by_query("mrr") == {"q1": 1.0, "q2": 1.0}


def test_scores_that_go_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "out" / "scores.parquet"
    totals = score_files(write(tmp_path, LINES), QRELS, NAMES, per_query=path)
    theirs = expected_scores()
    assert (dict(totals.means), totals.counts) == (dict(theirs.means), theirs.counts)
    assert (totals.path, totals.name, totals.notes) == (path, "bm25", list(theirs.notes))
    stored = pl.read_parquet(path)
    assert dict(zip(stored["query_id"], stored["excluded"], strict=True))["q9"] == "unjudged"
    assert table_totals(stored).means == theirs.means


def test_scores_that_are_only_summed(tmp_path: Path) -> None:
    totals = score_files(write(tmp_path, LINES), QRELS, NAMES, per_query=False)
    assert dict(totals.means) == dict(expected_scores().means)
    assert totals.path is None


def test_groups(tmp_path: Path) -> None:
    qrels = {"q1": Relevance.groups([["a", "x"], ["y"]]), "q2": Relevance(["c"])}
    scores = score_files(write(tmp_path, LINES[:5]), qrels, "group_recall")
    assert scores.by_query("group_recall") == {"q1": 0.5, "q2": 1.0}
    qrels["q2"] = Relevance({"c": 2})
    with pytest.raises(InvalidInput, match="groups or grades"):
        score_files(write(tmp_path, LINES[:5]), qrels, "group_recall")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q1 Q0 e 4 0.1", "line 4: expected 6 columns"),
        (" q1 Q0 e 4 0.1", "line 4: expected 6 columns"),
        ("q1 Q0 e 4 0.1 ", "line 4: expected 6 columns"),
        ("q1  Q0 e 4 0.1", "line 4: expected 6 columns"),
        ("q1 Q0 e f 4 0.1 bm25", "line 4: expected 6 columns"),
        ("q1 Q0 e 4 high bm25", "line 4: expected a score, a number"),
        ("q1 Q0 e 4 nan bm25", "line 4: expected a score, a number"),
        ("q1 Q0 a 4 0.1 bm25", "line 4: expected every document once a question, got 'q1 a'"),
        ("q1 Q0 \udcff 4 0.1 bm25", "line 4: expected UTF-8 text"),
    ],
)
def test_a_line_that_cant_be_read(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "a.run"
    lines = [*LINES[:3], line, *LINES[3:]]
    path.write_bytes("\n".join(lines).encode(errors="surrogateescape"))
    with pytest.raises(FileFormatError) as raised:
        score_files(path, QRELS, NAMES)
    assert message in str(raised.value)
    with pytest.warns(LinesSkipped):
        assert_same(score_files(path, QRELS, NAMES, on_error="skip"), expected_scores())


def test_a_file_that_holds_nothing(tmp_path: Path) -> None:
    scores = score_files(write(tmp_path, []), QRELS, NAMES)
    assert scores.counts.empty == scores.counts.queries == 4


def test_arguments_that_cant_be_used(tmp_path: Path) -> None:
    path = write(tmp_path, LINES)
    with pytest.raises(FileNotFoundError):
        score_files(tmp_path / "none.run", QRELS, NAMES)
    with pytest.raises(InvalidInput, match=r"a\.run: expected some that .* like 'Q1', got 'q1'"):
        score_files(path, {"Q1": ["a"]}, NAMES)
    with pytest.raises(InvalidInput, match="no_relevant"):
        score_files(path, QRELS, NAMES, no_relevant="drop")  # type: ignore[call-overload]


def test_qrels_from_a_file(tmp_path: Path) -> None:
    qrels: Any = {query: Relevance(grades) for query, grades in QRELS.items()}
    write_qrels(qrels, tmp_path / "qrels.txt")
    assert_same(
        score_files(write(tmp_path, LINES), tmp_path / "qrels.txt", NAMES), expected_scores()
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q1 0 a 3", "line 4: expected every judgement once, got 'q1 a'"),
        ("q1 0 e inf", "line 4: expected a grade, a finite number, got 'inf'"),
        ("q1 0 e", "line 4: expected 4 columns"),
        ("q1  0 e", "line 4: expected 4 columns"),
    ],
)
def test_a_judgement_that_cant_be_read(tmp_path: Path, line: str, message: str) -> None:
    qrels = tmp_path / "qrels.txt"
    rows = [f"{q}\t0\t{d}\t{grade}" for q, docs in QRELS.items() for d, grade in docs.items()]
    qrels.write_text("\r\n".join([*rows[:3], line, *rows[3:]]))
    with pytest.raises(FileFormatError) as raised:
        score_files(write(tmp_path, LINES), qrels, NAMES)
    assert message in str(raised.value)
    with pytest.warns(LinesSkipped):
        scores = score_files(write(tmp_path, LINES), qrels, NAMES, on_error="skip")
    assert_same(scores, expected_scores())


# What files in the wild have: comments, further columns, tabs, blank lines, repeated documents,
# lines that aren't UTF-8, numbers that only one of two parsers takes.
ODD_LINES = st.one_of(
    st.tuples(
        st.sampled_from(["q1", "q2", "q3", "#q", "\ufeffq1"]),
        st.sampled_from(["a", "b", "c", "d", "#x", "e\xa0f"]),
        st.sampled_from(["0", "4", "x", "1e3", "nan", "1_0"]),
        st.sampled_from(["1", "+2.5", "3.", ".5", "-0", "inf", "1e400", "nan", "0x1", "1_0", "é"]),
        st.sampled_from(["t", "s", "t 7", "t #", "t extra 1 2", ""]),
        st.sampled_from([" ", "\t", "  ", " \t", "\v", "\r"]),
        st.sampled_from(["\n", "\r\n", " \n", "\n\n"]),
    ).map(lambda fields: fields[5].join([fields[0], "Q0", *fields[1:5]]) + fields[6]),
    st.sampled_from(
        ["# a comment\n", "#\n", "# q1 Q0 a 1 2.0 t\n", " # q1 Q0 b 1 9.0 t\n", "##\n", "q1\n"]
    ),
    st.just("q1 Q0 \udcff 1 1.0 t\n"),
)


@pytest.mark.slow
@examples(150)
@given(lines=st.lists(ODD_LINES, max_size=12), size=st.sampled_from([1, 60, 1 << 20]))
def test_odd_files_are_read_alike_whole_and_as_a_stream(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], size: int
) -> None:
    path = tmp_path_factory.mktemp("odd") / "a.run"
    path.write_bytes("".join(lines).encode(errors="surrogateescape"))
    grades = {"a": 1, "b": 2, "c": 3, "d": 4, "#x": 5, "e\xa0f": 6}
    qrels = {"q1": grades, "q2": grades}
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        patch.setattr(blocks, "_BLOCK", size)
        run = read_run(path, on_error="skip")
        theirs = score_rankings(qrels, run, ["ndcg", "ap"], name=run.name)
        if run.keys() & qrels.keys() or not run:
            assert_same(score_files(path, qrels, ["ndcg", "ap"], on_error="skip"), theirs)
            messages = [str(warning.message) for warning in caught]
            assert len(set(messages)) <= 1, messages
            assert len(messages) == (2 if run.skipped else 0)
        if run.skipped:
            for read in (read_run, lambda path: score_files(path, qrels, ["ap"])):
                with pytest.raises(FileFormatError):
                    read(path)


ODD_QRELS = st.one_of(
    st.tuples(
        st.sampled_from(["q1", "q2", "#q"]),
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["1", "+2", "-1", "3.0", "x", "inf", "", "1 1"]),
        st.sampled_from([" ", "\t", "\t\t", " \t", "\r"]),
        st.sampled_from(["\n", "\r\n", " \n", "\n\n"]),
    ).map(lambda fields: fields[3].join([fields[0], "0", fields[1], fields[2]]) + fields[4]),
    st.sampled_from(["# a comment\n", "# of four 1\n", "#\n", " # by three 3\n"]),
)


@pytest.mark.slow
@examples(100)
@given(st.lists(ODD_QRELS, max_size=8), st.sampled_from([1, 20, 1 << 20]))
def test_odd_qrels_are_read_alike_whole_and_as_columns(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], size: int
) -> None:
    folder = tmp_path_factory.mktemp("odd")
    run = write(folder, ["q1 Q0 a 1 3 t", "q1 Q0 b 1 2 t", "q2 Q0 c 1 1 t"])
    path = folder / "qrels"
    path.write_text("q1 0 z 1\n" + "".join(lines), newline="")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(blocks, "_BLOCK", size)
        qrels = read_qrels(path, on_error="skip")
        assert set(qrels) <= {"q1", "q2"}
        theirs = score_rankings(qrels, read_run(run), ["ndcg", "ap"], name="t")
        assert_same(score_files(run, path, ["ndcg", "ap"], on_error="skip"), theirs)


def test_a_gzip_file_that_unpacks_to_much_more(tmp_path: Path) -> None:
    """Read as a stream: a bomb's only line is refused, and never held in memory."""
    bomb = tmp_path / "bomb.run.gz"
    with gzip.open(bomb, "wb", compresslevel=1) as file:
        file.write(b"q1 Q0 a 1 1.0 t\n" + b"x" * (LONGEST_LINE + (40 << 20)))
    with pytest.raises(FileFormatError, match="line 2: expected lines of at most 64 MiB"):
        score_files(bomb, QRELS, "mrr")
    with pytest.raises(FileFormatError, match="line 2: expected lines of at most 64 MiB"):
        read_run(bomb)


def test_a_mark_at_the_beginning_of_a_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only that of the file is left out: "\ufeffq1" isn't q1, for `read_run` either."""
    monkeypatch.setattr(blocks, "_BLOCK", 1)
    path = write(tmp_path, ["\ufeffq2 Q0 c 1 3 t", "\ufeffq1 Q0 a 1 2 t", "q1 Q0 b 2 1 t"])
    scored = score_files(path, QRELS, "mrr")
    assert_same(scored, score_rankings(QRELS, read_run(path), "mrr", name="t"))
    assert scored.excluded["\ufeffq1"] == "unjudged"


def test_leaks_with_groups_of_alternatives(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    columns = {"query_id": ["q"], "retrieved_ids": [["a", "b"]], "forbidden_ids": [["b"]]}
    pl.DataFrame(columns).write_parquet(path)
    # b, one of two, is forbidden; a or b is wanted
    assert score_files(path, {"q": [["a", "b"]]}, ["leak", "recall"]).means == {
        "leak": 0.5,
        "recall": 1.0,
    }
