"""A real pgvector, which a wheel brings with its server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

REASON = "pgserver or llama-index-vector-stores-postgres isn't installed"


@contextmanager
def pgvector_store(table: str) -> Iterator[Any]:
    """A store of vectors of two dimensions; the test is skipped where there is no server."""
    pgserver = pytest.importorskip("pgserver", reason=REASON)
    postgres = pytest.importorskip("llama_index.vector_stores.postgres", reason=REASON)
    # no folder of pytest's: as root, its server is another user's, who may not look into those
    with TemporaryDirectory() as folder:
        server = pgserver.get_server(f"{folder}/pg", cleanup_mode="delete")
        server.psql("CREATE EXTENSION vector")
        socket = parse_qs(urlsplit(server.get_uri()).query)["host"][0]
        address = f"://postgres@/postgres?host={socket}"
        store = postgres.PGVectorStore(
            connection_string=f"postgresql+psycopg2{address}",
            async_connection_string=f"postgresql+asyncpg{address}",
            table_name=table,
            embed_dim=2,
        )
        try:
            yield store
        finally:
            asyncio.run(store.close())
            server.cleanup()
