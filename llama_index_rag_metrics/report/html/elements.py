"""HTML as a tree, so that whatever is text comes out escaped: no string is ever pasted into it."""

from __future__ import annotations

from typing import TypeAlias
from xml.etree import ElementTree

Element: TypeAlias = ElementTree.Element
Child: TypeAlias = "Element | str"


def element(tag: str, *children: Child, **attributes: str) -> Element:
    """An element with its children; `class_` stands for the attribute `class`.

    >>> render(element("p", "1 < 2 ", element("b", "&"), title='"'))
    '<p title="&quot;">1 &lt; 2 <b>&amp;</b></p>'
    """
    named = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    made = ElementTree.Element(tag, named)
    for child in children:
        append(made, child)
    return made


def append(parent: Element, child: Child) -> None:
    if not isinstance(child, str):
        parent.append(child)
    elif len(parent):
        parent[-1].tail = (parent[-1].tail or "") + child
    else:
        parent.text = (parent.text or "") + child


def render(*elements: Element) -> str:
    # as XML, since the HTML form leaves < in attributes; no void element is ever made
    return "".join(
        ElementTree.tostring(child, encoding="unicode", short_empty_elements=False)
        for child in elements
    )
