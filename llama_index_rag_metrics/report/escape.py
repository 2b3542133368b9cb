"""Text from data, made safe for each output: no link, mention, markup or control character.

HTML pages and drawings are built of elements, which escape what they hold.
"""

from __future__ import annotations

import re
from html import escape
from typing import TypeAlias
from xml.etree import ElementTree

# what could be markup; a stop within a number, a dash within a line and the like can't
_MARKUP = re.compile(
    r"""[^\w\s\x80-\U0010ffff,;'"?%=.:()/+-]|_|^[-+]"""
    r"|^\d(?=\d*[.)](?:\s|$))|[.](?=[^\s\d])|:(?! )",
    re.ASCII,
)


def terminal(text: str) -> str:
    """The text in one line, without control characters: data must not steer a terminal.

    >>> terminal("one\\x1b[31m\\n two")
    'one [31m two'
    """
    if not text.isprintable():
        text = "".join(sign if sign.isprintable() else " " for sign in text)
    return " ".join(text.split())


def html(text: str) -> str:
    """The text in one line, as HTML or as an attribute in quotes."""
    return escape(terminal(text))


def markdown(text: str) -> str:
    """The text in one line that Markdown, GitHub's mentions and links, and HTML leave as it is.

    Punctuation that could be markup becomes a character reference, except in numbers.

    >>> markdown("<b> @someone | 0.5")
    '&#60;b&#62; &#64;someone &#124; 0.5'
    """
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", terminal(text))


Element: TypeAlias = ElementTree.Element
Child: TypeAlias = "Element | str"


def element(tag: str, *children: Child, **attributes: str) -> Element:
    """An element with its children, whose texts come out escaped; `class_` is `class`.

    >>> render(element("p", "1 < 2 ", element("b", "&"), title='"'))
    '<p title="&quot;">1 &lt; 2 <b>&amp;</b></p>'
    """
    parent = ElementTree.Element(tag)
    for name, value in attributes.items():
        parent.set(name.rstrip("_").replace("_", "-"), value)
    for child in children:
        if not isinstance(child, str):
            parent.append(child)
        elif len(parent):
            parent[-1].tail = (parent[-1].tail or "") + child
        else:
            parent.text = (parent.text or "") + child
    return parent


def render(element: Element) -> str:
    # as XML, since the HTML form leaves < in attributes; no void element is ever made
    return ElementTree.tostring(element, encoding="unicode", short_empty_elements=False)
