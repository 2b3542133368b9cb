"""The index that readers search, of the pages and of their readers' own words, by Pagefind."""

from __future__ import annotations

import subprocess
import sys
from html import escape
from pathlib import Path
from typing import Any

LEFT_OUT = ("changelog", "measurements", "zh-TW")
"""Pages, and beginnings of their names, that hold every word there is, or another language's."""

KEYWORDS = {
    "architecture": "source code structure modules layers contribute",
    "coming-from": (
        "migrate migration switch from alternative to pytrec_eval ir_measures beir mteb "
        "deepeval arize phoenix inspect faithfulness answer relevancy context precision "
        "hallucination"
    ),
    "compatibility": "python version 3.13 3.14 supported versions semantic versioning",
    "contributing": "contribute pull request development set-up write a metric patch bug report",
    "definitions": (
        "metric formula equation meaning definition ndcg mrr map recall@k precision hit rate f1 "
        "rbp err mean reciprocal rank average precision discounted cumulative gain"
    ),
    "howto/agents": (
        "tool calling multi-hop several searches function calling react workflow chat engine "
        "sub-question"
    ),
    "howto/chunk-sizes": "splitter chunking overlap chunk size sentence window",
    "howto/coding-agents": (
        "json output schema llms.txt claude cursor copilot coding agent script machine readable"
    ),
    "howto/collections": "benchmark public datasets beir mteb msmarco ir_datasets hugging face",
    "howto/command-line": "cli terminal shell commands options exit codes json output",
    "howto/comparing": (
        "a/b test two retrievers reranker worth it hybrid search versus vector search "
        "embedding model comparison which embedding better openai embeddings"
    ),
    "howto/comparing-agents": "two agents agent a/b which agent better",
    "howto/evaluating": (
        "quickstart first steps dataset retriever query engine concurrency workers async "
        "progress bar"
    ),
    "howto/examples": "sample code scripts copy",
    "howto/exporting": "export pandas excel csv json parquet latex dataframe download save results",
    "howto/files": "trec qrels run file parquet csv jsonl arrow stored rankings format import",
    "howto/gate": (
        "github actions gitlab jenkins junit pytest regression test threshold build fails "
        "pull request quality gate baseline.json"
    ),
    "howto/labels": (
        "ground truth gold labels missing labels wrong labels annotation pooling judgements "
        "holes unjudged"
    ),
    "howto/langchain": "langchain langgraph retriever vectorstore",
    "howto/llm-judge": (
        "ollama openai anthropic vllm azure local model api key llm as a judge grading "
        "umbrela rate limit cost cheaper"
        " is my judge any good"
    ),
    "howto/long-runs": (
        "resume checkpoint journal crash interrupted retry timeout rate limit 429 too many "
        "requests slow large "
        "dataset ctrl-c"
    ),
    "howto/losses": (
        "where was it lost pipeline stages reranker drops fusion filter top k bottleneck "
        "debug failing questions approximate nearest neighbour hnsw recall"
    ),
    "howto/notebooks": "jupyter colab ipynb html report share",
    "howto/own-metric": (
        "write my own custom metric contribute a metric plugin extend matcher function file format"
    ),
    "howto/ragas": (
        "ragas context precision context recall faithfulness migrate from ragas replacement"
    ),
    "howto/ray": "cluster distributed parallel scale many machines",
    "howto/reingestion": "ids changed reindexing re-index new chunks uuid keep labels after stale",
    "howto/relevance": "graded relevance grades multi-hop several correct documents alternatives",
    "howto/repeats": (
        "flaky nondeterministic unstable random temperature variance several runs consistency"
    ),
    "howto/report": "read interpret html output can't tell inconclusive worst questions cite",
    "howto/review": (
        "gold labels annotate label by hand annotation tool people judge browser human kappa"
        " agreement"
    ),
    "howto/spark": "databricks cluster big data distributed",
    "howto/stores": (
        "qdrant chroma pgvector postgres milvus lancedb faiss weaviate pinecone opensearch "
        "elasticsearch redis vector database index connect query engine"
    ),
    "howto/sweeps": (
        "hyperparameter tuning optimise parameters grid search optuna best configuration "
        "top_k alpha pareto cost"
    ),
    "howto/text-matching": (
        "match by text contains fuzzy normalise no ids ids don't match different chunks "
        "all scores are zero"
    ),
    "howto/text-metrics": (
        "cohere api key rerank embedding similarity cosine bm25 semantic without labels"
    ),
    "howto/token-budgets": (
        "recall within 2000 tokens token limit context window prompt budget cost latency money"
    ),
    "howto/traces": (
        "production logs opentelemetry otel openinference phoenix langfuse langsmith "
        "langchain observability spans"
    ),
    "howto/unanswerable": "abstain no answer out of scope similarity cutoff score threshold reject",
    "howto/who-asks": "metadata user tenant chat history conversation follow-up multi-turn",
    "howto/without-llamaindex": (
        "any retriever own search http rest api elasticsearch solr haystack no llamaindex "
        "without framework"
    ),
    "recipes": "p value wilcoxon latex mlflow pass@k permissions filters squad junit",
    "speed": "benchmark performance fast memory",
    "statistics": (
        "significance test p-value confidence interval sample size power how many questions "
        "do I need is the difference real bootstrap no measurable difference can't tell"
    ),
    "tutorials/an-agent": "agent tutorial tool calling",
    "tutorials/first-decision": "getting started quickstart tutorial beginner install",
    "tutorials/in-ci": "github actions continuous integration pipeline tutorial",
    "tutorials/without-labels": "no labels no ground truth synthetic generate questions dataset",
    "which-metric": "which metric should I use choose recommended best metric k cutoff",
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
