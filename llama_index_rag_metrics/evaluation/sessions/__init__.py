"""Sessions: agents, workflows and other code that retrieves several times for one question."""
