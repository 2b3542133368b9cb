"""The index that readers search, of the pages and of their readers' own words, by Pagefind."""

from __future__ import annotations

import subprocess
import sys
from html import escape
from pathlib import Path
from typing import Any

LEFT_OUT = ("zh-TW",)
"""Pages, and beginnings of their names, that hold every word there is, or another language's."""

KEYWORDS = {
    "architecture": (
        "source code structure modules layers contribute python version 3.13 3.14 supported "
        "versions semantic versioning pull request development set-up write a metric patch "
        "bug report"
    ),
    "choose": (
        "where was it lost pipeline stages reranker drops fusion filter top k bottleneck "
        "debug failing questions approximate nearest neighbour hnsw recall hyperparameter "
        "tuning optimise parameters grid search optuna best configuration top_k alpha pareto "
        "cost"
    ),
    "coming-from": (
        "migrate migration switch from alternative to pytrec_eval ir_measures beir mteb "
        "deepeval arize phoenix inspect faithfulness answer relevancy context precision "
        "hallucination langchain langgraph retriever vectorstore ragas recall replacement"
    ),
    "command-line": (
        "json output schema llms.txt claude cursor copilot coding agent script machine "
        "readable cli terminal shell commands options exit codes"
    ),
    "compare": (
        "a/b test two retrievers reranker worth it hybrid search versus vector embedding "
        "model comparison which better openai embeddings agents agent"
    ),
    "data": (
        "benchmark public datasets beir mteb msmarco ir_datasets hugging face export pandas "
        "excel csv json parquet latex dataframe download save results trec qrels run file "
        "jsonl arrow stored rankings format import graded relevance grades multi-hop several "
        "correct documents alternatives"
    ),
    "definitions": (
        "metric formula equation meaning definition ndcg mrr map recall@k precision hit rate "
        "f1 rbp err mean reciprocal rank average discounted cumulative gain which should I "
        "use choose recommended best k cutoff"
    ),
    "evaluate": (
        "quickstart first steps dataset retriever query engine concurrency workers async "
        "progress bar resume checkpoint journal crash interrupted retry timeout rate limit "
        "429 too many requests slow large ctrl-c qdrant chroma pgvector postgres milvus "
        "lancedb faiss weaviate pinecone opensearch elasticsearch redis vector database index "
        "connect recall within 2000 tokens token context window prompt budget cost latency "
        "money abstain no answer out of scope similarity cutoff score threshold reject "
        "metadata user tenant chat history conversation follow-up multi-turn any own search "
        "http rest api solr haystack llamaindex without framework"
    ),
    "gate": (
        "github actions gitlab jenkins junit pytest regression test threshold build fails "
        "pull request quality gate baseline.json"
    ),
    "labels": (
        "ground truth gold labels missing wrong annotation pooling judgements holes unjudged "
        "ids changed reindexing re-index new chunks uuid keep after stale annotate label by "
        "hand tool people judge browser human kappa agreement match text contains fuzzy "
        "normalise no don't different all scores are zero"
    ),
    "own-metric": "write my own custom metric contribute a plugin extend matcher function format",
    "recipes": "p value wilcoxon latex mlflow pass@k permissions filters squad junit",
    "report": (
        "jupyter colab ipynb html report share read interpret output can't tell inconclusive "
        "worst questions cite paper"
    ),
    "scale": (
        "cluster distributed parallel scale many machines databricks big data benchmark "
        "performance fast memory"
    ),
    "statistics": (
        "significance test p-value confidence interval sample size power how many questions "
        "do I need is the difference real bootstrap no measurable can't tell"
    ),
    "traces": (
        "production logs opentelemetry otel openinference phoenix langfuse langsmith "
        "langchain observability spans"
    ),
    "tutorials/an-agent": (
        "tool calling multi-hop several searches function react workflow chat engine sub- "
        "question flaky nondeterministic unstable random temperature variance runs "
        "consistency agent tutorial"
    ),
    "tutorials/first-decision": "getting started quickstart tutorial beginner install",
    "tutorials/in-ci": "github actions continuous integration pipeline tutorial",
    "tutorials/without-labels": "no labels ground truth synthetic generate questions dataset",
    "without-labels": (
        "splitter chunking overlap chunk size sentence window ollama openai anthropic vllm "
        "azure local model api key llm as a judge grading umbrela rate limit cost cheaper is "
        "my any good cohere rerank embedding similarity cosine bm25 semantic without labels"
    ),
}
"""What readers call the subject of a page, and other tools whose users look for it."""


def index(app: Any, exception: Exception | None) -> None:
    """Mark what is searched in each page, once all are written, and make the index of it."""
    if exception is not None or app.builder.format != "html":
        return
    if unknown := KEYWORDS.keys() - app.env.found_docs:
        raise ValueError(f"there are keywords of pages that don't exist: {sorted(unknown)}")
    for name in app.env.found_docs:
        if name.startswith(LEFT_OUT):
            continue
        path = Path(app.outdir) / f"{name}.html"
        text = path.read_text(encoding="utf-8")
        text = text.replace('<article role="main"', '<article role="main" data-pagefind-body', 1)
        if words := KEYWORDS.get(name):
            meta = f'<meta data-pagefind-meta="keywords[content]" content="{escape(words)}">'
            text = text.replace("</head>", f"{meta}</head>", 1)
        path.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pagefind", "--site", str(app.outdir), "--quiet"]
    command += ["--exclude-selectors", ".headerlink"]
    subprocess.run(command, check=True)


def setup(app: Any) -> dict[str, Any]:
    """Register the hook."""
    app.connect("build-finished", index)
    return {"version": "1", "parallel_read_safe": True}
