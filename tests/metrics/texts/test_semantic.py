"""Embeddings and BM25 as metrics, against numbers worked out by hand."""

import math
import threading
from typing import Any

import numpy as np
import pytest
from llama_index.core import Settings
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import NodeWithScore, TextNode
from support.retrievers import Scripted

from llama_index_rag_metrics import (
    BM25Similarity,
    EmbeddingSimilarity,
    RetrievalDataset,
    evaluate,
    metric,
)
from llama_index_rag_metrics.metrics.texts.semantic import _similarity
from llama_index_rag_metrics.rankings.matching.likeness import words
from llama_index_rag_metrics.runtime.errors import InvalidInput

VECTORS = {
    "query": [3.0, 4.0],
    "same": [6.0, 8.0],
    "right": [4.0, -3.0],
    "near": [3.0, 0.0],
    "zero": [0.0, 0.0],
}


class Scripts(BaseEmbedding):
    """Gives each text its vector, and keeps the batches that it was asked for."""

    vectors: dict[str, list[float]]
    batches: list[list[str]] = []
    queries: list[str] = []

    def _get_query_embedding(self, query: str) -> list[float]:
        self.queries.append(query)
        return self.vectors[query]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        raise AssertionError("would block the loop in most of LlamaIndex's embeddings")

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        assert threading.current_thread() is not threading.main_thread()
        self.batches.append(list(texts))
        return [self.vectors[text] for text in texts]


def scripted(**settings: Any) -> Scripts:
    return Scripts(vectors=VECTORS, batches=[], queries=[], **settings)


def nodes(*texts: str) -> list[NodeWithScore]:
    return [
        NodeWithScore(node=TextNode(id_=f"{number} {text}", text=text), score=1.0)
        for number, text in enumerate(texts)
    ]


class TestEmbeddings:
    TEXTS = ["same", "right", "near", "zero"]

    @pytest.mark.parametrize(
        ("mode", "scores"),
        [
            # (3·6 + 4·8) / (5·10); (3·4 − 4·3) / 25; 9 / (5·3); no direction
            ("cosine", [1, 0, 0.6, 0]),
            ("dot", [50, 0, 9, 0]),
            # distances: (3, 4), (1, −7), (0, 4), (3, 4)
            ("euclidean", [1 / 6, 1 / (1 + math.sqrt(50)), 1 / 5, 1 / 6]),
        ],
    )
    def test_similarity_by_hand(self, mode: Any, scores: list[float]) -> None:
        scorer = EmbeddingSimilarity(embed_model=scripted(), mode=mode)
        result = scorer.compute("query", retrieved_texts=self.TEXTS)
        assert result.metadata["scores"] == pytest.approx(scores)
        assert result.score == pytest.approx(sum(scores) / 4)

    @pytest.mark.parametrize(("agg", "score"), [("max", 1), ("mean", 0.4), ("median", 0.3)])
    def test_aggregation(self, agg: Any, score: float) -> None:
        scorer = EmbeddingSimilarity(embed_model=scripted(), agg=agg)
        assert scorer.compute("query", retrieved_texts=self.TEXTS).score == pytest.approx(score)

    def test_texts_go_in_batches_each_once_in_a_run(self) -> None:
        used = scripted(embed_batch_size=2)
        retriever = Scripted({"query": nodes("same", "near"), "near": nodes("same", "zero")})
        dataset = RetrievalDataset({"q1": "query", "q2": "near", "q3": "query"})
        scorers = [
            EmbeddingSimilarity(embed_model=used),
            EmbeddingSimilarity(embed_model=used, k=1),
        ]
        results = evaluate(retriever, dataset, scorers, workers=1)
        assert used.batches == [["same", "near"], ["zero"]]
        assert used.queries == ["query", "near"]  # a query is embedded otherwise than a text
        # 1 and .6; 6·3 / 30 and 0
        assert results.scores.by_query("embedding_similarity") == pytest.approx(
            {"q1": 0.8, "q2": 0.3, "q3": 0.8}
        )

    def test_settings_embed_model_is_looked_up_late(self, monkeypatch: pytest.MonkeyPatch) -> None:
        scorer = metric("embedding_similarity(mode=dot)@1")
        monkeypatch.setattr(Settings, "_embed_model", scripted())
        assert scorer.compute("query", retrieved_texts=["same", "near"]).score == 50

    def test_ranking_of_nothing_has_no_value(self) -> None:
        scorer = EmbeddingSimilarity(embed_model=scripted())
        empty = scorer.compute("query", retrieved_texts=[])
        assert (empty.score, empty.metadata["empty"]) == (0, True)
        retriever = Scripted({"query": nodes("same"), "near": [], "zero": RuntimeError("gone")})
        dataset = RetrievalDataset({"q1": "query", "q2": "near", "q3": "zero"})
        results = evaluate(retriever, dataset, [scorer])
        assert results.scores.by_query("embedding_similarity") == {"q1": 1}
        note = "embedding_similarity has no value where nothing was retrieved: 2 questions"
        assert note in results.scores.notes
        assert results[1].metric_dict == {}
        of_nothing = evaluate(retriever, dataset.select(["q2"]), [scorer]).report()
        assert of_nothing.decision[0].text == note.replace("2 questions", "1 question.")

    @pytest.mark.parametrize("broken", [[math.nan, 1.0], [], [1.0]])
    def test_broken_embeddings_fail_their_query(self, broken: list[float]) -> None:
        used = scripted()
        used.vectors = {**VECTORS, "broken": broken}
        scorer = EmbeddingSimilarity(embed_model=used)
        with pytest.raises(match="embedding"):
            scorer.compute("query", retrieved_texts=["broken"])

    def test_model_is_not_part_of_name_and_dump(self) -> None:
        scorer = EmbeddingSimilarity(embed_model=scripted(), label="ours")
        assert scorer.metric_name == "embedding_similarity(label=ours)"
        assert "embed_model" not in scorer.model_dump()


@pytest.mark.parametrize("dimensions", [3, 129, 1536])
def test_cosines_do_not_depend_on_the_batch_and_are_right(dimensions: int) -> None:
    rng = np.random.default_rng(dimensions)
    vector, others = rng.normal(size=dimensions), rng.normal(size=(50, dimensions))
    similarities = _similarity("cosine", vector, others)
    assert [
        _similarity("cosine", vector, others[row : row + 1])[0] for row in range(50)
    ] == similarities.tolist()
    exact = [
        math.fsum((vector * other).tolist()) / (math.hypot(*vector) * math.hypot(*other))
        for other in others
    ]
    assert similarities == pytest.approx(exact, abs=1e-14)
    assert _similarity("cosine", vector, vector[None]) == pytest.approx([1], abs=1e-15)


CORPUS = ["the cat sat", "the dog", "a cat and a dog and a cat", "birds"]
# words: 3, 2, 8, 1 of 4 texts: the average is 3.5; "cat" and "dog" are in 2 texts, "sat" in 1
IDF_OF_2 = math.log(1 + 2.5 / 2.5)
IDF_OF_1 = math.log(1 + 3.5 / 1.5)


class TestBM25:
    def test_overlap_by_hand(self) -> None:
        scorer = BM25Similarity(corpus=CORPUS, agg="max")
        # one "cat" in 3 words: 2.5 / (1 + 1.5 (.25 + .75 · 3/3.5)); "sat" the same
        three = 2.5 / (1 + 1.5 * (0.25 + 0.75 * 3 / 3.5))
        # two "cat" in 8 words, and no "sat"
        eight = 2 * 2.5 / (2 + 1.5 * (0.25 + 0.75 * 8 / 3.5))
        result = scorer.compute("cat sat", retrieved_texts=[CORPUS[0], CORPUS[2], CORPUS[3]])
        assert result.metadata == {
            "agg": "max",
            "scores": pytest.approx([(IDF_OF_2 + IDF_OF_1) * three, IDF_OF_2 * eight, 0]),
        }

    def test_k1_and_b(self) -> None:
        def score(**parameters: Any) -> float:
            scorer = BM25Similarity(corpus=CORPUS, **parameters)
            return scorer.compute("cat", retrieved_texts=[CORPUS[2]]).score

        # no saturation by length; the count doesn't matter; a word that isn't in the corpus
        assert score(b=0) == pytest.approx(IDF_OF_2 * 2 * 2.5 / (2 + 1.5))
        assert score(k1=0) == pytest.approx(IDF_OF_2)
        name = "bm25_similarity(k1=1.2, b=0.5)@3"
        assert metric(name).metric_name == name

    def test_scores_are_bm25s_of_the_texts_of_the_corpus(self) -> None:
        bm25s = pytest.importorskip("bm25s", reason="the peer")
        index = bm25s.BM25(method="atire", idf_method="lucene", k1=1.2, b=0.6, dtype="float64")
        index.index([list(words(text)) for text in CORPUS], show_progress=False)
        scorer = BM25Similarity(corpus=CORPUS, k1=1.2, b=0.6)
        for query in ("cat", "the dog sat", "cat cat birds", "a and dog"):
            expected = index.get_scores(list(words(query))).tolist()
            result = scorer.compute(query, retrieved_texts=CORPUS)
            assert result.metadata["scores"] == pytest.approx(expected)

    def test_statistics_are_the_corpus_whatever_is_retrieved(self) -> None:
        scorer = BM25Similarity(corpus={"a": CORPUS[0], "b": CORPUS[1]})
        chunk = "cat cat cat, of no document"
        alone = scorer.compute("cat", retrieved_texts=[chunk]).score
        assert scorer.compute("cat", retrieved_texts=[chunk, "x"]).score == pytest.approx(alone / 2)

    def test_corpus_of_the_dataset(self) -> None:
        dataset = RetrievalDataset(
            {"q1": "cat sat", "q2": "nothing?"},
            corpus={str(n): text for n, text in enumerate(CORPUS)},
        )
        retriever = Scripted({"cat sat": nodes(CORPUS[0]), "nothing?": []})
        results = evaluate(retriever, dataset, ["bm25_similarity"])
        alone = BM25Similarity(corpus=CORPUS).compute("cat sat", retrieved_texts=[CORPUS[0]]).score
        assert results.scores.by_query("bm25_similarity") == {"q1": alone}

    def test_titles_belong_to_the_corpus(self) -> None:
        dataset = RetrievalDataset({"q": "cat"}, corpus={"d": "sat"}, titles={"d": "cat"})
        results = evaluate(Scripted({"cat": nodes("cat\nsat")}), dataset, ["bm25_similarity"])
        # N = df = 1, average length 2, as long as the text
        assert results.scores["bm25_similarity"] == pytest.approx([math.log(1 + 0.5 / 1.5)])

    def test_corpus_that_is_missing_asks_nothing(self) -> None:
        retriever = Scripted({"cat": nodes("cat")})
        message = r"Pass BM25Similarity\(corpus=...\), or evaluate a dataset that has a corpus"
        with pytest.raises(InvalidInput, match=message):
            evaluate(retriever, RetrievalDataset({"q": "cat"}), ["bm25_similarity"])
        with pytest.raises(InvalidInput, match=message):
            BM25Similarity().compute("cat", retrieved_texts=["cat"])
        assert retriever.asked == []
        with pytest.raises(ValueError, match="corpus"):
            BM25Similarity(corpus="one text")

    @pytest.mark.parametrize(
        ("corpus", "message"),
        [
            ([None], r"corpus\[0\]: expected a text, got None\. Leave it out"),
            ({"a": "a cat", "b": 3}, r"corpus\['b'\]: expected a text, got 3\."),
        ],
    )
    def test_corpus_with_what_is_no_text_names_it(self, corpus: Any, message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            BM25Similarity(corpus=corpus)
