"""Chunk sizes compared on one set of expected passages, and AutoMerging: what ids can't do.

Every chunk size makes chunks with ids of their own, and AutoMerging puts parents in the place of
leaves, so labels by id fit one index at most. Here what is retrieved is recognised by its text.
"""

import re
from collections import defaultdict

from llama_index.core import Document, StorageContext
from llama_index.core.node_parser import HierarchicalNodeParser, SentenceSplitter, get_leaf_nodes
from llama_index.core.retrievers import AutoMergingRetriever
from llama_index.core.storage.docstore import SimpleDocumentStore

from llama_index_rag_metrics import evaluate, move_labels
from llama_index_rag_metrics.demo.collection import load_collection
from llama_index_rag_metrics.demo.retrievers import bm25

# The shipped collection as handbooks: its passages about one topic, one after the other.
passages = load_collection()
handbooks = defaultdict(str)
for passage in passages.corpus:
    topic, text = passage.partition("-")[0], passages.indexed_text(passage)
    handbooks[topic] += f"{text}\n\n"
documents = [Document(doc_id=topic, text=text) for topic, text in handbooks.items()]


def splitter(chunk_size: int) -> SentenceSplitter:
    return SentenceSplitter(
        chunk_size=chunk_size,
        chunk_overlap=0,
        chunking_tokenizer_fn=re.compile(r"(?<=[.!?。！？])").split,  # downloads no sentence model
    )


def print_row(name: str, values: list[float]) -> None:
    print(f"{name:<24}" + "".join(f"{value:>16.3f}" for value in values))


# As many tokens each: the smaller the chunks, the more of them. A chunk covers a passage that it
# has four fifths of, or that it is a part of.
metrics = ["recall", "ndcg@5", "precision"]
print(
    f"{len(documents)} handbooks, {len(passages)} questions about {len(passages.corpus)} passages\n"
)
print(f"{'by text':<24}{'recall':>16}{'ndcg@5':>16}{'precision':>16}")
for chunk_size in (128, 256, 512):
    chunks = splitter(chunk_size).get_nodes_from_documents(documents)
    top_k = 1024 // chunk_size
    results = evaluate(bm25(chunks, top_k), passages, metrics, matcher="text")
    print_row(f"{top_k} chunks of {chunk_size}", list(results.scores.means.values()))

# AutoMerging. Labels name the leaves that hold a passage; by id a parent holds none of them.
parsers = {"parents": splitter(512), "leaves": splitter(128)}
parser = HierarchicalNodeParser(node_parser_ids=list(parsers), node_parser_map=parsers)
nodes = parser.get_nodes_from_documents(documents)
leaves = get_leaf_nodes(nodes)
moved = move_labels(passages, leaves).dataset
docstore = SimpleDocumentStore()
docstore.add_documents(nodes)
plain = bm25(leaves, 8)
merging = AutoMergingRetriever(plain, StorageContext.from_defaults(docstore=docstore))

print(f"\n{'labels on leaves':<24}{'recall by id':>16}{'by text':>16}")
for name, retriever in (("leaves", plain), ("leaves merged", merging)):
    recalls = [
        evaluate(retriever, moved, ["recall"], matcher=matcher, name=name).scores.means["recall"]
        for matcher in (None, "text")
    ]
    print_row(name, recalls)
