"""A refused key ends asking, in whatever words the client of the service tells it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from llama_index_rag_metrics import RetrievalDataset, evaluate

QUERIES = {f"q{n}": f"{n}?" for n in range(12)}
DATASET = RetrievalDataset(QUERIES, {query_id: ["d"] for query_id in QUERIES})


@pytest.fixture
def search() -> Iterator[Any]:
    """A method of a gRPC server on loopback that answers with the status that it is asked for."""
    grpc = pytest.importorskip("grpc", reason="the component itself")

    class Refuse(grpc.GenericRpcHandler):  # type: ignore[misc, name-defined]
        def service(self, _: Any) -> Any:
            def handle(request: bytes, context: Any) -> bytes:
                name = request.decode()
                if name != "OK":
                    context.abort(grpc.StatusCode[name], "refused here")
                return b""

            return grpc.unary_unary_rpc_method_handler(handle)

    server = grpc.server(ThreadPoolExecutor(2), [Refuse()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel.unary_unary("/vectors.Store/Search")
    server.stop(None).wait()


@pytest.mark.filterwarnings("ignore::llama_index_rag_metrics.errors.EveryQueryFailed")
@pytest.mark.parametrize(
    ("status", "n_sent"),
    [("UNAUTHENTICATED", 1), ("PERMISSION_DENIED", 1), ("UNAVAILABLE", 12)],
)
def test_grpc(search: Any, status: str, n_sent: int) -> None:
    sent = 0

    def retrieve(_: str) -> list[str]:
        nonlocal sent
        sent += 1
        search(status.encode())
        return ["d"]

    results = evaluate(retrieve, DATASET, ["recall"], workers=1)
    assert (len(results.scores.failed), sent) == (12, n_sent)


def test_grpc_forbids_one_query_of_many(search: Any) -> None:

    def retrieve(query: str) -> list[str]:
        search(b"PERMISSION_DENIED" if query == "5?" else b"OK")
        return ["d"]

    results = evaluate(retrieve, DATASET, ["recall"], workers=1)
    assert list(results.scores.failed) == ["q5"]


@pytest.mark.filterwarnings("ignore::llama_index_rag_metrics.errors.EveryQueryFailed")
@pytest.mark.parametrize(
    ("code", "status", "n_sent"),
    [
        ("UnrecognizedClientException", 400, 1),
        ("ExpiredTokenException", 400, 1),
        ("AccessDeniedException", 400, 1),
        ("SomethingElse", 401, 1),
        ("ThrottlingException", 400, 12),
    ],
)
def test_aws(code: str, status: int, n_sent: int) -> None:
    exceptions = pytest.importorskip("botocore.exceptions", reason="the component itself")
    sent = 0

    def retrieve(_: str) -> list[str]:
        nonlocal sent
        sent += 1
        answer = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
        raise exceptions.ClientError(answer, "Retrieve")

    results = evaluate(retrieve, DATASET, ["recall"], workers=1)
    assert (len(results.scores.failed), sent) == (12, n_sent)
