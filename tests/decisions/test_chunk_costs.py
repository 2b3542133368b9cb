"""The fewest tokens of a chunking, where a chunk's tokens don't go by its length."""

from __future__ import annotations

import random
from itertools import chain, combinations

import pytest
from support.chunkers import node_of
from support.spans import characters

from llama_index_rag_metrics import Relevance, RetrievalDataset, Span, chunk_ceiling

TEXT = "".join(chr(ord("a") + place % 26) + str(place) for place in range(30))


@pytest.mark.parametrize("seed", range(40))
def test_of_all_selections_the_cheapest_that_has_all(seed: int) -> None:
    draw = random.Random(seed)

    def place(longest: int) -> Span:
        start = draw.randrange(len(TEXT) - longest)
        return Span("text", start, start + draw.randint(1, longest))

    wanted = [place(12) for _ in range(draw.randint(1, 3))]
    chunks = sorted({place(25) for _ in range(9)})
    texts = [TEXT[chunk.start : chunk.end] for chunk in chunks]
    costs = {text: draw.randint(1, 50) for text in texts}
    dataset = RetrievalDataset({"q": "?"}, {"q": Relevance.of_spans(wanted)}, {"text": TEXT})
    nodes = [
        node_of("text", text, str(number), chunk.start)
        for number, (text, chunk) in enumerate(zip(texts, chunks, strict=True))
    ]
    ceiling = chunk_ceiling(dataset, nodes, tokenizer=lambda text: [0] * costs[text])
    held = characters(wanted) & characters(chunks)
    numbers = range(len(chunks))
    fewest = min(
        sum(costs[texts[number]] for number in selected)
        for selected in chain.from_iterable(combinations(numbers, size) for size in range(10))
        if held <= characters([chunks[number] for number in selected])
    )
    assert ceiling.scores["tokens"].tolist() == ([fewest] if held else [])
