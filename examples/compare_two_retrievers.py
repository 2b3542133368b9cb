"""Two LlamaIndex retrievers: is one better, for whom, and would both together be better still?

A keyword retriever and a vector index answer 63 graded questions of the shipped collection. The
metric that decides is named before any number is seen. The two fused by LlamaIndex are the third
system; then all are compared with the first one, paired by query.
"""

from llama_index_rag_metrics import compare, evaluate
from llama_index_rag_metrics.demo.collection import load_collection
from llama_index_rag_metrics.demo.retrievers import bm25, hybrid, lsa

DECIDES = "ndcg@10"

dataset = load_collection()
nodes = dataset.to_nodes()
keyword = evaluate(bm25(nodes, 20), dataset, [DECIDES], name="keyword")
vector = evaluate(lsa(nodes, 20), dataset, [DECIDES], name="vector")
both = evaluate(hybrid(nodes, 20), dataset, [DECIDES], match_on="ref_doc_id", name="both")
systems = {"keyword": keyword, "vector": vector, "both": both}

comparison = compare(systems, baseline="keyword")
for system, mean in ((name, comparison.means[name, DECIDES]) for name in systems):
    print(f"{system:<8} {mean.mean:.4f}  ({mean.low:.4f} to {mean.high:.4f})")
print()
for difference in comparison:
    print(difference.verdict)

print(f"\n{DECIDES} by language: difference from keyword, questions won and lost")
parts = {
    "keyword": keyword.scores.slices("language"),
    "vector": vector.scores.slices("language"),
    "both": both.scores.slices("language"),
}
for language in parts["keyword"]:
    for one in compare({name: parts[name][language] for name in parts}, baseline="keyword"):
        print(f"  {language}  {one.system:<7}{one.difference:+.4f}  +{one.wins} -{one.losses}")

by_query = comparison.by_query("both", DECIDES)
lost = min(by_query, key=lambda query_id: by_query[query_id])
print(f"\nWhere both together lose most ({by_query[lost]:+.4f}): {dataset.queries[lost]}")
for name, run in (("keyword", keyword.run), ("both", both.run)):
    grades = dataset.relevance[lost].grades
    top = [f"{item} [{grades[item]:g}]" if item in grades else item for item in run[lost].ids[:3]]
    print(f"  {name:<8} {', '.join(top)}")

better = [one for one in comparison if one.outcome == "better"]
if better:
    chosen = max(better, key=lambda one: one.difference)
    print(f"\nDecision: {chosen.system} instead of keyword. Build it, and measure its latency.")
else:
    print("\nDecision: keyword stays. More questions, or a larger change, would be needed.")
