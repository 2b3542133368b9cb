"""How far a judge can be trusted: agreement with others, and checks of an LLM judge."""
