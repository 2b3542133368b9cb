"""RetrievalDataset: what it accepts, what it refuses, and what it becomes."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput


@pytest.fixture
def dataset() -> RetrievalDataset:
    return RetrievalDataset(
        queries={"q1": "geysers?", "q2": "first?", "q3": "none?", "q4": "by text?"},
        relevance={"q1": {"d1": 2, "d9": 1}, "q2": ["d2"], "q3": [], "q4": None},
        corpus={"d1": "has geysers", "d2": "was first", "d3": " "},
        metadata={"q1": {"lang": "en", "n": 1}, "q2": {"lang": "de"}},
        expected_texts={"q4": ["text"]},
        titles={"d1": "Enceladus"},
        document_metadata={"d1": {"url": "u"}},
        name="moons",
    )


def test_relevance_in_every_form_becomes_relevance() -> None:
    forms: dict[str, Any] = {"a": ["d"], "b": {"d": 0.5}, "c": [["d", "e"]], "d": Relevance(["d"])}
    relevance = RetrievalDataset(dict.fromkeys(forms, "?"), forms).relevance
    assert relevance == {
        "a": Relevance(["d"]),
        "b": Relevance({"d": 0.5}),
        "c": Relevance(groups=[["d", "e"]]),
        "d": Relevance(["d"]),
    }
    assert relevance["c"].alternatives == (("d", "e"),)


@pytest.mark.parametrize(
    ("parts", "wording"),
    [
        ({"queries": {1: "?"}}, "queries: expected ids that are texts and not empty, got 1"),
        ({"queries": {"": "?"}}, "queries: expected ids that are texts and not empty, got ''"),
        ({"queries": ["?"]}, "queries: expected a mapping from id to text"),
        ({"queries": {"q": None}}, "queries['q']: expected a text, got None"),
        ({"corpus": {"d": 1}}, "corpus['d']: expected a text, got 1"),
        ({"relevance": {"x": ["d"]}}, "relevance: expected only ids of queries, got ['x']"),
        ({"relevance": {"q": [1]}}, "relevance['q']: expected ids that are texts"),
        ({"relevance": {"q": "d"}}, "relevance['q']: expected a list of ids or a mapping from"),
        ({"relevance": {"q": {"d": "3"}}}, "relevance['q'], grade of 'd': expected a finite"),
        ({"relevance": [["d"]]}, "relevance: expected a mapping from query id to relevant ids"),
        ({"metadata": ["a"]}, "metadata: expected a mapping from id to metadata"),
        ({"metadata": {"q": "a"}}, "metadata['q']: expected a mapping from key to value, got 'a'"),
        ({"expected_texts": ["a"]}, "expected_texts: expected a mapping from query id to texts"),
        ({"titles": {"d": 1}}, "titles['d']: expected a text, got 1"),
        ({"titles": ["a"]}, "titles: expected a mapping from id to text, such as"),
        ({"metadata": {"x": {"a": 1}}}, "metadata: expected only ids of queries, got ['x']"),
        ({"expected_texts": {"x": []}}, "expected_texts: expected only ids of queries"),
        ({"expected_texts": {"q": "text"}}, "expected_texts['q']: expected a list of texts"),
        ({"titles": {"d": "T"}}, "titles: expected only ids of corpus, got ['d']"),
    ],
)
def test_what_cant_be_is_refused(parts: dict[str, Any], wording: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        RetrievalDataset(**{"queries": {"q": "?"}, **parts})
    assert wording in str(caught.value)


def test_lists_that_a_frame_holds_as_text(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas", reason="the extra pandas")
    path = tmp_path / "questions.csv"
    path.write_text(
        "query_id,query,expected_ids,expected_texts\n"
        "q1,[why]?,d1,one\n"
        """q2,how?,"[""d1"", ""d2""]","[""one"", ""two""]"\n"""
        """q3,who?,"{""d1"": 2}",[1] is a note\n"""
    )
    from_frame = RetrievalDataset.load(pd.read_csv(path))
    assert from_frame.relevance["q1"] == Relevance(["d1"])
    assert from_frame.relevance["q2"] == Relevance(["d1", "d2"])
    assert from_frame.relevance["q3"] == Relevance({"d1": 2})
    assert from_frame.expected_texts == {
        "q1": ["one"],
        "q2": ["one", "two"],
        "q3": ["[1] is a note"],
    }
    assert from_frame.queries["q1"] == "[why]?"
    assert from_frame == RetrievalDataset.load(path, name=from_frame.name)
    assert from_frame == RetrievalDataset.load(pd.read_csv(path))


def test_check_names_what_deserves_a_look(dataset: RetrievalDataset) -> None:
    dataset.queries["q5"] = " "
    dataset.notes.append("made by hand")
    assert dataset.check() == [
        "made by hand",
        "1 of 5 questions have no labels: 'q5'",
        "1 of 5 questions have nothing relevant: 'q3'",
        "1 of 3 labelled ids aren't in the corpus: 'd9'",
        "1 of 5 questions have no text: 'q5'",
        "1 of 3 passages have no text: 'd3'",
    ]
    assert RetrievalDataset({"q": "?"}, {"q": ["d"]}).check() == []


def test_nodes_and_documents_keep_ids_and_index_title_and_text(dataset: RetrievalDataset) -> None:
    for made in (dataset.to_nodes(), dataset.to_documents()):
        assert [document.node_id for document in made] == ["d1", "d2", "d3"]
        assert made[0].get_content(metadata_mode="embed") == "Enceladus\nhas geysers"  # type: ignore[arg-type]
        assert made[0].get_content(metadata_mode="llm") == "Enceladus\nhas geysers"  # type: ignore[arg-type]
        assert made[0].metadata == {"url": "u"}
        assert made[1].get_content() == "was first"
    made[0].metadata["url"] = "changed"
    assert dataset.document_metadata["d1"] == {"url": "u"}


def test_fingerprint_is_of_what_retrieval_depends_on(dataset: RetrievalDataset) -> None:
    same = dataset.fingerprint()
    backwards = RetrievalDataset(
        dict(reversed(dataset.queries.items())),
        corpus=dict(reversed(dataset.corpus.items())),
        titles=dataset.titles,
        name="other",
    )
    assert backwards.fingerprint() == same
    changed = [
        {"queries": {**dataset.queries, "q1": "geysers!"}},
        {"corpus": {**dataset.corpus, "d2": "was second"}},
        {"titles": {}},
    ]
    for part in changed:
        assert RetrievalDataset(**{**vars(dataset), **part}).fingerprint() != same  # type: ignore[dict-item]
    # the same characters, cut apart elsewhere
    assert (
        RetrievalDataset({"a": "bc"}).fingerprint() != RetrievalDataset({"ab": "c"}).fingerprint()
    )


def test_select_keeps_what_belongs_to_the_queries(dataset: RetrievalDataset) -> None:
    some = dataset.select(["q4", "q1"])
    assert list(some.queries) == ["q4", "q1"]
    assert some.relevance == {"q1": Relevance({"d1": 2, "d9": 1})}
    assert some.metadata == {"q1": {"lang": "en", "n": 1}}
    assert some.expected_texts == {"q4": ["text"]}
    assert some.corpus == dataset.corpus
    assert some.name == "moons"
    with pytest.raises(InvalidInput, match=r"query_ids: expected only ids of queries, got \['x'\]"):
        dataset.select(["q1", "x"])


def test_split_parts_the_queries_the_same_way_every_time() -> None:
    dataset = RetrievalDataset({f"q{n}": "?" for n in range(10)})
    train, test = dataset.split(0.3, seed=1)
    assert (len(train), len(test)) == (3, 7)
    assert sorted([*train.queries, *test.queries]) == sorted(dataset.queries)
    assert dataset.split(0.3, seed=1) == (train, test)
    assert dataset.split(0.3, seed=2) != (train, test)
    assert len(dataset.split(1)[1]) == 0
    with pytest.raises(InvalidInput, match="from 0 to 1"):
        dataset.split(1.5)


def test_of_takes_datasets_dicts_lists_and_paths(dataset: RetrievalDataset, tmp_path: Path) -> None:
    assert RetrievalDataset.load(dataset) is dataset
    dataset.save(tmp_path / "moons.json")
    assert RetrievalDataset.load(tmp_path / "moons.json") == dataset
    assert RetrievalDataset.load(str(tmp_path / "moons.json")).name == "moons"
    graded = {"queries": {"q": "?"}, "relevance": {"q": Relevance({"d": 3}), "r": None}}
    assert RetrievalDataset.load({**graded, "corpus": {}}).relevance["q"].grades["d"] == 3
    assert RetrievalDataset.load([{"id": "q1", "query": "a?"}]).queries == {"q1": "a?"}


def test_of_takes_objects_by_their_attributes() -> None:
    old = SimpleNamespace(queries={"q": "?"}, corpus={"d": "t"}, relevant_docs={"q": ["d"]})
    assert RetrievalDataset.load(old) == RetrievalDataset({"q": "?"}, {"q": ["d"]}, {"d": "t"})
    example = SimpleNamespace(
        model_dump=lambda: {"query_id": "q1", "query": "?", "reference_contexts": ["c"]}
    )
    labelled = SimpleNamespace(examples=[example])
    assert RetrievalDataset.load(labelled).expected_texts == {"q1": ["c"]}
    with pytest.raises(FileFormatError, match=r"this int isn't a dataset.*a data frame"):
        RetrievalDataset.load(3)


def test_pandas_with_numpy_values_and_other_names() -> None:
    pd = pytest.importorskip("pandas")
    np = pytest.importorskip("numpy")
    frame = pd.DataFrame(
        {
            "qid": np.array([1, 2]),
            "query": ["a?", "b?"],
            "retrieval_gt": [np.array([["d1", "d2"]]), np.array([["d3"], ["d4"]])],
            "year": pd.array([1957, None], dtype="Int64"),
        }
    )
    corpus = pd.DataFrame(
        {"doc_id": ["d1", "d2"], "contents": ["one", "two"], "title": ["T", None]}
    )
    dataset = RetrievalDataset.load(frame, corpus=corpus, name="autorag")
    assert dataset.relevance == {
        "1": Relevance(groups=[["d1", "d2"]]),
        "2": Relevance(groups=[["d3"], ["d4"]]),
    }
    assert dataset.metadata == {"1": {"year": 1957}}
    assert dataset.corpus == {"d1": "one", "d2": "two"}
    assert dataset.titles == {"d1": "T"}
    assert dataset.name == "autorag"


def test_what_converts_itself_to_pandas_is_taken() -> None:
    pd = pytest.importorskip("pandas")
    testset = SimpleNamespace(
        samples=[],
        to_pandas=lambda: pd.DataFrame([{"id": "q1", "query": "?", "expected_texts": ["c"]}]),
    )
    assert RetrievalDataset.load(testset).expected_texts == {"q1": ["c"]}


def test_repr_counts(dataset: RetrievalDataset) -> None:
    assert repr(dataset) == "<RetrievalDataset moons: 4 questions, labelled (3 labels), 3 passages>"
    assert (
        repr(RetrievalDataset({"q": "?"})) == "<RetrievalDataset: 1 question, 0 of them labelled>"
    )
    assert len(dataset) == 4


def test_copies_and_pickles_are_equal(dataset: RetrievalDataset) -> None:
    for again in (pickle.loads(pickle.dumps(dataset)), copy.deepcopy(dataset)):
        assert again == dataset
        assert again.relevance["q1"].grades == {"d1": 2.0, "d9": 1.0}
        assert again.name == "moons"
    assert dataset != RetrievalDataset(dataset.queries)
