"""Why an item was or wasn't matched, by every matcher."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.embeddings import MockEmbedding

from llama_index_rag_metrics import (
    ContainmentMatcher,
    EmbeddingMatcher,
    Ranking,
    RetrievalDataset,
    Run,
    Span,
    SpanMatcher,
    TextMatcher,
    explain_match,
    match_run,
)
from llama_index_rag_metrics.runtime.errors import InvalidInput

IO = "Io is covered with volcanoes that are fed by the tides of Jupiter."
TITAN = "Titan has rivers and lakes of liquid methane under an orange haze."
DATASET = RetrievalDataset(
    {"q": "methane?", "text alone": "tides?"},
    {"q": {"titan": 2, "io": 1, "Rhea-7": 0, "lost": 1}},
    corpus={"titan": TITAN, "io": IO, "Rhea-7": "Rhea is icy, and has a thin atmosphere."},
    expected_texts={"text alone": [IO]},
)
RETRIEVED = {
    "titan": "Another text.",
    "part": f"Moons. {TITAN[:40]}",
    "whole": f"{IO} {TITAN}",
    "rhea 7": "Rhea is icy, and has a thin atmosphere.",
    "blank": " ",
}
SPANS = [Span("titan", 0, 20), Span("moons", 0, 60), Span("moons", 40, 200), None, None]
RUN = Run(
    {
        "q": Ranking([*RETRIEVED], texts=[*RETRIEVED.values()], spans=SPANS),
        "text alone": Ranking(["x"], texts=[IO.upper()]),
    }
)


@pytest.mark.parametrize(
    ("item", "expected", "sentence"),
    [
        ("titan", None, "Matched: id 'titan' is labelled."),
        ("titan", "io", "Not matched: id 'titan' isn't labelled; labelled: 'io'."),
        (
            "rhea 7",
            None,
            "Not matched: id 'rhea 7' isn't labelled; 'Rhea-7' is, which differs only in case",
        ),
        ("whole", None, "Not matched: id 'whole' isn't labelled; labelled: 'titan', 'io', "),
    ],
)
def test_ids(item: str, expected: str | None, sentence: str) -> None:
    explained = explain_match(RUN, DATASET, "q", item, expected)
    assert str(explained).startswith(sentence)
    assert explained.is_match == str(explained).startswith("Matched")
    assert explained.compared[0] == item
    assert explained.likeness is explained.threshold is None


def test_a_document_that_is_expected_instead_of_its_node() -> None:
    run = Run({"q": Ranking(["n1"], spans=[Span("titan", 0, 20)])})
    explained = explain_match(run, DATASET, "q", "n1")
    assert str(explained) == (
        "Not matched: id 'n1' isn't labelled; its document 'titan' is: use match_on='ref_doc_id'."
    )


def test_what_is_judged_not_relevant() -> None:
    run = Run({"q": Ranking(["Rhea-7"], texts=["Rhea is icy, and has a thin atmosphere"])})
    for matcher in (None, "exact", "text"):
        explained = explain_match(run, DATASET, "q", "Rhea-7", matcher=matcher)
        assert not explained.is_match
        assert str(explained) == "Not matched: 'Rhea-7' is 'Rhea-7', whose grade is 0."


EMBEDDING = EmbeddingMatcher(MockEmbedding(embed_dim=3))
IO_SPAN = {"io": ("moons", 0, 100)}


@pytest.mark.parametrize(
    ("matcher", "item", "is_match", "nearest", "likeness", "threshold"),
    [
        ("text", "whole", True, "titan", 1, 0.8),
        ("text", "part", True, "titan", 29 / 34, 0.8),  # grams of the 33 letters of 38 in Titan
        ("text>=0.9", "part", False, "titan", 29 / 34, 0.9),
        ("tokens", "part", False, "titan", 7 / 9, 0.8),
        ("edit", "part", False, "titan", 28 / 54, 0.8),  # 5 letters more, 21 fewer
        ("exact", "part", False, "titan", None, None),
        ("exact", "whole", False, "titan", None, None),
        (EMBEDDING, "part", True, "titan", 1, 0.9),
        (EMBEDDING, "blank", False, None, None, None),
        (SpanMatcher(spans=IO_SPAN), "part", True, "io", 0.6, 0.5),
        (SpanMatcher(0.7, spans=IO_SPAN), "whole", False, "io", 0.6, 0.7),
        (SpanMatcher(spans=IO_SPAN), "blank", False, None, None, None),
        ("group", "titan", True, "titan", None, None),
        ("group", "whole", False, None, None, None),
    ],
)
def test_matchers(
    matcher: Any,
    item: str,
    is_match: bool,
    nearest: str | None,
    likeness: float | None,
    threshold: float | None,
) -> None:
    explained = explain_match(RUN, DATASET, "q", item, matcher=matcher)
    assert (explained.is_match, explained.expected_id) == (is_match, nearest)
    assert explained.likeness == (None if likeness is None else pytest.approx(likeness))
    assert explained.threshold == threshold
    name = matcher if isinstance(matcher, str) else matcher.name
    start = f"{'Matched' if is_match else 'Not matched'}: "
    if likeness is None:
        assert str(explained).startswith(f"{start}by {name}, '{item}' matches ")
        assert str(explained).endswith("none of 4 labelled passages.") == (nearest is None)
    else:
        assert str(explained).startswith(f"{start}{name} finds a likeness of {likeness:.4f} betwee")
    # the same decision as the evaluation's
    stands_for = match_run(RUN, DATASET, matcher).stands_for["q"][list(RETRIEVED).index(item)]
    assert any(DATASET.relevance["q"].grades.get(label, 0) > 0 for label in stands_for) == is_match


def test_one_expected_item_among_several() -> None:
    assert explain_match(RUN, DATASET, "q", "whole", "io", matcher="text").is_match
    explained = explain_match(RUN, DATASET, "q", "part", "io", matcher="text")
    assert not explained.is_match
    assert explained.compared == (RETRIEVED["part"], IO)
    assert explained.likeness == 0
    lost = explain_match(RUN, DATASET, "q", "part", "lost", matcher="text")
    assert str(lost).endswith("of 1 labelled passages; no text or place of 'lost' is known.")


def test_texts_without_ids() -> None:
    explained = explain_match(RUN, DATASET, "text alone", "x", matcher="exact")
    assert str(explained) == "Matched: by exact, 'x' matches 'expected text 1'."
    assert explained.compared == (IO.upper(), IO)


def test_an_own_matcher() -> None:
    class SameLength(TextMatcher):
        kind = "length"
        default = 1.0

        def match(self, expected: Sequence[str], retrieved: Sequence[str]) -> list[list[int]]:
            lengths = [len(text) for text in expected]
            return [[n for n, size in enumerate(lengths) if size == len(t)] for t in retrieved]

    explained = explain_match(RUN, DATASET, "q", "part", matcher=SameLength())
    assert str(explained) == (
        "Not matched: by length, 'part' matches none of 4 labelled passages; "
        "the nearest is 'titan'."
    )


def test_what_cannot_be_explained() -> None:
    with pytest.raises(InvalidInput, match="item: expected a passage that was retrieved for 'q'"):
        explain_match(RUN, DATASET, "q", "elsewhere")
    with pytest.raises(InvalidInput, match=r"expected a labelled passage of 'q': 'tit"):
        explain_match(RUN, DATASET, "q", "titan", "rhea")
    with pytest.raises(InvalidInput, match="texts of what was retrieved"):
        explain_match(Run({"q": ["titan"]}), DATASET, "q", "titan", matcher="text")


def test_a_matcher_that_decides_by_more_than_its_likeness() -> None:
    class Never(ContainmentMatcher):
        def match(self, expected: Sequence[Any], retrieved: Sequence[Any]) -> Any:
            return [() for _ in retrieved]

    dataset = RetrievalDataset({"q": "?"}, {"q": ["a"]}, {"a": "the same text"})
    run = Run({"q": Ranking(["n"], texts=["the same text"])})
    explained = explain_match(run, dataset, "q", "n", matcher=Never())
    assert (explained.is_match, explained.threshold) == (False, None)
    assert "is needed" not in explained.sentence


def test_nothing_is_expected_by_id() -> None:
    dataset = RetrievalDataset({"q": "?"}, {"q": []})
    explained = explain_match(Run({"q": ["a"]}), dataset, "q", "a")
    assert explained.sentence == "Not matched: id 'a' isn't labelled; nothing is, by id."
