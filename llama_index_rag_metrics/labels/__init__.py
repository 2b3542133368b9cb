"""Labels, checked and moved to new nodes; what to judge next; questions by an LLM."""
