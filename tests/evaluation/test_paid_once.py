"""A journal alone: what judges, Cohere and embeddings were paid for is kept beside it."""

import stat
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import NodeWithScore, TextNode
from support.cohere_fixtures import no_key_in_the_environment  # noqa: F401 - fixture
from support.cohere_server import cohere_server
from support.openai_server import openai_server
from support.retrievers import Scripted

from llama_index_rag_metrics import (
    CohereRerankRelevancy,
    EmbeddingSimilarity,
    LLMRelevancy,
    RetrievalDataset,
    evaluate,
    sweep,
)

pytestmark = pytest.mark.servers

KEY = "sk-abcdefghij0123456789"
QUERIES = {f"q{n}": f"query {n}" for n in range(4)}
DATASET = RetrievalDataset(QUERIES)


def retriever() -> Scripted:
    texts = {query: f"passage of {query}" for query in QUERIES.values()}
    return Scripted(
        {q: [NodeWithScore(node=TextNode(id_=q, text=text), score=1)] for q, text in texts.items()}
    )


def run(journal: Path, metric: Any) -> dict[str, float]:
    results = evaluate(retriever(), DATASET, [metric], journal=journal)
    assert not results.scores.failed
    return dict(results.scores.means)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "run.jsonl"


def test_judge_is_paid_once_by_endpoint_model_and_settings(journal: Path) -> None:
    openai = pytest.importorskip("llama_index.llms.openai", reason="OpenAI's client")

    def judge(server: Any, model: str = "gpt-4o-mini", **further: Any) -> LLMRelevancy:
        base = server.api_base.replace("http://", "http://me:hunter22@")
        llm = openai.OpenAI(model, api_key=KEY, api_base=base, **further)
        return LLMRelevancy(llm=llm)

    with (
        openai_server(lambda _: '{"grade": 1}') as server,
        openai_server(lambda _: '{"grade": 3}') as other,
    ):
        assert run(journal, judge(server)) == {"llm_relevancy": 1.0}
        assert run(journal, judge(server)) == {"llm_relevancy": 1.0}
        assert len(server.requests) == len(QUERIES)
        # whatever bears on the answers is asked anew
        assert run(journal, judge(other)) == {"llm_relevancy": 3.0}
        run(journal, judge(other, "gpt-4o"))
        run(journal, judge(other, additional_kwargs={"reasoning_effort": "high"}))
        assert len(other.requests) == 3 * len(QUERIES)
    cache = journal.with_name("run.jsonl.cache")
    assert sorted(path.name for path in journal.parent.iterdir() if "lock" not in path.name) == [
        "run.jsonl",
        "run.jsonl.cache",
    ]
    assert stat.S_IMODE(cache.stat().st_mode) == 0o600
    for secret in (KEY, "hunter22"):
        assert secret.encode() not in cache.read_bytes() + journal.read_bytes()


@pytest.mark.usefixtures("no_key_in_the_environment")
def test_cohere_is_paid_once_by_endpoint(journal: Path) -> None:
    pytest.importorskip("cohere", reason="Cohere's client")
    with cohere_server() as server, cohere_server() as other:
        for _ in range(2):
            # 2 of the 2 words of each query are in its passage
            cohere = CohereRerankRelevancy(api_key=KEY, base_url=server.base_url)
            assert run(journal, cohere) == {cohere.metric_name: 1.0}
        run(journal, CohereRerankRelevancy(api_key=KEY, base_url=other.base_url))
        assert (len(server.requests), len(other.requests)) == (len(QUERIES), len(QUERIES))
    assert KEY.encode() not in journal.with_name("run.jsonl.cache").read_bytes()


embedded: list[str] = []


class Counting(MockEmbedding):
    def _get_text_embedding(self, text: str) -> list[float]:
        embedded.append(text)
        return super()._get_text_embedding(text)


def test_embeddings_are_paid_once_also_in_a_sweep(journal: Path) -> None:
    metric = EmbeddingSimilarity(embed_model=Counting(embed_dim=2))
    embedded.clear()
    for _ in range(2):
        run(journal, metric)
        assert sorted(embedded) == sorted(f"passage of {query}" for query in QUERIES.values())
    embedded.clear()
    for _ in range(2):
        folder = journal.with_name("sweep")
        sweep(lambda k: retriever(), {"k": [1, 2]}, DATASET, [metric], journal=folder)
        assert len(embedded) == len(QUERIES)
    assert journal.with_name("sweep.cache").is_file()


def test_cache_that_is_named_is_used_instead(journal: Path) -> None:
    cache = journal.with_name("other.sqlite")
    metric = EmbeddingSimilarity(embed_model=Counting(embed_dim=2))
    evaluate(retriever(), DATASET, [metric], journal=journal, cache=cache)
    assert cache.is_file()
    assert not journal.with_name("run.jsonl.cache").exists()


def test_metrics_that_cost_nothing_leave_no_file(journal: Path) -> None:
    evaluate(retriever(), RetrievalDataset(QUERIES, {"q0": ["query 0"]}), ["mrr"], journal=journal)
    assert not journal.with_name("run.jsonl.cache").exists()
