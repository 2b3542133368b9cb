"""JSON, JSONL and CSV: our own, LlamaIndex's old classes, ragas; what can't be read."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llama_index_rag_metrics import (
    Relevance,
    RetrievalDataset,
    read_qrels,
    read_run,
    read_traces,
    score_rankings,
)
from llama_index_rag_metrics.rankings.span import Span
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput

OLD = {
    "queries": {"q1": "why?", "q2": "wo ist Köln?"},
    "corpus": {"d1": "because", "d2": "there"},
    "relevant_docs": {"q1": ["d1"], "q2": ["d2", "d1"]},
    "mode": "text",
}

IDS = st.text(min_size=1, max_size=8)
GRADES = st.floats(-4, 4, allow_nan=False) | st.integers(-2, 5)
RELEVANCE = (
    st.dictionaries(IDS, GRADES, max_size=4).map(Relevance)
    | st.lists(IDS, max_size=4).map(Relevance)
    | st.lists(st.lists(IDS, min_size=1, max_size=3), min_size=1, max_size=3).map(
        lambda groups: Relevance(groups=groups)
    )
)
PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
METADATA = st.dictionaries(st.text(max_size=5), PLAIN | st.lists(PLAIN, max_size=2), max_size=3)


@st.composite
def datasets(draw: st.DrawFn, relevance: st.SearchStrategy[Any] = RELEVANCE) -> RetrievalDataset:
    queries = draw(st.dictionaries(IDS, st.text(), max_size=5))
    corpus = draw(st.dictionaries(IDS, st.text(), max_size=5))

    def some(ids: dict[str, str], values: st.SearchStrategy[Any]) -> dict[str, Any]:
        return {item: draw(values) for item in ids if draw(st.booleans())}

    return RetrievalDataset(
        queries,
        some(queries, relevance),
        corpus,
        some(queries, METADATA),
        some(queries, st.lists(st.text(), max_size=2)),
        titles=some(corpus, st.text(max_size=5)),
        document_metadata=some(corpus, METADATA),
    )


ON_DISK = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.slow
@ON_DISK
@given(dataset=datasets(), ending=st.sampled_from([".json", ".json.gz"]))
def test_own_files_hold_everything(tmp_path: Path, dataset: RetrievalDataset, ending: str) -> None:
    path = tmp_path / f"dataset{ending}"
    dataset.save(path)
    again = RetrievalDataset.load(path)
    assert again == dataset
    assert list(again.queries) == list(dataset.queries)


def test_surrogate_half_survives(tmp_path: Path) -> None:
    dataset = RetrievalDataset({"q": "broken \ud83d text"}, corpus={"d": "\ude00"})
    dataset.save(tmp_path / "a.json")
    assert RetrievalDataset.load(tmp_path / "a.json") == dataset


def test_old_json_is_read(tmp_path: Path) -> None:
    path = tmp_path / "qa.json"
    path.write_text(json.dumps(OLD, indent=4))
    dataset = RetrievalDataset.load(path)
    assert dataset.queries == OLD["queries"]
    assert dataset.corpus == OLD["corpus"]
    assert dataset.relevant_docs == {"q1": ["d1"], "q2": ["d2", "d1"]}
    assert dataset.mode == "text"
    assert dataset.name == "qa"


def test_file_that_the_old_class_wrote_is_read(tmp_path: Path) -> None:
    legacy = pytest.importorskip("llama_index.core.llama_dataset.legacy.embedding")
    old = legacy.EmbeddingQAFinetuneDataset(**OLD)
    old.save_json(str(tmp_path / "old.json"))
    ours = RetrievalDataset.load(tmp_path / "old.json")
    assert ours == RetrievalDataset.load(old)


def test_jsonl_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text(
        '\ufeff{"_id": "q1", "query": "a?", "expected_ids": ["d1", 2]}\r\n'
        "\r\n"
        '{"id": "x", "question": "b?", "relevance": {"d1": 2},'
        ' "lang": "en", "metadata": {"n": 1}}\n'
        '{"qid": "q3", "query": "c?", "relevance": null}\n'
        '{"qid": "q4", "query": "d?", "relevance": [["a", "b"], ["c"]], "expected_texts": ["t"]}\n',
        "utf-8",
    )
    dataset = RetrievalDataset.load(path)
    assert dataset.queries == {"q1": "a?", "x": "b?", "q3": "c?", "q4": "d?"}
    assert dataset.relevance == {
        "q1": Relevance(["d1", "2"]),
        "x": Relevance({"d1": 2}),
        "q4": Relevance(groups=[["a", "b"], ["c"]]),
    }
    assert dataset.metadata == {"x": {"lang": "en", "n": 1}}
    assert dataset.expected_texts == {"q4": ["t"]}


ERRORS_IN_JSONL = [
    ('{"query": "a"}\n\n{"quer": "b"}', 3, "a question, one text, under `query`, `question`"),
    ('{"id": "a", "query": "a"}\n{"id": "a", "query": "b"}', 2, "every query id once"),
    ('{"query": "a", "relevance": {"d": "high"}}', 1, "groups of ids or facets"),
    ('{"query": "a", "relevance": {"d": 1, "d": 2}}', 1, "every key once, got 'd' again"),
    ('{"query": "a", "relevance": [["a"], []]}', 1, "groups of ids or facets"),
    ('{"query": "a", "relevance": [""]}', 1, "an id, a text that isn't empty"),
    ('{"query": "a", "expected_texts": [1]}', 1, "texts, got 'Expected `str`, got `int` - at `$["),
    ('{"query": ["a", "b"]}', 1, "a question, one text"),
    ('{"query": "a"}\n{"query" "b"}', 2, "JSON (Expecting ':' delimiter, column 10)"),
    ('["a"]', 1, "a record, {field: value}"),
]
ERRORS_IN_JSON = [
    ('{"queries": {\n"a": "x",\n"b": "y",\n"a": "z"}}', "", "every key once, got 'a' again"),
    ('{"queries": {"a": "x"\n"b": "y"}}', ", line 2", "JSON"),
    ('{"queries": {}, "relevance": {"a": []}}', "", "expected only ids of queries, got ['a']"),
    ('{"queries": {}, "corpus": [1]}', "", "corpus: expected a mapping from id to text"),
    ('{"queries": {}, "titels": {"a": "x"}}', "", "only the parts queries, relevance, corpus,"),
    ('{"examples": [{"query": "a"}, {}]}', ", record 2", "a record"),
]


@pytest.mark.parametrize(
    ("name", "text", "where", "expected"),
    [
        *(("a.jsonl", text, f", line {n}: expected ", said) for text, n, said in ERRORS_IN_JSONL),
        *(("a.json", text, f"{where}: ", said) for text, where, said in ERRORS_IN_JSON),
    ],
)
def test_errors(tmp_path: Path, name: str, text: str, where: str, expected: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(FileFormatError) as caught:
        RetrievalDataset.load(path)
    assert str(caught.value).startswith(f"{path}{where}")
    assert expected in str(caught.value)


@pytest.mark.parametrize("number", ["[" * 100_000, '{"d": ' * 50_000, "1" * 5000])
@pytest.mark.parametrize("ending", [".json", ".jsonl"])
@pytest.mark.parametrize("read", [read_run, read_qrels, RetrievalDataset.load])
def test_brackets_and_digits_that_python_doesnt_take(
    tmp_path: Path, number: str, ending: str, read: Callable[[Path], Any]
) -> None:
    path = tmp_path / f"file{ending}"
    path.write_text(f'{{"query_id": "q", "query": {number}')
    with pytest.raises(FileFormatError, match=r"expected JSON \(.*(recursion|digits)"):
        read(path)


LABELLED = {
    "examples": [
        {
            "query_id": "q1",
            "query": "why?",
            "query_by": {"model_name": "m", "type": "ai"},
            "reference_contexts": ["because", "since"],
            "reference_answer": "so",
            "reference_answer_by": None,
        },
        {"query_id": "q2", "query": "who?", "reference_contexts": None, "reference_answer": ""},
    ]
}


def test_labelled_rag_json(tmp_path: Path) -> None:
    (tmp_path / "rag.json").write_text(json.dumps(LABELLED, indent=4))
    dataset = RetrievalDataset.load(tmp_path / "rag.json")
    assert dataset.queries == {"q1": "why?", "q2": "who?"}
    assert dataset.expected_texts == {"q1": ["because", "since"]}
    assert dataset.metadata["q1"]["reference_answer"] == "so"
    assert dataset.metadata["q1"]["query_by"] == {"model_name": "m", "type": "ai"}
    assert dataset.check() == ["1 of 2 questions have no labels: 'q2'"]
    assert RetrievalDataset.load(LABELLED) == dataset


def test_labelled_rag_class(tmp_path: Path) -> None:
    rag = pytest.importorskip("llama_index.core.llama_dataset.rag")
    examples = [rag.LabelledRagDataExample(**example) for example in LABELLED["examples"]]  # type: ignore[arg-type]
    old = rag.LabelledRagDataset(examples=examples)
    old.save_json(str(tmp_path / "rag.json"))
    dataset = RetrievalDataset.load(old)
    assert list(dataset.expected_texts.values()) == [["because", "since"]]
    assert RetrievalDataset.load(tmp_path / "rag.json").queries == dataset.queries


RAGAS = {
    "0.0": {"question": "why?", "ground_truth_context": ["c1", "c2"], "question_type": "simple"},
    "0.2": {"user_input": "why?", "reference_contexts": ["c1", "c2"], "synthesizer_name": "s"},
}


@pytest.mark.parametrize("version", RAGAS)
@pytest.mark.parametrize("form", ["records.json", "lines.jsonl", "table.csv"])
def test_ragas_test_sets_of_every_version(tmp_path: Path, version: str, form: str) -> None:
    row = RAGAS[version]
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame([row, {**row, next(iter(row)): "who?"}])
    path = tmp_path / form
    if form == "table.csv":
        listed = list(row)[1]
        frame.assign(**{listed: frame[listed].map(json.dumps)}).to_csv(path)
    else:
        frame.to_json(path, orient="records", lines=form.endswith("l"))
    dataset = RetrievalDataset.load(path)
    assert list(dataset.queries.values()) == ["why?", "who?"]
    assert list(dataset.expected_texts.values()) == [["c1", "c2"], ["c1", "c2"]]
    assert [list(row.values()) for row in dataset.metadata.values()] == 2 * [
        [list(row.values())[-1]]
    ]
    assert RetrievalDataset.load(frame) == dataset


def test_csv_with_long_cells_brackets_and_too_many_cells(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    long = "x" * 200_000
    path.write_text(f"id,user_input,reference_contexts\nq1,why?,{long}\nq2,who?,[1] a footnote\n")
    assert RetrievalDataset.load(path).expected_texts == {"q1": [long], "q2": ["[1] a footnote"]}
    path.write_text("user_input,reference_contexts\nwhy?,a,b\n")
    with pytest.raises(FileFormatError, match=r"line 2: expected 2 cells, got \['b'\]"):
        RetrievalDataset.load(path)


@pytest.mark.parametrize(
    ("name", "text"), [("a.json", '{"something": 1}'), ("a.json", "17"), ("a.txt", "hello")]
)
def test_file_that_isnt_a_dataset_is_told_what_it_is(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(FileFormatError) as caught:
        RetrievalDataset.load(tmp_path / name)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / name} isn't a dataset: ")
    for form in ("BEIR", "EmbeddingQAFinetuneDataset", "JSONL"):
        assert form in message
    (tmp_path / name).unlink()
    with pytest.raises(FileFormatError, match="the folder holds no queries"):
        RetrievalDataset.load(tmp_path)


def test_unknown_ending_and_values_json_cant_hold_leave_the_old_file(tmp_path: Path) -> None:
    RetrievalDataset({"old": "?"}).save(tmp_path / "a.json")
    dataset = RetrievalDataset({"q": "?"}, metadata={"q": {"when": object()}})
    with pytest.raises(InvalidInput, match=r"ends in \.json"):
        dataset.save(tmp_path / "a.parquet")
    with pytest.raises(InvalidInput, match="values that JSON can hold"):
        dataset.save(tmp_path / "a.json")
    assert list(RetrievalDataset.load(tmp_path / "a.json").queries) == ["old"]


def test_places_beside_questions(tmp_path: Path) -> None:
    path = tmp_path / "dev.jsonl"
    place = {"source": "moons", "start": 0, "end": 9}
    row = {"query_id": "q1", "query": "Which?", "expected_spans": [place, {**place, "start": 4}]}
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    spans = RetrievalDataset.load(path).relevance["q1"].spans or {}
    assert list(spans.values()) == [Span("moons", 0, 9), Span("moons", 4, 9)]
    path.write_text(json.dumps({**row, "expected_spans": [[1]]}) + "\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"expected spans, {source, start, end} each"):
        RetrievalDataset.load(path)


READERS: list[Callable[[Path], object]] = [RetrievalDataset.load, read_run, read_qrels, read_traces]


@pytest.mark.parametrize("ending", ["json", "jsonl", "csv", "tsv", "parquet", "trec", "x"])
def test_file_that_isnt_there(tmp_path: Path, ending: str) -> None:
    for read in READERS:
        with pytest.raises(FileNotFoundError, match="absent"):
            read(tmp_path / f"absent.{ending}")


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "csv", "txt"])
@pytest.mark.parametrize("content", ["", "\n\n"])
def test_empty_file(tmp_path: Path, ending: str, content: str) -> None:
    path = tmp_path / f"empty.{ending}"
    raw = content.encode()
    path.write_bytes(gzip.compress(raw) if ending.endswith("gz") else raw)
    with pytest.raises(FileFormatError) as caught:
        RetrievalDataset.load(path)
    assert '{"query": "Why?", "ex' in str(caught.value)


@pytest.mark.parametrize("corpus", [5, [5], ["a text"]])
def test_value_that_is_no_corpus(corpus: Any) -> None:
    frame = pytest.importorskip("pandas", reason="the extra pandas").DataFrame({"query": ["why?"]})
    with pytest.raises(InvalidInput, match=r"corpus: expected {document id: text}, a data frame"):
        RetrievalDataset.load(frame, corpus=corpus)


PAIRS = [("d1", 2), ("d2", 0.5)]
READERS_OF_PAIRS: list[Callable[[Any], object]] = [
    Relevance,
    lambda pairs: RetrievalDataset({"q1": "why?"}, {"q1": pairs}),
    lambda pairs: RetrievalDataset.load([{"query": "why?", "expected_ids": pairs}]),
    lambda pairs: RetrievalDataset.load({"queries": {"q1": "why?"}, "relevance": {"q1": pairs}}),
    lambda pairs: read_qrels({"q1": pairs}),
    lambda pairs: score_rankings([pairs], [["d1"]], ["mrr"]),
]


@pytest.mark.parametrize("label", READERS_OF_PAIRS)
@pytest.mark.parametrize("pairs", [PAIRS, PAIRS[:1], [list(pair) for pair in PAIRS]])
def test_grades_in_pairs(label: Callable[[Any], object], pairs: Any) -> None:
    with pytest.raises((InvalidInput, FileFormatError), match=r"Write grades as {'d1': 2"):
        label(pairs)


def test_pairs_elsewhere() -> None:
    with pytest.raises(InvalidInput, match=r"such as {'q1': \['d1'\]}"):
        RetrievalDataset({"q1": "why?"}, [("q1", "d1")])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"such as {'q1': 'Why\?'}"):
        RetrievalDataset([("q1", "why?")])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"grades are written as {id: grade}"):
        RetrievalDataset({"q1": "why?"}, {"q1": ("d1", 2)})  # type: ignore[dict-item]
    with pytest.raises(FileFormatError, match=r'such as {"query": "Why\?", "expected_ids"'):
        RetrievalDataset.load([("why?", "d1")])
    with pytest.raises(FileFormatError, match=r'such as {"query": "Why\?", "expected_ids"'):
        read_qrels([("q1", "d1", 1)])
    with pytest.raises(FileFormatError, match=r"an id, a text that isn't empty, got \('d1', 1.5\)"):
        read_run({"q1": [("d1", 1.5)]})


def test_goldens_of_deepeval_whose_texts_were_joined(tmp_path: Path) -> None:
    columns = {"question": "input", "expected_texts": "context"}
    golden = {"input": "How?", "context": ["a", "b"], "custom_column_key_values": None}
    path = tmp_path / "goldens.json"
    path.write_text(json.dumps([golden]))
    assert [*RetrievalDataset.load(path, columns=columns).expected_texts.values()] == [["a", "b"]]
    path = tmp_path / "goldens.jsonl"
    path.write_text(json.dumps({**golden, "context": "a|b"}))
    with pytest.raises(FileFormatError, match=r"as DeepEval's save_as\('json', …\) keeps it"):
        RetrievalDataset.load(path, columns=columns)
