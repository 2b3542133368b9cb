"""Questions that are told instead of asked: "Describe the process", "Explain why it freezes".

LlamaIndex's own prompt, which speaks of a quiz or an examination, yields them.
"""

from __future__ import annotations

import re

_VERBS = (
    "analyse analyze assess calculate characterise characterize clarify classify compare compute "
    "contrast critique define demonstrate derive describe determine differentiate discuss "
    "distinguish elaborate enumerate evaluate examine explain explore give identify illustrate "
    "indicate interpret justify mention predict propose prove provide recall recommend specify "
    "suggest summarise summarize trace"
)
_ALSO_NOUNS = (
    "choose comment consider detail estimate find highlight infer list name note outline rank "
    "select show sketch state tell"
)
"""Verbs that begin other sentences, too, so that a word has to follow that makes them a request."""

_OBJECTS = (
    "a all an and any at both by each five four from her his how if in its my on one or some ten "
    "the their them these this those three two what when where whether which who whose why"
)
_CLAUSE = (
    "(?:(?:according|based|considering|drawing|from|given|in|looking|referring|regarding|using"
    r"|with)\b[^,.?!:]{2,150},\s+)?"
)
_MANNER = r"(?:(?:please|briefly|clearly|now|then|in\ detail),?\s+)*"
_ENGLISH = re.compile(
    rf"{_CLAUSE}{_MANNER}"
    rf"(?:(?:{'|'.join(_VERBS.split())})\b(?!\s*[:,–—-])"
    rf"|(?:{'|'.join(_ALSO_NOUNS.split())})\s+(?:(?:{'|'.join(_OBJECTS.split())})\b|\d))",
    re.IGNORECASE,
)
_EUROPEAN = re.compile(
    r"""(?:(?:bitte|por\ favor|veuillez|per\ favore)[,\s]+)?(?:
        (?:analysier|begründ|beschreib|bewert|definier|diskutier|erklär|erläuter|nenn|skizzier
        |vergleich)(?:e|en|t)?
        | (?:analys|cit|compar|énumér|expliqu|indiqu|nomm|présent|résum)(?:ez|er)
        | décri(?:s|vez|re) | définiss?ez | discutez
        | analice|analiza|cite|compara|compare|defina|describa|descreva|enumera|enumere|explica
        | explique|identifica|identifique|menciona|mencione|nombra|nombre|resume|resuma
        | (?:analizza|confronta|definisci|descrivi|elenca|riassumi|spiega)(?:te)?
        | назовите|объясните|определите|опишите|перечислите|расскажите|сравните
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)
_CHINESE = re.compile(
    "[请請]?[试試]?[你您]?(?:简要|簡要|简单|簡單|详细|詳細)?地?"
    "(?:比较|比較|列出|列举|列舉|分析|论述|論述|讨论|討論|描述|解释|解釋|说明|說明|简述|簡述|阐述|闡述"
    "|概述|概括|总结|總結|指出|评价|評價)(?![了：:])[^：:]{2,}"
)
_JAPANESE = re.compile(
    r".{4,}(?:(?:して|べて|げて|じて|いて)(?:ください|下さい)|(?:し|べ|げ|じ)なさい|せよ|べよ|げよ)"
)
_KOREAN = re.compile(r".+\s\S*(?:하시오|하세요|해\s?주세요|하십시오|쓰시오|드시오|하라)")

_FEWEST_WORDS = 3
_TALK = re.compile(
    r"\b(?:feedback|these questions?|(?:more|other|further) questions?|the (?:above|following))\b"
    r"|(?:问题|問題)$|質問|질문",
    re.IGNORECASE,
)


def is_imperative(line: str) -> bool:
    """Whether a line, bare of numbers and labels, tells its reader to answer something.

    Examples:
        >>> is_imperative("Explain why the lake freezes from the top.")
        True
        >>> is_imperative("State law prevails here.")
        False
    """
    if line.endswith((":", "：", "…", "...")):
        return False
    bare = line.rstrip(" .。．!！\"”’'」』)）*_")
    if _TALK.search(bare):
        return False
    if any(pattern.fullmatch(bare) for pattern in (_CHINESE, _JAPANESE, _KOREAN)):
        return True
    if len(bare.split()) < _FEWEST_WORDS:
        return False
    return any(pattern.match(bare) for pattern in (_ENGLISH, _EUROPEAN))
