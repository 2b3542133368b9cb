"""Span metrics in tokens: every token of every document is an element of a set."""

from __future__ import annotations

import re
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core import Document
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.utils import get_tokenizer
from support.examples import examples
from support.spans import questions

from llama_index_rag_metrics import (
    Ranking,
    Relevance,
    RetrievalDataset,
    Span,
    evaluate,
    metric,
    score_rankings,
    score_table,
)
from llama_index_rag_metrics.demo.retrievers import bm25
from llama_index_rag_metrics.rankings.tokens import DocumentTokens, TokenCounter
from llama_index_rag_metrics.runtime.errors import InvalidInput

pytestmark = pytest.mark.peers

NAMES = ["span_recall", "span_precision", "span_f1", "span_iou"]
IN_TOKENS = [f"{name}(unit=tokens)" for name in NAMES]

texts = st.text("ab 文🌋\n", min_size=45, max_size=60)


def tokens_in(spans: list[Span], documents: dict[str, str]) -> set[tuple[str, int]]:
    """The words, by number, whose last character is in a span; words are what blanks part."""
    words = set()
    for span in spans:
        text, number = documents[span.source], 0
        for place, character in enumerate(text):
            is_last = not character.isspace() and text[place + 1 : place + 2].strip() == ""
            if is_last:
                number += 1
                if span.start <= place < span.end:
                    words.add((span.source, number))
    return words


@given(
    question=questions(),
    documents=st.fixed_dictionaries(dict.fromkeys(["a", "b", "文"], texts)),
    k=st.none() | st.integers(1, 5),
)
@examples(200)
def test_as_sets_of_words(
    question: tuple[Relevance, Ranking], documents: dict[str, str], k: int | None
) -> None:
    relevance, ranking = question
    cutoff = f"@{k}" if k else ""
    scores = score_rankings(
        [relevance],
        [ranking],
        [name + cutoff for name in IN_TOKENS],
        no_relevant="zero",
        documents=documents,
        tokenizer=str.split,
    )
    spans = relevance.spans or {}
    wanted = tokens_in([spans[i] for i, g in relevance.grades.items() if g >= 1], documents)
    places = dict(zip(ranking.ids, ranking.spans or (), strict=True))
    first = [places[item] for item in dict.fromkeys(ranking.ids)][:k]
    got = tokens_in([span for span in first if span is not None], documents)
    both, either = len(wanted & got), len(wanted | got)
    wholes = len(wanted), len(got), (len(wanted) + len(got)) / 2, either
    expected = [both / whole if whole else 0.0 for whole in wholes]
    values = [scores[name + cutoff][0] for name in IN_TOKENS]
    assert values == pytest.approx(expected, rel=0, abs=1e-12)


TEXT = "Enceladus 🌋 has geysers. 土衛二有間歇泉."


def by_prefixes(text: str) -> list[int]:
    """Where tiktoken's tokens end: the first prefix of characters that holds all of their bytes."""
    encoding = get_tokenizer().func.__self__  # type: ignore[attr-defined]
    ends, n_bytes = [], 0
    for token in encoding.encode(text):
        n_bytes += len(encoding.decode_single_token_bytes(token))
        prefixes = (
            place for place in range(len(text)) if n_bytes <= len(text[: place + 1].encode())
        )
        ends.append(next(prefixes))
    return ends


def test_tiktoken_s_tokens_end_where_their_bytes_do() -> None:
    counter = TokenCounter()
    ends = counter.last_characters(TEXT)
    assert ends.tolist() == by_prefixes(TEXT)
    assert len(ends) == counter.count([TEXT])[0]
    assert ends[-1] == len(TEXT) - 1
    assert len(ends) > len(set(ends.tolist()))  # the volcano is several tokens


def test_tokens_of_tokenizers() -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="needs Hugging Face's tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    counter = TokenCounter(tokenizer)
    assert counter.last_characters("one, two").tolist() == [2, 3, 7]


def test_a_token_begins_with_the_blank_before_its_word() -> None:
    """Of " has geysers", the label "geysers" holds the token " geysers", and not " has"."""
    documents, start = {"moons": "Enceladus has geysers."}, len("Enceladus has ")
    label = Relevance.of_spans([("moons", start, start + len("geysers"))])
    before, after = Span("moons", 0, start), Span("moons", start, start + 8)
    both = [
        score_rankings([label], [Ranking(["n"], spans=[span])], IN_TOKENS, documents=documents)
        for span in (before, after)
    ]
    assert [scores["span_recall(unit=tokens)"][0] for scores in both] == [0.0, 1.0]


def test_evaluated_with_the_corpus_and_the_tokenizer() -> None:
    text = " ".join(f"Sentence number {n} is here." for n in range(40))
    sentences = re.compile(r"[^.]+\.").findall
    splitter = SentenceSplitter(chunk_size=60, chunk_overlap=0, chunking_tokenizer_fn=sentences)
    nodes = splitter.get_nodes_from_documents([Document(doc_id="book", text=text)])
    start = text.index("Sentence number 17")
    label = Relevance.of_spans([("book", start, start + len("Sentence number 17 is here."))])
    dataset = RetrievalDataset({"q": "Which is number 17?"}, {"q": label}, {"book": text})
    names = [*IN_TOKENS, "span_recall(unit=tokens)@70tokens"]
    results = evaluate(bm25(nodes, 3), dataset, names, tokenizer=str.split)
    again = score_rankings(
        results.relevance, results.run, names, documents=dataset.corpus, tokenizer=str.split
    )
    assert dict(again.means) == dict(results.scores.means)
    assert results.scores.means["span_recall(unit=tokens)"] == 1.0
    assert "str.split" in results.about.values()


def test_texts_that_are_missing_are_said_to_be() -> None:
    label = Relevance.of_spans([("moons", 0, 5)])
    ranking = Ranking(["n"], spans=[Span("moons", 0, 5)])
    name = "span_recall(unit=tokens)"
    with pytest.raises(InvalidInput, match=r"texts of the documents.*documents=\.\.\."):
        score_rankings([label], [ranking], name)
    with pytest.raises(InvalidInput, match="none called 'moons'"):
        score_rankings([label], [ranking], name, documents={})
    with pytest.raises(InvalidInput, match="the documents' texts"):
        evaluate(lambda query: [], RetrievalDataset({"q": "?"}, {"q": label}), name)
    place = {"source": "moons", "start": 0, "end": 5}
    frame = {"retrieved_ids": [["n"]], "retrieved_spans": [[place]], "expected_spans": [[place]]}
    pl = pytest.importorskip("polars")
    with pytest.raises(InvalidInput, match="texts of the documents"):
        score_table(pl.DataFrame(frame), name)
    with pytest.raises(InvalidInput, match=r"span_recall: unit must be 'characters' or 'tokens'"):
        metric("span_recall(unit=words)")


def test_a_tokenizer_that_hides_its_tokens_is_refused() -> None:
    def numbers(text: str, size: int) -> list[int]:
        return list(range(len(text) // size))

    tokens = DocumentTokens({"moons": "Enceladus"}, partial(numbers, size=3))
    with pytest.raises(InvalidInput, match="one that says where its tokens are"):
        tokens("moons")
