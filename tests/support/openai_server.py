"""A server on loopback that speaks OpenAI's chat completions."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class OpenAIServer:
    """What was asked, and what to answer.

    Attributes:
        api_base: where the server listens.
        answer: gives the content of the answer to a prompt; where the request has a tool, the
            arguments of its call, unless they aren't JSON.
        key: the only key that isn't refused; None: any. Whoever sends another one is told it.
        requests: the bodies of all requests, refused ones too.
        prompts: the last message of each that isn't refused.
    """

    def __init__(self, api_base: str, answer: Callable[[str], str]) -> None:
        self.api_base = api_base
        self.answer = answer
        self.key: str | None = None
        self.requests: list[dict[str, Any]] = []
        self.prompts: list[str] = []

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body of an answer; it costs 100 tokens, and 7."""
        self.prompts.append(body["messages"][-1]["content"])
        said = self.answer(self.prompts[-1])
        message: dict[str, Any] = {"role": "assistant", "content": said}
        if body.get("tools") and said.startswith("{"):
            call = {"name": body["tools"][0]["function"]["name"], "arguments": said}
            message["tool_calls"] = [{"id": "call", "type": "function", "function": call}]
            message["content"] = None
        return {
            "id": "completion",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107},
        }


@contextmanager
def openai_server(answer: Callable[[str], str]) -> Iterator[OpenAIServer]:
    """A server that listens as long as the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            body = json.loads(self.rfile.read(length))
            server.requests.append(body)
            key = self.headers["authorization"].removeprefix("Bearer ")
            is_refused = server.key not in (None, key)
            refusal = {"error": {"message": f"Incorrect API key provided: {key}"}}
            reply = json.dumps(refusal if is_refused else server.reply(body)).encode()
            self.send_response(401 if is_refused else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: Any) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    server = OpenAIServer(f"http://127.0.0.1:{listening.server_port}/v1", answer)
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()
