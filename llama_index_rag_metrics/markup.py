"""Tables as HTML that takes its colours from the page, light or dark."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Literal

_PAGE = "background:transparent;color:inherit"
_RULE = "border-top:1px solid rgba(128,128,128,.5)"


def table(head: Iterable[str], *parts: Iterable[str]) -> str:
    """A table of cells that are HTML already.

    Args:
        head: the cells of the first row.
        parts: the cells of each further row, joined; a rule goes above each part.
    """
    rows = "".join(
        f'<tr style="{_RULE}">{row}</tr>' if at == 0 else f"<tr>{row}</tr>"
        for part in parts
        for at, row in enumerate(part)
    )
    return (
        f'<table style="border-collapse:collapse;{_PAGE}">'
        f"<thead><tr>{''.join(head)}</tr></thead><tbody>{rows}</tbody></table>"
    )


def cell(
    text: str,
    style: str = "",
    *,
    tag: Literal["td", "th"] = "td",
    align: Literal["left", "right"] = "right",
) -> str:
    """A cell of a table, with its text escaped."""
    base = f"text-align:{align};padding:.15em .8em;{_PAGE}"
    return f'<{tag} style="{base};{style}">{escape(text)}</{tag}>'
