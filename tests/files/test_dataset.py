"""RetrievalDataset: what it accepts, what it refuses, what it becomes; conversations."""

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

from llama_index_rag_metrics import RetrievalDataset
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.runtime.errors import FileFormatError, InvalidInput

PLAIN = [
    {"role": "user", "content": "Which moon has geysers?"},
    {"role": "assistant", "content": "Enceladus."},
]


@pytest.fixture
def dataset() -> RetrievalDataset:
    return RetrievalDataset(
        queries={"q1": "geysers?", "q2": "first?", "q3": "none?", "q4": "by text?"},
        relevance={"q1": {"d1": 2, "d9": 1}, "q2": ["d2"], "q3": []},
        corpus={"d1": "has geysers", "d2": "was first", "d3": " "},
        metadata={"q1": {"lang": "en", "n": 1}, "q2": {"conversation": "a", "history": PLAIN}},
        expected_texts={"q4": ["text"]},
        titles={"d1": "Enceladus"},
        document_metadata={"d1": {"url": "u"}},
        name="moons",
    )


@pytest.mark.parametrize(
    ("parts", "wording"),
    [
        ({"queries": {1: "?"}}, "queries: expected ids that are texts and not empty, got 1"),
        ({"queries": {"": "?"}}, "queries: expected ids that are texts and not empty, got ''"),
        ({"queries": ["?"]}, "queries: expected a mapping from id to text"),
        ({"queries": {"q": None}}, "queries['q']: expected a mapping from id to text, such as"),
        ({"corpus": {"d": 1}}, "corpus['d']: expected a mapping from id to text, such as"),
        ({"relevance": {"x": ["d"]}}, "relevance: expected only ids of queries, got ['x']"),
        ({"relevance": {"q": [1]}}, "relevance['q']: expected ids that are texts"),
        ({"relevance": {"q": "d"}}, "relevance['q']: expected a list of ids or a mapping from"),
        ({"relevance": {"q": {"d": "3"}}}, "relevance['q'], grade of 'd': expected a finite"),
        ({"relevance": [["d"]]}, "relevance: expected a mapping from query id to relevant ids"),
        ({"metadata": ["a"]}, "metadata: expected a mapping from id to {key: value}, got ['a']"),
        (
            {"metadata": {"q": "a"}},
            "metadata['q']: expected a mapping from id to {key: value}, got 'a'",
        ),
        ({"expected_texts": ["a"]}, "expected_texts: expected a mapping from query id to a list"),
        ({"titles": {"d": 1}}, "titles['d']: expected a mapping from id to text"),
        ({"titles": ["a"]}, "titles: expected a mapping from id to text, such as"),
        ({"metadata": {"x": {"a": 1}}}, "metadata: expected only ids of queries, got ['x']"),
        ({"expected_texts": {"x": []}}, "expected_texts: expected only ids of queries"),
        ({"expected_texts": {"q": "text"}}, "expected_texts['q']: expected a mapping from query"),
        ({"titles": {"d": "T"}}, "titles: expected only ids of corpus, got ['d']"),
    ],
)
def test_contents_that_cant_be_are_refused(parts: dict[str, Any], wording: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        RetrievalDataset(**{"queries": {"q": "?"}, **parts})
    assert wording in str(caught.value)


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


def test_nodes_keep_ids_and_index_title_and_text(dataset: RetrievalDataset) -> None:
    made = dataset.to_nodes()
    assert [node.node_id for node in made] == ["d1", "d2", "d3"]
    for mode in ("embed", "llm"):
        assert made[0].get_content(metadata_mode=mode) == "Enceladus\nhas geysers"  # type: ignore[arg-type]
    assert made[0].metadata == {"url": "u"}
    assert made[1].get_content() == "was first"
    made[0].metadata["url"] = "changed"
    assert dataset.document_metadata["d1"] == {"url": "u"}


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


def test_datasets_are_made_of_dicts_lists_paths(dataset: RetrievalDataset, tmp_path: Path) -> None:
    assert RetrievalDataset.load(dataset) is dataset
    dataset.save(tmp_path / "moons.json")
    assert RetrievalDataset.load(tmp_path / "moons.json") == dataset
    assert RetrievalDataset.load(str(tmp_path / "moons.json")).name == "moons"
    graded = {"queries": {"q": "?"}, "relevance": {"q": Relevance({"d": 3})}}
    assert RetrievalDataset.load({**graded, "corpus": {}}).relevance["q"].grades["d"] == 3
    assert RetrievalDataset.load([{"id": "q1", "query": "a?"}]).queries == {"q1": "a?"}


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
    corpus = pd.DataFrame({"doc_id": ["d1", "d2"], "contents": ["one", "two"]})
    corpus["title"] = ["T", None]
    dataset = RetrievalDataset.load(frame, corpus=corpus, name="autorag")
    assert dataset.relevance == {
        "1": Relevance(groups=[["d1", "d2"]]),
        "2": Relevance(groups=[["d3"], ["d4"]]),
    }
    assert dataset.metadata == {"1": {"year": 1957}}
    assert dataset.corpus == {"d1": "one", "d2": "two"}
    assert dataset.titles == {"d1": "T"}
    assert dataset.name == "autorag"


def test_repr_counts(dataset: RetrievalDataset) -> None:
    assert repr(dataset) == "<RetrievalDataset moons: 4 questions, labelled (3 labels), 3 passages>"
    text = repr(RetrievalDataset({"q": "?"}))
    assert text == "<RetrievalDataset: 1 question, 0 of them labelled>"
    assert len(dataset) == 4


def test_copies_and_pickles_are_equal(dataset: RetrievalDataset) -> None:
    for again in (pickle.loads(pickle.dumps(dataset)), copy.deepcopy(dataset)):
        assert again == dataset
        assert again.relevance["q1"].grades == {"d1": 2.0, "d9": 1.0}
        assert again.name == "moons"
    assert dataset != RetrievalDataset(dataset.queries)


def test_history_has_roles_and_contents() -> None:
    history = [{**PLAIN[0], "name": "Ann"}, PLAIN[1]]
    dataset = RetrievalDataset({"q": "Who found it?"}, metadata={"q": {"history": history}})
    assert dataset.metadata == {"q": {"history": PLAIN}}


@pytest.mark.parametrize(
    "history",
    ["Hello", 3, ["Hello"], [{"role": "cat", "content": "?"}], [{"role": "user"}], {"a": 1}],
)
def test_value_that_is_no_history_is_refused(history: Any) -> None:
    with pytest.raises(InvalidInput, match=r"history of 'q': expected earlier messages"):
        RetrievalDataset({"q": "?"}, metadata={"q": {"history": history}})
    with pytest.raises(FileFormatError, match=r"history of 'q-.*: expected earlier messages"):
        RetrievalDataset.load([{"query": "?", "expected_ids": ["d"], "history": history}])


@pytest.mark.parametrize("conversation", [["c"], "", float("nan")])
def test_value_that_is_no_conversation_is_refused(conversation: Any) -> None:
    with pytest.raises(InvalidInput, match=r"conversation of 'q': expected the id of a conv"):
        RetrievalDataset({"q": "Who?"}, metadata={"q": {"conversation": conversation}})


def test_metadata_may_lack_a_conversation_and_have_a_turn_alone() -> None:
    rows: dict[str, dict[str, Any]] = {
        "a": {"conversation": 0, "turn": None},
        "b": {"conversation": None, "history": None, "turn": "left"},
    }
    assert RetrievalDataset({"a": "?", "b": "?"}, metadata=rows).metadata == rows
