"""Many judgements of an LLM, corrected by few of people."""
