"""Questions whose answers stand in a text: SQuAD's files, and rows of that shape.

Each text is a document, and each answer a place in it, so that any chunking of the texts is judged
by the span metrics. Several answers to a question count together: what any annotator marked is
expected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from llama_index_rag_metrics.files.lines import Place
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.runtime.errors import InvalidInput

CONTEXT, ANSWERS, TITLE = "context", "answers", "title"

_EXPECTED = "answers, {'text': [text, …], 'answer_start': [its first character, …]}"


def is_squad(data: Mapping[str, object]) -> bool:
    articles = data.get("data")
    return isinstance(articles, list) and all(
        isinstance(article, Mapping) and isinstance(article.get("paragraphs"), list)
        for article in articles
    )


def squad_rows(data: Mapping[str, Any], place: Place) -> Iterator[tuple[Place, dict[str, Any]]]:
    for article in data["data"]:
        title = article.get("title", "")
        for paragraph in article["paragraphs"]:
            fields = paragraph if isinstance(paragraph, Mapping) else {}
            context, questions = fields.get("context"), fields.get("qas")
            if not isinstance(context, str) or not isinstance(questions, list):
                raise place.wrong("a paragraph with 'context' and 'qas'", paragraph)
            for question in questions:
                if not isinstance(question, Mapping):
                    raise place.wrong("a question with 'id' and 'question'", question)
                here = Place(f"{place.path}, question {question.get('id')!r}")
                yield here, {TITLE: title, CONTEXT: context, **question}


def take_answers(fields: dict[str, Any], place: Place) -> tuple[Relevance, tuple[str, str]] | None:
    """Take the answers out of a row: their places, and their document (id, text), or None."""
    context, answers = fields.get(CONTEXT), fields.get(ANSWERS)
    pairs = _pairs(answers, is_impossible="is_impossible" in fields)
    if not isinstance(context, str) or pairs is None:
        return None
    title = fields.pop(TITLE, "") or ""
    del fields[CONTEXT], fields[ANSWERS]
    digest = sha256(context.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    document = f"{title}/{digest}" if title else digest
    spans = []
    for text, start in pairs:
        if context[start : start + len(text)] != text:
            raise place.wrong(f"{text!r} at character {start} of the context", context[start:][:80])
        spans.append((document, start, start + len(text)))
    try:
        return Relevance.of_spans(spans), (document, context)
    except InvalidInput as error:
        raise place.wrong(_EXPECTED, str(error)) from error


def _pairs(answers: Any, *, is_impossible: bool) -> list[tuple[str, int]] | None:
    """Text and first character of each answer, or None."""
    if isinstance(answers, Mapping):
        texts, starts = _list(answers.get("text")), _list(answers.get("answer_start"))
        if texts is None or starts is None or len(texts) != len(starts):
            return None
        pairs = list(zip(texts, starts, strict=True))
    else:
        listed = _list(answers)
        if not (listed or (is_impossible and listed is not None)):
            return None
        if not all(isinstance(answer, Mapping) for answer in listed):
            return None
        pairs = [(answer.get("text"), answer.get("answer_start")) for answer in listed]
    is_known = all(isinstance(text, str) and type(start) is int for text, start in pairs)
    return pairs if is_known else None


def _list(value: Any) -> Sequence[Any] | None:
    return value if isinstance(value, (list, tuple)) else None
