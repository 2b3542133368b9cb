"""A server on loopback that speaks Cohere's rerank, API v2, and its faults.

HTTP/1.1 with keep-alive: a client that is carried over to another event loop shows.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REQUEST_ID = "00000000-aaaa-bbbb-cccc-000000000000"

Body = dict[str, Any]


def relevance(query: str, text: str) -> float:
    """The share of the query's words that the text has: the scores that the server gives."""
    wanted = set(query.lower().split())
    return len(wanted & set(text.lower().split())) / len(wanted)


@dataclass(frozen=True)
class Fault:
    """What the server does instead of answering well.

    Attributes:
        status: the HTTP status.
        body: the body as it is sent; None: an error as Cohere words it.
        headers: further headers.
        seconds: how long to wait before anything is sent.
        change: changes the good answer before it is sent, with status 200.
        cut: promise the whole answer and close the connection in the middle of it.
    """

    status: int = 200
    body: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    change: Callable[[Body], Any] | None = None
    cut: bool = False


class CohereServer:
    """What was asked, and what to answer.

    Attributes:
        base_url: where the server listens.
        requests: the bodies of all requests, in order.
        times: when each came.
        keys: the Authorization header of each.
        connections: how many connections were opened.
        open_connections: how many of them aren't closed yet.
        faults: the faults of the next requests, one each; then all is well again.
        fault_of: the fault of every request with that query.
        seconds: how long a good answer takes.
        together: a good answer waits there for others.
        most_at_once: the highest number of requests that were in the server at once.
    """

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.requests: list[Body] = []
        self.times: list[float] = []
        self.keys: list[str] = []
        self.connections = 0
        self.open_connections = 0
        self.faults: list[Fault] = []
        self.fault_of: dict[str, Fault] = {}
        self.seconds = 0.0
        self.together: threading.Barrier | None = None
        self.most_at_once = 0
        self.at_once = 0
        self.lock = threading.Lock()

    @property
    def documents(self) -> list[str]:
        """The documents of all requests."""
        return [text for body in self.requests for text in body["documents"]]


@contextmanager
def cohere_server() -> Iterator[CohereServer]:
    """A server on a free port of 127.0.0.1."""

    class Handler(_Handler):
        pass

    http = _Server(("127.0.0.1", 0), Handler)
    server = CohereServer(f"http://127.0.0.1:{http.server_port}")
    Handler.cohere = server
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone away is what some tests want."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 30
    cohere: CohereServer

    def setup(self) -> None:
        super().setup()
        with self.cohere.lock:
            self.cohere.connections += 1
            self.cohere.open_connections += 1

    def finish(self) -> None:
        super().finish()
        with self.cohere.lock:
            self.cohere.open_connections -= 1

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server = self.cohere
        with server.lock:
            server.requests.append(body)
            server.times.append(time.monotonic())
            server.keys.append(self.headers.get("authorization", ""))
            server.at_once += 1
            server.most_at_once = max(server.most_at_once, server.at_once)
            fault = server.fault_of.get(body["query"])
            if fault is None and server.faults:
                fault = server.faults.pop(0)
        try:
            if fault is None and server.together is not None:
                server.together.wait()
            time.sleep(server.seconds if fault is None else fault.seconds)
        finally:
            with server.lock:
                server.at_once -= 1
        self._answer(body, fault or _refused(self.path, body) or Fault())

    def _answer(self, body: Body, fault: Fault) -> None:
        if fault.status == 200 and fault.body is None:
            good = _good(body)
            text = json.dumps(good if fault.change is None else fault.change(good))
        elif fault.body is None:
            text = json.dumps({"id": REQUEST_ID, "message": _MESSAGES.get(fault.status, "sorry")})
        else:
            text = fault.body
        raw = text.encode("latin-1" if "content-encoding" in fault.headers else "utf-8")
        self.send_response(fault.status)
        for name, value in {"content-type": "application/json", **fault.headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw[: len(raw) // 2] if fault.cut else raw)
        self.close_connection = self.close_connection or fault.cut

    def log_message(self, *_: Any) -> None:
        """Nothing."""


_MESSAGES = {
    400: "invalid request",
    401: "invalid api token",
    402: "Please add or update your payment method at https://dashboard.cohere.com/billing",
    404: "model 'xyz' not found, make sure the correct model ID was used",
    429: "You are using a Trial key, which is limited to 10 API calls / minute.",
    500: "internal server error",
    503: "service unavailable",
}


def _good(body: Body) -> Body:
    scored = [
        {"index": index, "relevance_score": relevance(body["query"], text)}
        for index, text in enumerate(body["documents"])
    ]
    scored.sort(key=lambda result: -result["relevance_score"])
    units = -(-len(scored) // 100)
    return {
        "id": REQUEST_ID,
        "results": scored[: body.get("top_n") or None],
        "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": units}},
    }


def _refused(path: str, body: Body) -> Fault | None:
    """What Cohere refuses."""
    problems = {
        "list of documents must not be empty": not body["documents"],
        "query must not be empty or be only whitespace": not body["query"].strip(),
        "document at index 0 cannot be empty": not all(
            document.strip() for document in body["documents"]
        ),
        "too many documents": len(body["documents"]) > 10_000,
    }
    if not path.endswith("/rerank"):
        return Fault(404, json.dumps({"id": REQUEST_ID, "message": f"no {path}"}))
    for message, holds in problems.items():
        if holds:
            return Fault(400, json.dumps({"id": REQUEST_ID, "message": message}))
    return None
