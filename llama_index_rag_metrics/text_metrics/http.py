"""HTTP for paid calls: what is sent stays with the host it is for, and answers have a limit."""

from __future__ import annotations

import zlib
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

MOST_BYTES = 16 << 20
"""Of an answer, unzipped: a thousand scores take a hundredth of that."""

_HEADERS_OF_THE_CODING = ("content-encoding", "content-length", "transfer-encoding")


class AnswerRefused(Exception):
    """An answer that isn't read on, or a redirect that isn't followed: asking again is no use."""


class OpenConnection(UserWarning):
    """A key and texts would travel unencrypted: the scorer, and the host."""

    def __str__(self) -> str:
        scorer, host = self.args
        return f"{scorer}: the key and the texts go to {host} over plain http. Use https."


def guarded_client(**options: Any) -> httpx.AsyncClient:
    """A client that follows redirects within one host only, and reads answers up to a size.

    Args:
        options: those of `httpx.AsyncClient`.
    """
    import httpx

    class Guarded(httpx.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            response = await super().handle_async_request(request)
            try:
                _check_redirect(request, response)
                body = await _read(response)
            finally:
                await response.aclose()
            headers = [
                (name, value)
                for name, value in response.headers.multi_items()
                if name.lower() not in _HEADERS_OF_THE_CODING
            ]
            return httpx.Response(
                response.status_code,
                headers=headers,
                content=body,
                extensions=response.extensions,
                request=request,
            )

    verify = options.pop("verify", True)
    return httpx.AsyncClient(transport=Guarded(verify=verify), follow_redirects=True, **options)


def is_loopback(host: str) -> bool:
    """Whether what is sent to that host never leaves this machine."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _check_redirect(request: httpx.Request, response: httpx.Response) -> None:
    if not response.has_redirect_location:
        return
    url = request.url
    target = url.join(response.headers["location"])
    same_place = (target.host, target.scheme, target.port) == (url.host, url.scheme, url.port)
    upgraded = target.host == url.host and (url.scheme, target.scheme) == ("http", "https")
    if not same_place and not upgraded:
        where = f"{target.scheme}://{target.host}"
        raise AnswerRefused(f"a redirect to {where}, which would get the query and the texts")


async def _read(response: httpx.Response) -> bytes:
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", "gzip", "deflate", ""):
        raise AnswerRefused(f"an answer in the coding {coding!r}")
    # gzip and zlib are told apart by the header of the data
    unzipped = zlib.decompressobj(zlib.MAX_WBITS | 32) if coding in ("gzip", "deflate") else None
    body = bytearray()
    async for chunk in response.stream:  # type: ignore[union-attr]
        body += chunk if unzipped is None else unzipped.decompress(chunk, MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            raise AnswerRefused(f"an answer of more than {MOST_BYTES >> 20} MB")
    return bytes(body)
