"""What the Cohere metric is asked in its tests, and with which key."""

from typing import Any

from llama_index.core.schema import NodeWithScore, TextNode

from llama_index_rag_metrics import CohereRerankRelevancy
from support.cohere_server import CohereServer

KEY = "not-a-real-key-0123456789"
QUERY = "how hot is the kiln"
TEXTS = ["the kiln is hot", "how hot is the kiln today", "nothing of it"]
SCORES = [0.8, 1.0, 0.0]  # 4, 5, 0 of the query's 5 words


def of(server: CohereServer, **parameters: Any) -> CohereRerankRelevancy:
    return CohereRerankRelevancy(**{"api_key": KEY, "base_url": server.base_url, **parameters})


def nodes(*texts: str) -> list[NodeWithScore]:
    return [NodeWithScore(node=TextNode(text=text), score=1.0) for text in texts]
