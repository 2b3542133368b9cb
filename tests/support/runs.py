"""What runs hold, as plain dicts."""

from llama_index_rag_metrics import Run


def ids_of(run: Run) -> dict[str, list[str]]:
    return {query_id: list(ranking.ids) for query_id, ranking in run.items()}
