"""Questions that follow others: the last turn alone, and with what was said before.

Every turn is a question of its own; turns of a conversation count as one cluster.
"""

# ci: demo
from llama_index_rag_metrics import RetrievalDataset, compare, evaluate
from llama_index_rag_metrics.demo.retrievers import bm25

corpus = {
    "geysers": "Enceladus, a moon of Saturn, has geysers.",
    "herschel": "William Herschel found Enceladus in 1789.",
    "cassini": "Cassini flew past Enceladus.",
    "olympus": "Olympus Mons on Mars is the highest volcano.",
    "height": "Olympus Mons rises 22 kilometres.",
    "mariner": "Mariner 9 showed Olympus Mons in 1971.",
    "spot": "The Great Red Spot of Jupiter is a storm.",
    "shrinks": "The storm on Jupiter has been shrinking.",
}
conversations = {
    "saturn": {
        "Which moon has geysers?": "geysers",
        "Who saw it first?": "herschel",
        "Has anybody been near?": "cassini",
    },
    "mars": {
        "Which is the highest volcano?": "olympus",
        "How tall?": "height",
        "Since when do we know?": "mariner",
    },
    "jupiter": {"What is the Great Red Spot?": "spot", "Does it change?": "shrinks"},
}

queries, relevance, metadata = {}, {}, {}
for conversation, turns in conversations.items():
    history = []
    for number, (question, passage) in enumerate(turns.items(), 1):
        query_id = f"{conversation} {number}"
        queries[query_id], relevance[query_id] = question, [passage]
        metadata[query_id] = {"conversation": conversation, "history": list(history)}
        answer = {"role": "assistant", "content": corpus[passage]}
        history += [{"role": "user", "content": question}, answer]
dataset = RetrievalDataset(queries, relevance, corpus, metadata)
retriever = bm25(dataset.to_nodes(), 3)


def with_history(question, metadata):
    """Searches for the question and the answer before it."""
    said = [message["content"] for message in metadata["history"][-1:]]
    return retriever.retrieve(" ".join([*said, question]))


systems = {
    "last turn": evaluate(retriever, dataset, ["recall@3"]),
    "with history": evaluate(with_history, dataset, ["recall@3"]),
}
print(systems["last turn"].scores.notes[-1])
print(compare(systems, "last turn"))
