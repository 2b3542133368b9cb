"""Hashes of labelled texts: what changed is seen without the corpus, and what can't be is said."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from llama_index.core import Document
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import TextNode

from llama_index_rag_metrics import (
    LabelFindings,
    Relevance,
    RetrievalDataset,
    check_labels,
    move_labels,
    remember_texts,
)
from llama_index_rag_metrics.runtime.errors import FormatTooNarrow, InvalidInput, LabelWarning

MOONS = {
    "enceladus": "Enceladus is a moon of Saturn. Jets of water vapour rise from cracks in its ice.",
    "triton": "Triton circles Neptune backwards. Its thin air is mostly nitrogen, and it is cold.",
    "io": "Hundreds of volcanoes cover Io, whose sulphur paints it yellow, orange and black.",
}


@pytest.fixture
def labels() -> RetrievalDataset:
    """Labels by id alone: no corpus, no texts."""
    questions = {"q1": "Which moon has jets?", "q2": "Which one is backwards?"}
    return RetrievalDataset(questions, {"q1": ["enceladus"], "q2": ["triton"]})


@pytest.fixture
def remembered(labels: RetrievalDataset) -> RetrievalDataset:
    return remember_texts(labels, MOONS)


def errors(findings: LabelFindings) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(error.kind, error.id, error.others) for error in findings.errors]


class TestCheck:
    def test_as_they_were(self, remembered: RetrievalDataset) -> None:
        spaced = {moon: text.replace(". ", ".\n  ") for moon, text in MOONS.items()}

        assert errors(check_labels(remembered, MOONS)) == []
        assert errors(check_labels(remembered, spaced)) == []

    def test_hashes_of_earlier_versions_kept_typography(self, labels: RetrievalDataset) -> None:
        text = "Enceladus\u2019s jets \u2013 of water"
        # NFC and single spaces, nothing else
        stored = "sha256:" + sha256(text.encode()).hexdigest()
        content = {**vars(labels), "text_hashes": {"enceladus": stored}}
        dataset = RetrievalDataset(**content)
        assert errors(check_labels(dataset, {**MOONS, "enceladus": text})) == []
        found = check_labels(dataset, {"n": text, "triton": MOONS["triton"]})
        assert errors(found) == [("moved", "enceladus", ("n",))]

    def test_a_text_that_changed(self, remembered: RetrievalDataset) -> None:
        today = {**MOONS, "triton": MOONS["triton"].replace("nitrogen", "hydrogen")}

        findings = check_labels(remembered, today)

        assert errors(findings) == [("changed", "triton", ("triton",))]
        assert findings.errors[0].score is None
        assert "can't tell how much of it is left" in findings.errors[0].text
        assert any(
            "the dataset has only hashes of the texts of 2 of 2 labelled passages" in n
            for n in findings.notes
        )

    def test_without_hashes_it_isnt_seen(self, labels: RetrievalDataset) -> None:
        findings = check_labels(labels, {**MOONS, "triton": "something else entirely"})

        assert errors(findings) == []
        assert any("remember_texts()" in note for note in findings.notes)

    def test_a_text_that_is_whole_under_another_id(self, remembered: RetrievalDataset) -> None:
        today = {"n1": MOONS["enceladus"], "triton": MOONS["io"], "n2": MOONS["triton"]}

        assert errors(check_labels(remembered, today)) == [
            ("moved", "enceladus", ("n1",)),
            ("moved", "triton", ("n2",)),
        ]

    def test_what_a_hash_cant_tell_is_said(self, remembered: RetrievalDataset) -> None:
        first, second = MOONS["triton"].split(". ", 1)
        today = {"enceladus": MOONS["enceladus"], "a": first, "b": second}

        (finding,) = check_labels(remembered, today).errors

        assert (finding.kind, finding.id, finding.others) == ("lost", "triton", ())
        assert finding.text == "'triton' is gone, and no passage has the text that it had"

    def test_texts_that_the_dataset_has_tell_more(self, remembered: RetrievalDataset) -> None:
        with_corpus = RetrievalDataset(**{**vars(remembered), "corpus": MOONS})
        today = {**MOONS, "triton": MOONS["triton"].replace("nitrogen", "hydrogen")}

        (finding,) = check_labels(with_corpus, today).errors

        assert finding.kind == "changed"
        assert finding.score is not None


class TestPlaces:
    DOCUMENT = " ".join(MOONS.values())

    def labels(self) -> RetrievalDataset:
        start = self.DOCUMENT.index("Triton")
        place = ("moons.txt", start, start + len(MOONS["triton"]))
        return RetrievalDataset({"q": "Which?"}, {"q": Relevance.of_spans([place])})

    def test_in_whole_documents(self) -> None:
        remembered = remember_texts(self.labels(), {"moons.txt": self.DOCUMENT})

        assert errors(check_labels(remembered, {"moons.txt": self.DOCUMENT})) == []
        above = check_labels(remembered, {"moons.txt": f"A new sentence. {self.DOCUMENT}"})
        ((kind, _, others),) = errors(above)
        assert (kind, others) == ("changed", ("moons.txt",))
        assert "edited there, or above it" in above.errors[0].text

    def test_in_nodes(self) -> None:
        def nodes(text: str) -> list[object]:
            splitter = SentenceSplitter(chunk_size=60, chunk_overlap=0)
            return list(splitter.get_nodes_from_documents([Document(id_="moons.txt", text=text)]))

        remembered = remember_texts(self.labels(), nodes(self.DOCUMENT))  # type: ignore[arg-type]

        assert errors(check_labels(remembered, nodes(self.DOCUMENT))) == []  # type: ignore[arg-type]
        edited = self.DOCUMENT.replace("nitrogen", "hydrogen")
        ((kind, _, _),) = errors(check_labels(remembered, nodes(edited)))  # type: ignore[arg-type]
        assert kind == "changed"


class TestMove:
    def test_whole_texts_move_and_the_rest_is_listed(self, remembered: RetrievalDataset) -> None:
        moved = move_labels(remembered, {"n1": MOONS["enceladus"], "n2": "Triton is cold."})

        assert [(move.item, move.fate, move.score) for move in moved.moves] == [
            ("enceladus", "moved", 1.0),
            ("triton", "lost", None),
        ]
        assert moved.dataset.relevance == {"q1": ["n1"], "q2": []}
        assert any("1 of 2 labels can't be followed" in note for note in moved.notes)
        assert (
            "'triton' is lost: its text isn't known, or only by a hash that no node has"
            in " ".join(str(moved).split())
        )

    def test_what_has_its_id_and_another_text_keeps_its_label(
        self, remembered: RetrievalDataset
    ) -> None:
        moved = move_labels(remembered, {**MOONS, "triton": "Triton is cold."})

        assert moved.of("changed")[0].pieces[0].share is None
        assert moved.dataset.relevance == {"q1": ["enceladus"], "q2": ["triton"]}
        assert json.loads(moved.to_json())[1]["score"] is None


class TestRemembering:
    def test_of_the_datasets_own_corpus_which_may_go(self) -> None:
        dataset = RetrievalDataset(
            {"q": "?"},
            {"q": ["io"]},
            MOONS,
            titles={"io": "Io"},
            document_metadata={"io": {"n": 1}},
        )

        small = remember_texts(dataset, keep_corpus=False)

        assert (small.corpus, small.titles, small.document_metadata) == ({}, {}, {})
        assert list(small.text_hashes) == ["io"]
        assert errors(check_labels(small, dataset.to_nodes())) == []
        assert remember_texts(dataset).corpus == MOONS

    @pytest.mark.parametrize("name", ["dataset.json", "dataset.jsonl", "dataset.jsonl.gz"])
    def test_files_hold_them(self, remembered: RetrievalDataset, tmp_path: Path, name: str) -> None:
        remembered.save(tmp_path / name)

        again = RetrievalDataset.load(tmp_path / name)

        assert again.text_hashes == remembered.text_hashes
        assert again == remembered

    def test_formats_that_cant_hold_them_say_so(
        self, remembered: RetrievalDataset, tmp_path: Path
    ) -> None:
        with pytest.raises(FormatTooNarrow, match="hashes of labelled texts"):
            remembered.to_beir(tmp_path)
        with pytest.raises(FormatTooNarrow, match="hashes of labelled texts"):
            remembered.save_json(tmp_path / "old.json")

    def test_a_passage_that_isnt_there(self, labels: RetrievalDataset) -> None:
        with pytest.warns(LabelWarning, match=r"1 of 2 labelled passages aren't there.*'triton'"):
            remembered = remember_texts(labels, [TextNode(id_="enceladus", text="jets")])

        assert list(remembered.text_hashes) == ["enceladus"]

    def test_no_passage_is_there(self, labels: RetrievalDataset) -> None:
        with pytest.raises(InvalidInput, match="A label is 'enceladus', an id 'n1'"):
            remember_texts(labels, {"n1": "text"})

    def test_a_hash_that_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match=r"text_hashes\['d'\]"):
            RetrievalDataset({"q": "?"}, {"q": ["d"]}, text_hashes={"d": "md5:12"})
