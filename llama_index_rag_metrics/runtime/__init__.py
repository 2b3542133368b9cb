"""How work runs, and survives: errors, event loop, threads, retries, cache, journal, files."""
