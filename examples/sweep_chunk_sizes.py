"""Chunk sizes and depths, all combinations: which is best, and what does it cost?

Ids of chunks change with the chunk size, so the labels are places in the documents: how much of
what was needed came (span_recall), whatever it was cut into.
"""

import re
from collections import defaultdict
from functools import lru_cache

from llama_index.core import Document
from llama_index.core.node_parser import SentenceSplitter

from llama_index_rag_metrics import Relevance, RetrievalDataset, sweep
from llama_index_rag_metrics.demo.collection import load_collection
from llama_index_rag_metrics.demo.retrievers import bm25

# The shipped collection as handbooks: its passages about one topic, one after the other.
passages = load_collection()
handbooks = defaultdict(str)
spans = {}
for passage in passages.corpus:
    topic, text = passage.partition("-")[0], passages.indexed_text(passage)
    start = len(handbooks[topic])
    spans[passage] = (topic, start, start + len(text))
    handbooks[topic] += f"{text}\n\n"
documents = [Document(doc_id=topic, text=text) for topic, text in handbooks.items()]
dataset = RetrievalDataset(
    passages.queries,
    {
        query_id: Relevance(spans=(spans[passage] for passage in relevance))
        for query_id, relevance in passages.relevance.items()
    },
    corpus=handbooks,
)


@lru_cache
def split(chunk_size):
    splitter = SentenceSplitter(
        chunk_size=chunk_size,
        chunk_overlap=0,
        chunking_tokenizer_fn=re.compile(r"(?<=[.!?。！？])").split,  # downloads no sentence model
    )
    return splitter.get_nodes_from_documents(documents)


found = sweep(
    lambda chunk_size, top_k: bm25(split(chunk_size), top_k),
    {"chunk_size": [128, 256, 512], "top_k": [1, 2, 4, 8]},
    dataset,
    ["span_recall", "span_precision", "span_recall@1000tokens"],
)
print(found)

print("\nFrom cheap to good:")
for one in sorted(found, key=lambda one: one.tokens):
    print(f"  {one.name:<28}{one.mean('span_recall'):.3f} at {one.tokens:6.0f} tokens")

# found.to_html("sweep.html") shows the same as a page;
# sweep(..., journal="sweeps/chunks") goes on where it was interrupted.
