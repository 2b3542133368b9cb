"""Elements of HTML and SVG, whose texts and attributes come out escaped."""

from __future__ import annotations

from typing import TypeAlias
from xml.etree import ElementTree

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
