"""The evaluator with a matcher: where expected texts come from, what is kept, what goes wrong."""

import warnings
from collections.abc import Sequence

import pytest
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from support.retrievers import Scripted

from llama_index_rag_metrics import RetrievalDataset, evaluate
from llama_index_rag_metrics.rankings.matching.id_matcher import LabelCheck
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning

IO = "Io is covered with volcanoes that are fed by the tides of Jupiter."
TITAN = "Titan has rivers and lakes of liquid methane under an orange haze."
RHEA = "Rhea is an icy body with a tenuous atmosphere of oxygen."
CHINESE = "土卫二的南极附近有长长的裂缝，不断向太空喷出水汽和冰粒。"
THAI = "ดวงจันทร์เอนเซลาดัสมีรอยแยกยาวใกล้ขั้วใต้ซึ่งพ่นไอน้ำและน้ำแข็งออกสู่อวกาศ"


def chunk(node_id: str, text: str) -> NodeWithScore:
    return NodeWithScore(node=TextNode(id_=node_id, text=text), score=1.0)


SCRIPT = {
    "methane?": [chunk("c1", RHEA), chunk("c2", f"Moons. {TITAN} {IO}"), chunk("c3", TITAN)],
    "水汽?": [chunk("c4", f"卫星简介。{CHINESE}其他内容。"), chunk("c1", RHEA)],
    "น้ำแข็ง?": [chunk("c1", RHEA), chunk("c5", THAI[:50])],
}
QUERIES = {"q1": "methane?", "q2": "水汽?", "q3": "น้ำแข็ง?"}


@pytest.fixture
def by_text() -> RetrievalDataset:
    return RetrievalDataset(
        queries=QUERIES, expected_texts={"q1": [TITAN, IO], "q2": [CHINESE], "q3": [THAI]}
    )


@pytest.fixture
def by_corpus() -> RetrievalDataset:
    return RetrievalDataset(
        queries=QUERIES,
        relevance={"q1": {"io": 1, "titan": 2, "rhea": 0}, "q2": ["south"], "q3": ["thai"]},
        corpus={"io": IO, "titan": TITAN, "rhea": RHEA, "south": CHINESE, "thai": THAI},
    )


def test_expected_texts_alone(by_text: RetrievalDataset) -> None:
    results = evaluate(Scripted(SCRIPT), by_text, ["mrr", "recall@2", "precision"], matcher="text")
    # q1: c1, Titan, Io, and c3 repeats; q2: South, c1; q3: c1, Thai
    assert results.scores.by_query("mrr") == {"q1": 0.5, "q2": 1, "q3": 0.5}
    assert results.scores.by_query("recall@2") == {"q1": 0.5, "q2": 1, "q3": 1}
    precision = results.scores.by_query("precision")
    assert precision == pytest.approx({"q1": 2 / 3, "q2": 0.5, "q3": 0.5})
    assert results.scores.excluded == {}
    assert results.scores.counts.unjudged == 0


def test_corpus_gives_the_texts_of_relevant_ids(by_corpus: RetrievalDataset) -> None:
    results = evaluate(Scripted(SCRIPT), by_corpus, ["recall", "judged", "mrr"], matcher="text")
    matched = results.scores.retrieval.matched["mrr"]  # type: ignore[union-attr]
    # best grade first; rhea is judged, with grade 0
    assert matched.stands_for["q1"] == [["rhea"], ["titan", "io"], ["titan"]]
    assert list(matched.run["q1"].ids) == ["rhea", "titan", "io", "titan"]
    assert matched.relevance["q1"].grades == {"io": 1, "titan": 2, "rhea": 0}
    assert results.scores.by_query("judged") == {"q1": 1, "q2": 0.5, "q3": 0.5}
    assert results.scores.by_query("mrr") == {"q1": 0.5, "q2": 1, "q3": 0.5}


def test_texts_alone_are_matched_by_text_and_a_warning_says_so(by_text: RetrievalDataset) -> None:
    with pytest.warns(UserWarning, match="Match by text: matcher='text'"):
        evaluate(lambda query: ["d1"], by_text, ["recall"])


def test_corpus_without_any_text_is_an_error_before_anything_is_asked() -> None:
    retriever = Scripted(SCRIPT)
    dataset = RetrievalDataset(queries=QUERIES, relevance={"q1": ["d1"], "q2": ["d2"]})
    with pytest.raises(InvalidInput, match="Give them as RetrievalDataset"):
        evaluate(retriever, dataset, ["mrr"], matcher="text")
    assert retriever.asked == []


def test_expected_ids_without_a_text_are_counted() -> None:
    dataset = RetrievalDataset(
        queries={"q1": "methane?"}, relevance={"q1": ["titan", "lost"]}, corpus={"titan": TITAN}
    )
    results = evaluate(Scripted(SCRIPT), dataset, ["recall"], matcher="text")
    assert results.scores.means["recall"] == 0.5
    assert results.scores.notes[:1] == (
        "1 of 2 relevant passages have no text, so text can't find them",
    )


def test_texts_that_match_nothing_are_reported() -> None:
    dataset = RetrievalDataset(
        queries={"q1": "methane?"}, expected_texts={"q1": ["Mars is red and rather cold."]}
    )
    with pytest.warns(LabelWarning, match="text finds no labelled passage in what was retrieved"):
        results = evaluate(Scripted(SCRIPT), dataset, ["recall"], matcher="text")
    assert results.scores.means["recall"] == 0


def fails(expected: Sequence[str], retrieved: Sequence[str]) -> list[list[bool]]:
    """Takes all for the first, and fails on Chinese."""
    if CHINESE in expected:
        raise ConnectionError("the server is gone")
    return [[column == 0 for column in range(len(expected))] for _ in retrieved]


def test_matcher_that_fails_loses_the_values_of_that_query(by_text: RetrievalDataset) -> None:
    results = evaluate(Scripted(SCRIPT), by_text, ["mrr"], matcher=fails)
    assert results.scores.by_query("mrr") == {"q1": 1, "q3": 1}
    matched = results.scores.retrieval.matched["mrr"]  # type: ignore[union-attr]
    assert matched.errors == {"q2": "ConnectionError: the server is gone"}
    assert results.scores.counts.queries == 3
    assert results.scores.counts.empty == 0
    assert any("fails failed on 1 of " in note for note in results.scores.notes)
    assert "mrr" not in results[1].metric_dict


def test_depth_of_the_retriever_is_that_of_what_it_retrieved() -> None:
    # three chunks cover one passage, and are judged as a ranking of one
    script = {"methane?": [chunk(f"c{number}", f"{number} {TITAN}") for number in range(3)]}
    dataset = RetrievalDataset({"q": "methane?"}, expected_texts={"q": [TITAN]})
    assert evaluate(Scripted(script), dataset, ["mrr@3"], matcher="text").scores.notes == ()
    (note,) = evaluate(Scripted(script), dataset, ["mrr@5"], matcher="text").scores.notes
    assert "got at most 3 passages" in note


PASSAGES = {
    f"old-{n}": f"Passage {n} tells of the {n * n}th voyage and what it found." for n in range(6)
}
VOYAGES = RetrievalDataset(
    {f"q{n}": f"Which voyage was number {n * n}?" for n in range(6)},
    # old-1 is expected twice, and its grade 0 elsewhere is no expectation
    {f"q{n}": {f"old-{n}": 2, "old-1": 1 if n == 3 else 0} for n in range(6) if n != 1}
    | {"q1": ["old-1", "gone"]},
    PASSAGES,
)


class Reingested(BaseRetriever):
    """Finds all passages but two, under the ids of a second ingestion."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        texts = [text for text in PASSAGES.values() if "Passage 4" not in text]
        return [NodeWithScore(node=TextNode(text=text), score=1.0) for text in texts]


def test_warning_on_documents_ingested_again_names_the_cure() -> None:
    # q0, q2, q4 and q5 want one passage each, q1 and q3 two: 8; old-4 isn't retrieved, and gone has
    # no text
    message = "Not a valid score: 6 of 8 relevant passages came under other ids. Match by text "
    with pytest.warns(LabelWarning, match=message):
        results = evaluate(Reingested(), VOYAGES, ["recall"])
    assert message in results.scores.notes[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error", LabelWarning)
        cured = evaluate(Reingested(), VOYAGES, ["recall"], matcher="text")
    # per query: 1, 1/2 (gone), 1, 1 (old-3 and old-1), 0, 1
    assert cured.scores.means["recall"] == pytest.approx(4.5 / 6)


def test_texts_that_dont_go_with_their_ids_are_left_to_the_ids() -> None:
    dataset = RetrievalDataset({"q": "?"}, {"q": ["a", "b"]}, expected_texts={"q": ["1", "2", "3"]})
    with pytest.warns(LabelWarning, match="0 of 2 labels match node_id, nor anything else"):
        evaluate(Reingested(), dataset, ["recall"])


def test_metadata_key_that_fits_more_labels_than_the_texts_is_the_cure() -> None:
    class Tagged(Reingested):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return [
                NodeWithScore(node=TextNode(text=text, metadata={"key": key}), score=1.0)
                for key, text in PASSAGES.items()
            ]

    with pytest.warns(LabelWarning, match="6 match key: use match_on='key'"):
        evaluate(Tagged(), VOYAGES, ["recall"])


def test_ids_are_strange_where_most_of_them_are_unknown() -> None:
    check = LabelCheck(["a"], "node_id")
    check.see(["a", "x"])
    assert not check.are_strange
    check.see(["y"])
    assert check.are_strange
