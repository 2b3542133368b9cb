"""A metric of one's own: a name and one formula. It then takes part in everything."""

from llama_index.core.evaluation import RetrieverEvaluator
from llama_index.core.schema import TextNode
from llama_index.retrievers.bm25 import BM25Retriever

from llama_index_rag_metrics import BinaryMetric, evaluate, metric, register, score_rankings
from llama_index_rag_metrics.rankings.judging.judged import Hits
from llama_index_rag_metrics.runtime.containers import FloatArray


class LastHit(BinaryMetric):
    """1 / the rank of the last hit: how deep a reader must go to have seen all that was found."""

    name = "last_hit"

    def score(self, hits: Hits) -> FloatArray:
        last = hits.ordinal == hits.count[hits.query]
        return hits.sum_by_query(last / hits.rank)


register(LastHit)

print(metric("last_hit(min_grade=2)@10").metric_name)
scores = score_rankings([["a", "b"], ["c"]], [["a", "x", "b"], ["x", "c"]], ["last_hit", "mrr"])
print(scores.by_query("last_hit"))

nodes = [
    TextNode(id_="a", text="The kiln fires at 1240 degrees."),
    TextNode(id_="b", text="Two keys start the kiln."),
    TextNode(id_="c", text="The laser cutter is booked online."),
]
retriever = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=3)
stock = RetrieverEvaluator.from_metric_names(["last_hit@5"], retriever=retriever)
print(stock.evaluate("kiln", expected_ids=["a", "b"]).metric_vals_dict)

dataset = {"queries": {"q1": "kiln"}, "corpus": {}, "relevant_docs": {"q1": ["a", "b"]}}
print(evaluate(retriever, dataset, ["last_hit@3", "ndcg@3"]))
