"""The cache: nothing paid is asked twice.

One cache serves embeddings, reranks and judgements. It lies on LlamaIndex's `BaseKVStore`, so that
a team may share one in Redis or Postgres; by default on SQLite, in a file that survives kill -9 and
several processes at once. A key is a hash of all that a value depends on and of no secret; a value
is JSON. Requests for the same value that are under way in one event loop become one; where a store
knows of claims, as SQLite's does, so do those of several processes.
"""
