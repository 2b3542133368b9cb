"""Moving labels to new nodes."""
