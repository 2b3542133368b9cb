"""How work runs: event loops and threads, retries, progress, and whom a warning points at."""
