"""`python -m llama_index_rag_metrics`: the same as the command `rag-metrics`."""

from llama_index_rag_metrics.cli import main

main()
