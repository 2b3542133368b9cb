"""A large space of parameters, searched by Optuna instead of a grid; sweep() then decides.

The search sees half of the questions, and the sweep the other half: the best of many trials on the
same questions is partly luck.
"""
# ci: optuna

import optuna
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever

from llama_index_rag_metrics import evaluate, sweep
from llama_index_rag_metrics.demo.collection import load_collection
from llama_index_rag_metrics.demo.retrievers import bm25, lsa

dataset = load_collection()
nodes = dataset.to_nodes()
searched, held_out = dataset.split(0.5, seed=1)


def build(kind, top_k):
    if kind != "hybrid":
        return {"bm25": bm25, "lsa": lsa}[kind](nodes, top_k)
    members = [bm25(nodes, 2 * top_k), lsa(nodes, 2 * top_k)]
    return QueryFusionRetriever(
        members, llm=MockLLM(), num_queries=1, mode="reciprocal_rerank", similarity_top_k=top_k
    )


def objective(trial):
    params = {
        "kind": trial.suggest_categorical("kind", ["bm25", "lsa", "hybrid"]),
        "top_k": trial.suggest_int("top_k", 2, 10),
    }
    scores = evaluate(build(**params), searched, ["ndcg@10"]).scores
    return scores.means["ndcg@10"]


optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=1))
study.optimize(objective, n_trials=12)

# The five best trials, each once, judged on questions that the search never saw.
trials = sorted(study.trials, key=lambda trial: -trial.value)
best = list({str(trial.params): trial.params for trial in trials}.values())[:5]
print(sweep(build, best, held_out, ["ndcg@10", "recall@10"]))
