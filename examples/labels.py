"""Labels that outlive their nodes: documents are cut anew, and the labels are checked and moved.

The same documents are split at another size, so that every node id changes. The check says so, the
labels move to the new nodes, and scores are comparable again. Then: what to judge next, to decide
which of two retrievers is better.
"""

from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import Document

from llama_index_rag_metrics import Relevance, RetrievalDataset
from llama_index_rag_metrics.labels import check_labels, move_labels, pool

TEXT = (
    "The kiln is fired on Fridays. Stoneware is fired at 1,240 degrees for ten hours, and glazes "
    "mature at the end. Nobody opens the kiln before Sunday. Members keep their keys in the "
    "office. A firing costs four euros a kilogram, and the fee is due when the pots are collected. "
    "Pots that are left for more than a month go to the flea market."
)
handbook = Document(id_="handbook", text=TEXT)


def place(passage: str) -> tuple[str, int, int]:
    """Where a passage is in the handbook."""
    start = TEXT.index(passage)
    return "handbook", start, start + len(passage)


# Labels by place outlive every change of chunk size.
dataset = RetrievalDataset(
    {"q1": "How hot does the stoneware kiln get?", "q2": "What does a firing cost?"},
    {
        "q1": Relevance(spans=[place("Stoneware is fired at 1,240 degrees for ten hours")]),
        "q2": Relevance(spans=[place("A firing costs four euros a kilogram")]),
    },
    {"handbook": TEXT},
    name="handbook",
)


def nodes_of(document: Document, chunk_size: int) -> list:
    splitter = SentenceSplitter(chunk_size=chunk_size, chunk_overlap=0)
    return splitter.get_nodes_from_documents([document])


small = move_labels(dataset, nodes_of(handbook, 30)).dataset
print(f"{len(small.corpus)} small nodes; q1 is answered by {list(small.relevance['q1'])}\n")

# Chunks of another size have other ids: the check finds where the texts are now.
large = nodes_of(handbook, 60)
print(check_labels(small, large), "\n")
moved = move_labels(small, large)
print(moved, "\n")

# Somebody edits the handbook above the passages: texts count, not places.
edited = Document(id_="handbook", text=f"A new rule comes first: no shoes near the wheels. {TEXT}")
print(check_labels(dataset, [edited]), "\n")

# Two retrievers, few judgements: which passages tell them apart?
runs = {
    "words": {"q1": ["n1", "n2", "n3"], "q2": ["n4", "n1", "n2"]},
    "vectors": {"q1": ["n1", "n3", "n2"], "q2": ["n1", "n5", "n4"]},
}
print(pool(runs, {"q1": {"n1": 1}}, depth=3, n=3))
