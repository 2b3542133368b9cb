"""Labels checked against what can be retrieved today: every kind of finding, and nothing else."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import Document, NodeWithScore, TextNode
from support.paths import SHARED

from llama_index_rag_metrics import Relevance, RetrievalDataset
from llama_index_rag_metrics.labels import LabelFindings, check_labels, move_labels
from llama_index_rag_metrics.labels.checking import KINDS
from llama_index_rag_metrics.runtime.errors import InvalidInput

pytestmark = pytest.mark.servers

CRANFIELD = SHARED / "data" / "cranfield"

MOONS = {
    "enceladus": "Enceladus is a moon of Saturn. Jets of water vapour rise from cracks in its ice.",
    "triton": "Triton circles Neptune backwards. Its thin air is mostly nitrogen, and it is cold.",
    "io": "Hundreds of volcanoes cover Io, whose sulphur paints it yellow, orange and black.",
    "titan": "Titan has lakes of methane and a thick orange haze, through which nothing is seen.",
}


def moons(**relevance: Any) -> RetrievalDataset:
    questions = {"q1": "Which moon has jets of water?", "q2": "Which orbits the wrong way round?"}
    wanted = {"q1": ["enceladus"], "q2": ["triton"], **relevance}
    return RetrievalDataset(questions, wanted, MOONS)


def kinds(findings: LabelFindings) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(finding.kind, finding.id, finding.new_ids) for finding in findings.findings]


class TestDrift:
    def test_labels_with_nothing_to_report(self) -> None:
        assert kinds(check_labels(moons())) == []
        assert kinds(check_labels(moons(), MOONS)) == []

    @pytest.mark.parametrize(
        ("today", "expected"),
        [
            ({"triton": None}, [("lost", "triton", ())]),
            ({"triton": None, "n": MOONS["triton"]}, [("moved", "triton", ("n",))]),
            (
                {"triton": None, "a": MOONS["triton"][:35], "b": MOONS["triton"][35:]},
                [("split", "triton", ("b",))],
            ),
            (
                {"triton": MOONS["triton"].replace("nitrogen", "hydrogen and helium")},
                [("changed", "triton", ("triton",))],
            ),
            (  # ids that name other texts now
                {"enceladus": MOONS["triton"], "triton": MOONS["enceladus"]},
                [("moved", "enceladus", ("triton",)), ("moved", "triton", ("enceladus",))],
            ),
        ],
    )
    def test_fates_of_passages(self, today: dict[str, Any], expected: list[Any]) -> None:
        corpus = {moon: text for moon, text in {**MOONS, **today}.items() if text is not None}
        findings = check_labels(moons(), corpus)
        assert kinds(findings) == expected
        assert findings.findings[-1].query_ids == ("q2",)

    def test_white_space_is_no_change(self) -> None:
        today = {moon: text.replace(". ", ".\n  ") for moon, text in MOONS.items()}
        assert kinds(check_labels(moons(), today)) == []

    @pytest.mark.parametrize(
        "parsed",
        [
            "Of\ufb01cial  \u201crates\u201d: 5\u20136 % a year, says the bank\u2019s report.",
            'Offi\u00adcial "rates": 5-6 % a\u00a0year, says the bank\u2019s\u200b report.',
        ],
    )
    def test_typography_is_no_change(self, parsed: str) -> None:
        typed = 'Official "rates": 5-6 % a year, says the bank\'s report.'
        for before, today in ((typed, parsed), (parsed, typed)):
            dataset = RetrievalDataset({"q": "How much?"}, {"q": ["r"]}, {"r": before})
            assert check_labels(dataset, {"r": today}).findings == []
            (moved,) = check_labels(dataset, {"n": today}).findings
            assert (moved.kind, moved.new_ids) == ("moved", ("n",))
        changed = check_labels(dataset, {"r": typed.replace("5-6", "5-7")})
        assert [error.kind for error in changed.errors] == ["changed"]

    @pytest.mark.parametrize(("before", "today"), [("10²", "102"), ("1½", "11⁄2")])
    def test_numbers_that_differ_are_a_change(self, before: str, today: str) -> None:
        text = "Bring the glaze to a heat of {} before the kiln is closed again."
        dataset = RetrievalDataset({"q": "How hot?"}, {"q": ["r"]}, {"r": text.format(before)})
        (changed,) = check_labels(dataset, {"r": text.format(today)}).errors
        assert changed.kind == "changed"

    def test_chinese(self) -> None:
        corpus = {
            "a": "窯的溫度約為一千二百四十度，陶藝家通常在第三天打開窯門取出瓷器。",
            "b": "這座城市的古老圖書館收藏了數千卷手抄本，其中許多來自十二世紀。",
        }
        dataset = RetrievalDataset(
            {"q": "窯溫幾度？", "r": "誰收藏手抄本？"}, {"q": ["a"], "r": ["b"]}, corpus
        )
        edited = corpus["b"].replace("數千卷", "一萬兩千多卷")
        findings = check_labels(
            dataset, {"n1": corpus["a"][:17], "n2": corpus["a"][17:], "b": edited}
        )
        kinds_of_errors = [(error.kind, error.id) for error in findings.errors]
        assert kinds_of_errors == [("split", "a"), ("changed", "b")]

    def test_lost_labels_without_a_text_ask_for_it_first(self) -> None:
        dataset = RetrievalDataset(moons().queries, moons().relevance)
        for results in (check_labels(dataset, {"n": "Io"}), move_labels(dataset, {"n": "Io"})):
            assert "has no text of 2 of 2 labelled" in results.report().decision[0].text

    def test_labels_that_name_documents(self) -> None:
        dataset = moons()
        splitter = SentenceSplitter(chunk_size=20, chunk_overlap=0)
        documents = [Document(id_=key, text=text) for key, text in dataset.corpus.items()]
        nodes = splitter.get_nodes_from_documents(documents)
        assert len(nodes) > len(MOONS)
        assert kinds(check_labels(dataset, nodes, match_on="ref_doc_id")) == []
        wrong = check_labels(dataset, nodes)
        assert len(wrong.errors) == 2
        assert "use match_on='ref_doc_id'" in wrong.report().decision[0].text

    def test_places_in_documents(self) -> None:
        document = " ".join(MOONS.values())
        start = document.index("Triton")
        places = [("moons.txt", start, start + len(MOONS["triton"]))]
        dataset = RetrievalDataset(
            {"q": "Which moon orbits the wrong way round?"},
            {"q": Relevance(spans=places)},
            {"moons.txt": document},
        )
        assert kinds(check_labels(dataset)) == []
        above = check_labels(dataset, {"moons.txt": f"A new first sentence. {document}"})
        assert [(finding.kind, finding.new_ids) for finding in above.findings] == [
            ("moved", ("moons.txt",))
        ]
        gone = check_labels(dataset, {"moons.txt": MOONS["io"]})
        assert [finding.kind for finding in gone.findings] == ["lost"]

    def test_texts_that_the_dataset_lacks(self) -> None:
        dataset = RetrievalDataset({"q": "why?"}, {"q": ["a", "b"]})
        findings = check_labels(dataset, {"a": "some text"})
        assert kinds(findings) == [("lost", "b", ())]
        assert any("no text of 2 of 2 labelled passages" in note for note in findings.notes)
        nodes = {"a": "some text", "b": "that may be another one"}
        for results in (check_labels(dataset, nodes), move_labels(dataset, nodes)):
            report = results.report()
            assert report.outcome is not None
            assert report.outcome.value == "can't tell"
            assert "no text of 2 of 2 labelled passages" in report.decision[0].text

    def test_expected_texts_are_labels(self) -> None:
        dataset = RetrievalDataset(
            {"q": "Which moon orbits the wrong way round?"},
            expected_texts={"q": [MOONS["triton"], "A text that nobody has anywhere at all."]},
        )
        assert kinds(check_labels(dataset, MOONS)) == [("lost", "expected text 2 of q", ())]


class TestQuestions:
    def test_asked_twice(self) -> None:
        dataset = RetrievalDataset(
            {"q1": "Which moon is cold?", "q2": "which moon is cold", "q3": "Which moon is cold??"},
            {"q1": ["triton"], "q2": ["triton"], "q3": ["titan"]},
            MOONS,
        )
        findings = check_labels(dataset)
        assert [(finding.kind, finding.query_ids) for finding in findings.findings] == [
            ("contradicting", ("q3", "q1")),
            ("repeated", ("q2", "q1")),
        ]
        assert "only one expects titan, triton" in findings.findings[0].text


class TestSources:
    def nodes(self) -> list[TextNode]:
        return [TextNode(id_=moon, text=text) for moon, text in MOONS.items()]

    def test_nodes_and_nodes_with_scores(self) -> None:
        assert not check_labels(moons(), self.nodes()).findings
        nodes = [NodeWithScore(node=node) for node in self.nodes()]
        assert not check_labels(moons(), nodes).findings

    def test_index_its_docstore_and_what_it_persisted(self, tmp_path: Path) -> None:
        index = VectorStoreIndex(self.nodes(), embed_model=MockEmbedding(2))
        index.storage_context.persist(str(tmp_path))
        for source in (index, index.docstore, tmp_path, tmp_path / "docstore.json"):
            assert not check_labels(moons(), source).findings

    def test_index_whose_vector_store_keeps_the_nodes(self) -> None:
        reason = "llama-index-vector-stores-chroma isn't installed"
        chroma = pytest.importorskip("llama_index.vector_stores.chroma", reason=reason)
        chromadb = pytest.importorskip("chromadb", reason=reason)
        collection = chromadb.EphemeralClient().create_collection("moons")
        store = chroma.ChromaVectorStore(chroma_collection=collection)
        context = StorageContext.from_defaults(vector_store=store)
        index = VectorStoreIndex(
            self.nodes()[1:], storage_context=context, embed_model=MockEmbedding(2)
        )
        assert kinds(check_labels(moons(), index)) == [("lost", "enceladus", ())]

    @pytest.fixture
    def qdrant(self) -> Any:
        reason = "llama-index-vector-stores-qdrant isn't installed"
        pytest.importorskip("llama_index.vector_stores.qdrant", reason=reason)
        return pytest.importorskip("qdrant_client", reason=reason)

    def test_store_that_lists_few_nodes_by_default(self, qdrant: Any) -> None:
        # Qdrant's store lists 9,999 nodes unless it is given a limit
        from llama_index.vector_stores.qdrant import QdrantVectorStore

        client = qdrant.QdrantClient(location=":memory:")
        store = QdrantVectorStore(client=client, collection_name="many")
        nodes = [
            TextNode(id_=str(UUID(int=n)), text=f"text {n}", embedding=[1.0, 0.0])
            for n in range(10_500)
        ]
        store.add(nodes)  # type: ignore[arg-type]
        labels = [node.node_id for node in nodes]
        dataset = RetrievalDataset({"q": "Which?"}, {"q": labels})
        findings = check_labels(dataset, store)
        assert findings.n_passages == len(nodes)
        assert not findings.of("lost")

    def test_store_with_an_asynchronous_client_only(self, qdrant: Any) -> None:
        from llama_index.vector_stores.qdrant import QdrantVectorStore

        client = qdrant.AsyncQdrantClient(location=":memory:")
        store = QdrantVectorStore(aclient=client, collection_name="moons")
        nodes = [
            TextNode(id_=str(UUID(int=n)), text=text, embedding=[1.0, 0.0])
            for n, text in enumerate(MOONS.values())
        ]
        asyncio.run(store.async_add(nodes))  # type: ignore[arg-type]
        findings = check_labels(moons(), store)
        assert {error.kind for error in findings.errors} == {"moved"}

    def test_files(self, tmp_path: Path) -> None:
        lines = [json.dumps({"_id": moon, "text": text}) for moon, text in MOONS.items()]
        (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
        moons().save(tmp_path / "dataset.json")
        for name in ("corpus.jsonl", "dataset.json"):
            assert not check_labels(moons(), tmp_path / name).findings

    def test_dataset_comes_first(self) -> None:
        nodes = [TextNode(id_="n", text="Titan has lakes.")]
        dataset = RetrievalDataset({"q": "lakes?"}, {"q": ["n"]})
        with pytest.raises(InvalidInput, match=r"RetrievalDataset, got .*The dataset comes first"):
            check_labels(nodes, dataset)  # type: ignore[arg-type]

    @pytest.mark.parametrize("source", [[], {}, 5, b"text", ["text"], {"a": 1}, TextNode(text="a")])
    def test_source_of_another_kind_is_refused(self, source: Any) -> None:
        with pytest.raises(InvalidInput, match="index_or_nodes"):
            check_labels(moons(), source)


class TestReport:
    def test_displays_all_escape_what_comes_from_data(self, tmp_path: Path) -> None:
        evil = "<script>alert(1)</script>"
        dataset = RetrievalDataset({evil: f"{evil}?"}, {evil: [f"{evil} gone"]}, {"x": "some text"})
        findings = check_labels(dataset)
        assert findings.to_html(tmp_path / "a.html").read_text().count(evil) == 0
        assert evil not in findings._repr_html_()
        assert "passages that are gone" in str(findings)
        (record,) = json.loads(findings.to_json())
        assert record["kind"] == "lost"

    def test_counts_speak_of_labels_and_questions(self) -> None:
        findings = check_labels(moons(), {"titan": MOONS["titan"]})
        assert (findings.counts["lost"], findings.n_labels) == (2, 2)
        assert {*findings.counts, "kept"} == set(KINDS)


@pytest.mark.skipif(not CRANFIELD.is_dir(), reason="the Cranfield collection isn't here")
def test_drift_planted_in_cranfield() -> None:
    dataset = RetrievalDataset.load(CRANFIELD)
    labelled = sorted({item for relevance in dataset.relevance.values() for item in relevance})
    labelled = [item for item in labelled if len(dataset.corpus[item]) > 50]
    chance = random.Random(16)
    chance.shuffle(labelled)
    planted = dict(zip(labelled, ["lost", "changed", "split", "moved"] * 60, strict=False))
    today: dict[str, str] = {}
    for item in dataset.corpus:
        words = dataset.indexed_text(item).split()
        fate = planted.get(item)
        if fate == "changed":
            begin = chance.randrange(len(words) - 5)
            words[begin : begin + 2] = ["entirely", "different", "words"]
        if fate == "split":
            third = len(words) // 3
            for n, part in enumerate((words[:third], words[third : 2 * third], words[2 * third :])):
                today[f"{item}#{n}"] = " ".join(part)
        elif fate != "lost":
            today[f"new {item}" if fate == "moved" else item] = " ".join(words)
    kinds = {error.id: error.kind for error in check_labels(dataset, today).errors}
    assert {item: kinds.get(item) for item in planted} == planted
    untouched = set(labelled) - set(planted)
    assert len(untouched & set(kinds)) <= 0.01 * len(untouched)


def test_lost_and_edited_passages_are_read_in_the_report() -> None:
    old = {
        "kiln": "The kiln is fired on Tuesday nights, and glaze goes to 980 degrees, not above.",
        "saw": "Only members who took the course may use the saw.\x1b[31m",
    }
    dataset = RetrievalDataset({"q1": "How?", "q2": "Who?"}, {"q1": ["kiln"], "q2": ["saw"]}, old)
    findings = check_labels(dataset, {"kiln": old["kiln"].replace("980", "1060"), "x": "Other."})
    (changed,), (lost,) = findings.of("changed"), findings.of("lost")
    assert (changed.old_text, lost.old_text) == (old["kiln"], old["saw"])
    text = " ".join(str(findings).split())
    assert "before: “Only members who took the course may use the saw. [31m”" in text
    # both from a few words before the number on, in which they differ
    assert "before: “…nights, and glaze goes to 980 degrees, not above.”" in text
    assert "now: “…nights, and glaze goes to 1060 degrees, not above.”" in text
