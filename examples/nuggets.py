"""Nuggets: how much of what an answer needs was retrieved, offline.

A stand-in for an LLM takes each sentence for a fact, and finds facts by their words. With a real
one, give any LLM of LlamaIndex: `create_nuggets(dataset, OpenAI("gpt-4o"), cache="nuggets.cache")`.
"""

import json
import re

from llama_index.core.llms import CompletionResponse, MockLLM

from llama_index_rag_metrics import (
    RetrievalDataset,
    assign_nuggets,
    create_nuggets,
    evaluate,
    score_rankings,
)
from llama_index_rag_metrics.demo.retrievers import bm25

dataset = RetrievalDataset(
    queries={"q1": "Why is Enceladus of interest?", "q2": "What is odd about Triton?"},
    relevance={"q1": ["jets", "ice"], "q2": ["triton"]},
    corpus={
        "jets": "Jets of water vapour rise from Enceladus. Cassini saw them in 2005.",
        "ice": "The ice of Enceladus covers an ocean.",
        "triton": "Triton circles Neptune backwards. Its thin air is mostly nitrogen.",
        "io": "Io is of interest, too: volcanoes cover it.",
    },
)


class StandIn(MockLLM):
    def complete(self, prompt, formatted=False, **options):
        def between(tag):
            return re.findall(rf"<{tag}[^>]*>\n(.*?)\n</{tag}>", prompt, re.DOTALL)

        facts = between("fact")
        if '"facts"' in prompt:
            sentences = [part for text in between("passage") for part in text.split(". ")]
            return self.json(facts=facts + [sentence.rstrip(".") for sentence in sentences])
        if "vital" in prompt:
            return self.json(labels=["okay" if "Cassini" in fact else "vital" for fact in facts])
        (passage,) = between("passage")
        return self.json(labels=["full" if fact in passage else "none" for fact in facts])

    def json(self, **fields):
        return CompletionResponse(text=json.dumps(fields))


systems = {
    depth: evaluate(bm25(dataset.to_nodes(), depth), dataset, ["recall"], show_progress=False)
    for depth in (1, 3)
}
runs = [results.run for results in systems.values()]

nuggets = create_nuggets(dataset, StandIn())
nuggets = assign_nuggets(nuggets, runs, StandIn(), corpus=dataset.corpus)
print(nuggets, end="\n\n")

for depth, run in zip(systems, runs, strict=True):
    scores = score_rankings(nuggets.relevance(), run, ["facet_recall", "complete", "alpha_ndcg@3"])
    print(f"{depth} passages: {dict(scores.means)}")
