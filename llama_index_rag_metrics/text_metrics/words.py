"""The words of a text, in any script."""

from __future__ import annotations

import re
import unicodedata

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"  # Hangul
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # Kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_MARKS = "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0dff"
_RUN = re.compile(
    rf"(?P<unspaced>[{_UNSPACED}]+)|[^\W_{_UNSPACED}](?:[^\W_{_UNSPACED}]|[{_MARKS}])*"
)


def words(text: str) -> list[str]:
    """The words of a text, in order, for counting them.

    Case and width don't matter (NFKC). Chinese, Japanese, Korean, Thai, Lao, Khmer and Burmese,
    which don't put spaces between words or let particles cling to them, are cut into pairs of
    characters, as Lucene's CJKAnalyzer does; a character that stands alone stays alone.

    Examples:
        >>> words("The KILN's 2 keys, 窯の温度は１２４０度")
        ['the', 'kiln', 's', '2', 'keys', '窯の', 'の温', '温度', '度は', '1240', '度']
    """
    found: list[str] = []
    for match in _RUN.finditer(unicodedata.normalize("NFKC", text).casefold()):
        run = match[0]
        if match["unspaced"] is None or len(run) == 1:
            found.append(run)
        else:
            found.extend(run[at : at + 2] for at in range(len(run) - 1))
    return found
