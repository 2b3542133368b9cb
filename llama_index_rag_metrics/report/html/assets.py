"""What pages that work offline are made of: elements, styles, scripts, and packed data.

Data is JSON, gzip, base64: nothing in it can end the element that holds it.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from xml.etree import ElementTree

from llama_index_rag_metrics.runtime.errors import MissingExtra

Element: TypeAlias = ElementTree.Element
Child: TypeAlias = "Element | str"


def element(tag: str, *children: Child, **attributes: str) -> Element:
    """An element with its children, whose texts come out escaped; `class_` is `class`.

    >>> render(element("p", "1 < 2 ", element("b", "&"), title='"'))
    '<p title="&quot;">1 &lt; 2 <b>&amp;</b></p>'
    """
    named = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    parent = ElementTree.Element(tag, named)
    for child in children:
        if not isinstance(child, str):
            parent.append(child)
        elif len(parent):
            parent[-1].tail = (parent[-1].tail or "") + child
        else:
            parent.text = (parent.text or "") + child
    return parent


def render(*elements: Element) -> str:
    # as XML, since the HTML form leaves < in attributes; no void element is ever made
    return "".join(
        ElementTree.tostring(child, encoding="unicode", short_empty_elements=False)
        for child in elements
    )


def packed(value: Any) -> str:
    """A value as base64 of gzip of JSON."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return packed_text(text)


def packed_text(text: str) -> str:
    """A text as base64 of gzip; the same text always gives the same."""
    squeezed = gzip.compress(text.encode("utf-8", "replace"), compresslevel=9, mtime=0)
    return base64.b64encode(squeezed).decode("ascii")


def carriers(chunks: Mapping[str, str]) -> Iterator[Element]:
    """Elements that the browser keeps and never runs, one a packed chunk; carried.js reads them."""
    for name, chunk in chunks.items():
        yield element("script", chunk, type="text/plain", id=f"data-{name}")


def asset(name: str, package: str = __package__) -> str:
    return (files(package) / name).read_text(encoding="utf-8")


def script_source(script: str) -> str:
    """The hash by which a content security policy allows this script."""
    digest = base64.b64encode(sha256(script.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"


class TableLibrary(NamedTuple):
    """A script as base64 of gzip, and a plain style sheet."""

    script: str
    css: str


def check_libraries() -> None:
    """Raise `MissingExtra` where a library isn't there, without reading them."""
    if find_spec("itables") is None:
        raise MissingExtra("the HTML report", "report")


@cache
def table_library() -> TableLibrary:
    """DataTables, compressed once a process."""
    # itables has no function for it, and importing it would bring pandas and IPython
    spec = find_spec("itables")
    if spec is None or spec.origin is None:
        raise MissingExtra("the HTML report", "report")
    bundle = Path(spec.origin).parent / "html" / "dt_bundle.js"
    style = bundle.with_suffix(".css").read_text(encoding="utf-8")
    return TableLibrary(packed_text(bundle.read_text(encoding="utf-8")), style)
