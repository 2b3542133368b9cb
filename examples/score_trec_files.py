"""Stored runs, side by side: TREC files in, scores out. No retriever is asked."""

import tempfile
from pathlib import Path

from llama_index_rag_metrics import (
    compare,
    read_qrels,
    read_run,
    score_rankings,
    write_qrels,
    write_run,
)

BM25 = """\
q1 Q0 kiln 1 12.5 bm25
q1 Q0 laser 2 7.25 bm25
q1 Q0 glaze 3 7.25 bm25
q2 Q0 garden 1 9.0 bm25
q2 Q0 potato 2 8.5 bm25
"""

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    write_qrels(
        {"q1": {"kiln": 1, "glaze": 3, "laser": 0}, "q2": {"potato": 2}, "q3": {"mortgage": 1}},
        folder / "qrels.txt",
    )
    (folder / "bm25.run").write_text(BM25)
    write_run({"q1": ["glaze", "kiln"], "q2": ["potato"], "q3": ["loan"]}, folder / "dense.jsonl")

    qrels = read_qrels(folder / "qrels.txt")
    runs = [read_run(folder / "bm25.run"), read_run(folder / "dense.jsonl")]
    # bm25's laser and glaze tie, and trec_eval's rule puts the higher id first: laser
    print({query_id: one.ids for query_id, one in runs[0].items()})
    systems = [score_rankings(qrels, run, ["ndcg@5", "ap", "recall@5"]) for run in runs]
    print(compare({scores.name: scores for scores in systems}, baseline="bm25"))

    # for ranx, pytrec_eval, ir_measures and trec_eval itself
    write_run(runs[1], folder / "dense.run")
    print((folder / "dense.run").read_text())
