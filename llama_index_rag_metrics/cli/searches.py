"""Retrievers that aren't Python: an address that answers, or a program that is run."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import ssl
from asyncio.subprocess import Process, SubprocessStreamProtocol
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, quote, urlsplit

import httpx
from llama_index.core.schema import NodeWithScore, TextNode

from llama_index_rag_metrics.runtime.errors import InvalidInput, UnusableAnswer
from llama_index_rag_metrics.runtime.masking import mask, names_secret, register_secret

Search: TypeAlias = Callable[[str], Awaitable[list[NodeWithScore]]]

COMMAND = "command: "
"""What a spelling of a program begins with."""

_ADDRESS = re.compile(r"https?://")
_SHAPE = 'a list, best first, of ids or of {"id": …, "text": …, "score": …, "metadata": {…}}'
_LISTS = ("results", "hits", "documents", "passages", "nodes")
_PLACES = re.compile(r"\{(query|top_k)\}")
_MOST_SHOWN = 300
_BUFFERED = 1 << 16  # bytes of a pipe, as asyncio's own
_KEYS = {"auth", "code", "key", "sig", "signature"}
"""Parameters that carry a secret, beside those whose names say so."""


def name_of(spec: str) -> str:
    """The host and path of an address, or the last file that a program names; "" of neither."""
    if spec.startswith(COMMAND):
        words = [
            word
            for word in _words(spec)
            if not word.startswith("-") and "{" not in word and mask(word) == word
        ]
        return Path(words[-1]).stem if words else "program"
    parts = urlsplit(_PLACES.sub("", spec)) if _ADDRESS.match(spec) else None
    return f"{parts.hostname}{parts.path}".rstrip("/") if parts else ""


def shown(spec: str) -> str:
    """The spelling without its credentials, which are masked wherever they would appear."""
    parts = urlsplit(spec) if _ADDRESS.match(spec) else None
    if parts:
        pairs = [("key", parts.password or parts.username or ""), *parse_qsl(parts.query)]
    else:
        words = _words(spec) if spec.startswith(COMMAND) else []
        pairs = [*pairwise(words), *(word.partition("=")[::2] for word in words)]
    for name, value in pairs:
        plain = name.lstrip("-").lower()
        if (plain in _KEYS or names_secret(plain)) and not _PLACES.search(value):
            register_secret(value)
    return mask(spec)


def search_of(spec: str) -> Callable[[int], Search] | None:
    """A factory of the function that asks an address, or a program, one question."""
    if not name_of(spec):
        return None
    if spec.startswith(COMMAND):
        words = _words(spec)
        if shutil.which(words[0]) is None:
            expected = "a program that is here and may be run"
            remedy = "Install it, or give its path."
            raise InvalidInput("--retriever-command", words[0], expected, remedy)
        ask = partial(_run, words)
    elif "{query}" in spec:
        ask = partial(_get, spec, httpx.create_ssl_context())
    else:
        expected = "an address with {query} where the question goes"
        raise InvalidInput("--retriever", spec, expected, "As in http://host/search?q={query}.")

    def factory(similarity_top_k: int) -> Search:
        async def search(query: str) -> list[NodeWithScore]:
            return await ask(query, similarity_top_k)

        return search

    return factory


def _words(spec: str) -> list[str]:
    try:
        words = shlex.split(spec.removeprefix(COMMAND))
    except ValueError as error:
        expected = f"a command line ({error})"
        raise InvalidInput("--retriever-command", spec, expected) from error
    if not words:
        raise InvalidInput("--retriever-command", "", "a program, and its arguments")
    return words


def _filled(template: str, query: str, top_k: int) -> str:
    values = {"query": query, "top_k": str(top_k)}
    return _PLACES.sub(lambda place: values[place[1]], template)


async def _get(address: str, tls: ssl.SSLContext, query: str, top_k: int) -> list[NodeWithScore]:
    async with httpx.AsyncClient(verify=tls, timeout=None, follow_redirects=True) as client:
        answer = await client.get(_filled(address, quote(query, safe=""), top_k))
    if answer.is_error:
        said = f"{answer.status_code} {answer.reason_phrase}: {answer.text[:_MOST_SHOWN]}"
        raise RuntimeError(f"the address answered {said}")
    return _read(answer.text, "--retriever")


async def _run(words: list[str], query: str, top_k: int) -> list[NodeWithScore]:
    """Where no argument has the question's place, the program reads it."""
    loop = asyncio.get_running_loop()
    starting = asyncio.ensure_future(
        loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(_BUFFERED, loop),
            *[_filled(word, query, top_k) for word in words],
            start_new_session=True,
        )
    )
    try:
        # asyncio itself would end it without its children if it is given up as it starts
        process = Process(*await asyncio.shield(starting), loop)
        printed, complaint = await process.communicate(f"{query}\n".encode())
    except BaseException:
        transport, _ = await starting
        with suppress(AttributeError, OSError):  # no such group, or no groups
            os.killpg(transport.get_pid(), signal.SIGKILL)
        # closes the pipes that a child in another session may hold
        transport.close()
        raise
    if process.returncode:
        said = complaint.decode(errors="replace").strip()[-_MOST_SHOWN:]
        raise RuntimeError(f"the program ended with {process.returncode}: {said}")
    return _read(printed.decode(), "--retriever-command")


def _read(text: str, option: str) -> list[NodeWithScore]:
    try:
        answer = json.loads(text)
    except ValueError as error:
        raise UnusableAnswer(option, text[:_MOST_SHOWN], f"JSON: {_SHAPE}") from error
    if isinstance(answer, Mapping):
        answer = next((answer[name] for name in _LISTS if name in answer), answer)
    if not isinstance(answer, list):
        expected = f"{_SHAPE}, or an object with that under {', '.join(_LISTS)}"
        raise UnusableAnswer(option, text[:_MOST_SHOWN], expected)
    return [_node(item, option) for item in answer]


def _node(item: Any, option: str) -> NodeWithScore:
    fields = item if isinstance(item, Mapping) else {"id": item}
    name, text, score = fields.get("id"), fields.get("text") or "", fields.get("score")
    metadata = fields.get("metadata") or {}
    is_number = score is None or (isinstance(score, int | float) and not isinstance(score, bool))
    is_known = isinstance(name, str | int) and not isinstance(name, bool) and name != ""
    if not (is_known and is_number and isinstance(text, str) and isinstance(metadata, Mapping)):
        raise UnusableAnswer(option, item, _SHAPE)
    node = TextNode(id_=str(name), text=text, metadata=dict(metadata))
    return NodeWithScore(node=node, score=score)
