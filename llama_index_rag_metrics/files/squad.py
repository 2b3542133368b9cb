"""SQuAD's files, and rows of that shape: each text is a document, and each answer a place in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import zip_longest
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
            context: Any = fields.get("context")
            questions: Any = fields.get("qas")
            is_paragraph = isinstance(context, str) and isinstance(questions, list)
            place.check(is_paragraph, "a paragraph with 'context' and 'qas'", paragraph)
            for question in questions:
                is_question = isinstance(question, Mapping)
                place.check(is_question, "a question with 'id' and 'question'", question)
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
        is_there = context[start : start + len(text)] == text
        expected = f"{text!r} at character {start} of the context"
        place.check(is_there, expected, context[start:][:80])
        spans.append((document, start, start + len(text)))
    with place.expecting(_EXPECTED, InvalidInput):
        return Relevance.of_spans(spans), (document, context)


def _pairs(answers: Any, *, is_impossible: bool) -> list[tuple[str, int]] | None:
    if isinstance(answers, Mapping):
        columns: Any = [answers.get("text"), answers.get("answer_start")]
    elif isinstance(answers, (list, tuple)) and (answers or is_impossible):
        fields = [answer if isinstance(answer, Mapping) else {} for answer in answers]
        columns = [[each.get(name) for each in fields] for name in ("text", "answer_start")]
    else:
        return None
    if not all(isinstance(column, (list, tuple)) for column in columns):
        return None
    pairs: list[Any] = [*zip_longest(*columns)]
    is_known = all(isinstance(text, str) and type(start) is int for text, start in pairs)
    return pairs if is_known else None
