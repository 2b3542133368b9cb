"""The questions in what an LLM answered, without the chatter, numbers and markdown around them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from llama_index_rag_metrics.runtime.llms import without_reasoning

_VERBS = (
    "analyse analyze assess calculate characterise characterize clarify classify compare compute "
    "contrast critique define demonstrate derive describe determine differentiate discuss "
    "distinguish elaborate enumerate evaluate examine explain explore give identify illustrate "
    "indicate interpret justify mention predict propose prove provide recall recommend specify "
    "suggest summarise summarize trace"
)
# verbs that also begin other sentences: the next word has to make them a request
_ALSO_NOUNS = (
    "choose comment consider detail estimate find highlight infer list name note outline rank "
    "select show sketch state tell"
)

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
_IMPERATIVE_TALK = re.compile(
    r"\b(?:feedback|these questions?|(?:more|other|further) questions?|the (?:above|following))\b"
    r"|(?:问题|問題)$|質問|질문",
    re.IGNORECASE,
)


def is_imperative(line: str) -> bool:
    bare = line.rstrip(" .。．!！\"”’'」』)）*_")
    if line.endswith((":", "：", "…", "...")) or _IMPERATIVE_TALK.search(bare):
        return False
    if any(pattern.fullmatch(bare) for pattern in (_CHINESE, _JAPANESE, _KOREAN)):
        return True
    has_words = len(bare.split()) >= _FEWEST_WORDS
    return has_words and any(pattern.match(bare) for pattern in (_ENGLISH, _EUROPEAN))


# an answer may be anything: from any place, no pattern looks further than a line or a stated length
_FENCE = re.compile(r"^[^\S\n]*```.*$", re.MULTILINE)
_NEXT_NUMBER = re.compile(r"(?<=[?？؟])[\s*_\"”'’]+(?=[(（*_]{0,8}\d{1,2}[.)）、:：]\s*\D)")

_BULLET = re.compile(r"^(?:[-–—•‣◦▪●*+>#·]+\s+|#+\s*|[•‣◦▪●☐]|\[\s\]\s)")
# A capital with a point is no number: it may be someone's initial
_NUMBER = re.compile(
    r"^[(（\[【]?(?:\d{1,3}(?:\\?[.)）\]】:：、．](?!\d)|\s[-–—]\s)|[①-⑳]"
    r"|(?:[a-h]|[ivx]{1,4}|[IVX]{2,4})[.)]\s|[A-H]\)\s)\s*"
)

_LABEL = re.compile(
    r"""^(?:
        question | query | quiz\ question | multiple[ -]choice(?:\ question)?
        | q | frage | pregunta | pergunta | domanda | вопрос
        | питання | pytanie | soru | vraag | fråga | câu\ hỏi | pertanyaan | प्रश्न | سؤال | السؤال
        | คำถาม(?:ที่)? | 问题 | 問題 | 质问 | 質問 | 问 | 問 | 질문 | 문제 | 문
        | 第[\d一二三四五六七八九十]{1,3}[题題问問]
    )
    \s* \#? \s* [\d①-⑳一二三四五六七八九十]{0,3} [\s*_]* (?: [:：.)）、] | [-–—]\s ) [\s*_]*""",
    re.IGNORECASE | re.VERBOSE,
)
_PREAMBLE = re.compile(r"^(?:sure|certainly|of course|here (?:is|are))\b[^?:]*:\s*", re.IGNORECASE)
_REMARK = re.compile(
    r"""(?:(?<=[?？؟])|(?<=[?？؟]["'”’»」』]))[\s*_]*[(（\[][^()（）\[\]]*[)）\]][\s*_]*$"""
)
_ANSWER = re.compile(
    r"(?<=[?？؟])[\s*_\"”]+(?:answer|ans|a|答案?|답|정답)[\s*_]*[:：].*$", re.IGNORECASE
)
_TALK = re.compile(
    r"""^(?:
        (?:would\ you\ like|do\ you\ want)\ me\ to\b
        | (?:would\ you\ like|do\ you\ want)\b.*\b(?:more|other|another)\b.*\bquestions?
        | (?:shall|should|can|may)\ i\ (?:generate|write|create|add|help)\b
          .*\b(?:questions?|anything\ else)
        | is\ there\ anything\ else\b
        | here\ (?:is|are)\b.*\bquestions?\b
        | note(?:\s*[:：]|\ that\b).*\bquestions?\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_EMPHASIS = re.compile(r"(?<![A-Za-z0-9*])(\*{1,3})(?=\S)(.{1,1000}?)(?<=\S)\1(?![A-Za-z0-9*])")
_MOST_LAYERS = 20
_APOSTROPHE = re.compile(r"(?<=\w)['’](?=\w)")

_PAIRS = {
    '"': '"', "'": "'", "“": "”", "‘": "’", "„": "“", "«": "»", "‹": "›",
    "「": "」", "『": "』", "《": "》", "**": "**", "__": "__", "*": "*", "_": "_", "`": "`",
}  # fmt: skip

_MARKS = "?？؟⁇‽﹖︖⸮፧՞\u037e"
_CLOSERS = "\"'”’»」』)）]"

_GREEK = re.compile(r"[\u0370-\u03ff\u1f00-\u1fff]")

_THAI_ASKS = re.compile(
    r"อะไร|ไหน|อย่างไร|ยังไง|ทำไม|เหตุใด|เมื่อไร|เมื่อไหร่|เมื่อใด|ใคร|กี่|เท่าไร|เท่าไหร่|เท่าใด|สิ่งใด|ผู้ใด|ข้อใด|หรือไม่|ไหม|มั้ย|หรือเปล่า"
)
_KOREAN_ASKS = re.compile(
    r"(?:까|(?<!니)까요|나요|가요|은가|는가|인가|던가|한가|느냐|으냐|인지요|무엇|누구|어디|언제|왜|얼마)$"
)
_JAPANESE_ASKS = re.compile(
    r"(?:か|(?:何|なに|どこ|だれ|誰|いつ|どれ|どちら|いくつ|いくら|なぜ|どう)(?:です)?)$"
)
_CHINESE_ASKS = re.compile(
    r"[吗嗎呢]$|什么|什麼|甚麼|为何|為何|怎么|怎麼|怎样|怎樣|如何|哪|谁|誰|多少|多久|多大|几个|幾個|几种|幾種|几年|幾年"
    r"|是否|是不是|能否|可否|何时|何時|何地"
)
_CHINESE_TALKS = re.compile(
    r"^(?:以下|下面|这里|這裡|好的|当然|當然|根据您|根據您|[请請](?![问問]))|(?:问题|問題)$"
)
# scripts, the first one found counts, and how questions end or ask there
_ASKS_BY_WORDS = (
    (re.compile(r"[\uac00-\ud7a3]"), _KOREAN_ASKS),
    (re.compile(r"[\u3040-\u30ff]"), _JAPANESE_ASKS),
    (re.compile(r"[\u0e00-\u0e7f]"), _THAI_ASKS),
    (re.compile(r"[\u4e00-\u9fff]"), _CHINESE_ASKS),
)


def parse(answer: str) -> tuple[list[str], list[str]]:
    """The questions in an LLM's answer, in order, each once; and the lines that were refused.

    A question ends with a question mark of any script, tells its reader to answer ("Explain …"), or
    asks by its words, in languages that often lack the mark.
    """
    questions: dict[str, str] = {}
    refused = []
    for line in _lines(_FENCE.sub("", without_reasoning(answer))):
        question = _bare(line)
        if _is_question(question):
            questions.setdefault(normal_form(question), question)
        elif any(map(str.isalpha, line)):
            refused.append(line.strip())
    return list(questions.values()), refused


def normal_form(question: str) -> str:
    words = " ".join(question.casefold().split())
    return words.rstrip(_MARKS + " .。") or words


def _lines(answer: str) -> Iterator[str]:
    for item in _json_items(answer) or [answer]:
        for line in item.splitlines():
            is_row = len(line) > 1 and line.startswith("|") and line.endswith("|")
            for cell in line.split("|") if is_row else [line]:
                yield from _NEXT_NUMBER.split(cell)


def _json_items(answer: str) -> list[str]:
    try:
        value = json.loads(answer)
    except ValueError:
        return []
    members = value.values() if isinstance(value, dict) else [value]
    items = next((member for member in members if isinstance(member, list)), [])
    texts = [item.get("question") if isinstance(item, dict) else item for item in items]
    return [text for text in texts if isinstance(text, str)]


def _bare(line: str) -> str:
    bare = line.strip()
    for _ in range(_MOST_LAYERS):
        before = bare
        bare = _EMPHASIS.sub(r"\2", bare)
        if bare.count("**") == 1:
            bare = bare.removeprefix("**").removesuffix("**")
        for decoration in (_BULLET, _NUMBER, _LABEL, _PREAMBLE, _REMARK, _ANSWER):
            bare = decoration.sub("", bare).strip()
        bare = _unwrapped(bare.rstrip(",") if bare[-2:] in {'",', "',", "”,"} else bare)
        if bare == before:
            break
    return bare


def _unwrapped(text: str) -> str:
    for opening, closing in _PAIRS.items():
        inner = text[len(opening) : -len(closing)]
        is_between = inner and text.startswith(opening) and text.endswith(closing)
        if is_between and closing not in _APOSTROPHE.sub("", inner):  # no ends of two pairs
            return inner.strip()
    return text


def _is_question(line: str) -> bool:
    if not any(map(str.isalpha, line)) or _TALK.match(line):
        return False
    end = line.rstrip(_CLOSERS + "*_ ")
    if end.endswith(tuple(_MARKS)) or "՞" in line or (end.endswith(";") and _GREEK.search(line)):
        return True
    return _asks_by_words(line.rstrip("。.． ")) or is_imperative(line)


def _asks_by_words(line: str) -> bool:
    asks = next((asks for script, asks in _ASKS_BY_WORDS if script.search(line)), None)
    if asks is None or line.endswith((":", "：", "!", "！")):
        return False
    return bool(asks.search(line)) and not (asks is _CHINESE_ASKS and _CHINESE_TALKS.search(line))
