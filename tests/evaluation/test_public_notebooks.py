"""The calls of three public notebooks of LlamaIndex, in their order; a dataset is saved as ours is.

"Retrieval Evaluation" (examples/evaluation/retrieval/retriever_eval), "Recursive Retriever + Node
References" (examples/retrievers/recursive_retriever_nodes) and "Finetune Embeddings"
(examples/finetuning/embeddings/finetune_embedding). The passages are our own, each with a word that
no other has; the language model is scripted, and the embedding has a dimension a word, so that
every question finds its passage first: MRR and hit rate are 1.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.kernels import printed, run_cells

pytestmark = pytest.mark.servers

PARTS = r"""
import re
import nest_asyncio
import pandas as pd
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import IndexNode, TextNode
from llama_index_rag_metrics import (
    RetrievalDataset,
    RetrieverEvaluator,
    generate_question_context_pairs,
)

nest_asyncio.apply()
WORDS = ["kiln", "loom", "lathe"]
documents = [
    Document(text=" ".join(f"Sentence {n} tells of the {word}." for n in range(30)))
    for word in WORDS
]

class ScriptedLLM(CustomLLM):
    @property
    def metadata(self):
        return LLMMetadata(model_name="scripted")
    def complete(self, prompt, formatted=False, **kwargs):
        word = re.search("kiln|loom|lathe", prompt)[0]
        text = f"1. Who needs the {word} of this workshop?\n2. What is the {word} for?"
        return CompletionResponse(text=text)
    def stream_complete(self, prompt, formatted=False, **kwargs):
        raise NotImplementedError

class WordEmbedding(BaseEmbedding):
    def _get_text_embedding(self, text):
        return [float(word in text) + 0.01 for word in WORDS]
    def _get_query_embedding(self, query):
        return self._get_text_embedding(query)
    async def _aget_query_embedding(self, query):
        return self._get_text_embedding(query)

llm, embed_model = ScriptedLLM(), WordEmbedding()
nodes = SentenceSplitter(chunk_size=512).get_nodes_from_documents(documents)
for idx, node in enumerate(nodes):
    node.id_ = f"node_{idx}"
assert len(nodes) == len(WORDS)
"""

EVALUATION = (
    """
vector_index = VectorStoreIndex(nodes, embed_model=embed_model)
retriever = vector_index.as_retriever(similarity_top_k=2)
qa_dataset = generate_question_context_pairs(nodes, llm=llm, num_questions_per_chunk=2)
queries = qa_dataset.queries.values()
print(list(queries)[2])
""",
    """
qa_dataset.save("eval_dataset.json")
qa_dataset = RetrievalDataset.load("eval_dataset.json")
metrics = ["mrr", "hit_rate"]
retriever_evaluator = RetrieverEvaluator.from_metric_names(metrics, retriever=retriever)
""",
    """
sample_id, sample_query = list(qa_dataset.queries.items())[0]
sample_expected = qa_dataset.relevant_docs[sample_id]
eval_result = retriever_evaluator.evaluate(sample_query, sample_expected)
print(eval_result)
""",
    """
eval_results = await retriever_evaluator.aevaluate_dataset(qa_dataset)
metric_dicts = []
for eval_result in eval_results:
    metric_dicts.append(eval_result.metric_vals_dict)
full_df = pd.DataFrame(metric_dicts)
print(len(full_df), full_df["hit_rate"].mean(), full_df["mrr"].mean())
""",
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels begin where they are started."""
    pytest.importorskip("pandas", reason="the notebooks' tables")
    pytest.importorskip("nest_asyncio", reason="the notebooks apply it")
    monkeypatch.chdir(tmp_path)


def test_retrieval_evaluation() -> None:
    _, generated, _, sample, whole = run_cells(PARTS, *EVALUATION)

    assert printed(generated) == "Who needs the loom of this workshop?\n"
    assert "Query: Who needs the kiln of this workshop?" in printed(sample)
    assert "Metrics: {'mrr': 1.0, 'hit_rate': 1.0}" in printed(sample)
    assert printed(whole) == "6 1.0 1.0\n"
