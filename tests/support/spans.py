"""Random questions about places in documents, and span metrics as sets of characters."""

from hypothesis import strategies as st

from llama_index_rag_metrics import Ranking, Relevance, Span

SPAN_NAMES = ["span_recall", "span_precision", "span_f1", "span_iou"]


def places(shortest: int) -> st.SearchStrategy[Span]:
    """Places in a few documents, which overlap, touch, or hold nothing where that is allowed."""
    return st.builds(
        lambda source, start, length: Span(source, start, start + length),
        st.sampled_from(["a", "b", "文"]),
        st.integers(0, 30),
        st.integers(shortest, 12),
    )


@st.composite
def questions(draw: st.DrawFn) -> tuple[Relevance, Ranking]:
    """Graded passages, chunks of which some have no place or stand twice, and their tokens."""
    wanted = draw(st.lists(places(1), unique=True, max_size=5))
    grades = draw(st.lists(st.sampled_from([0, 1, 2]), min_size=len(wanted), max_size=len(wanted)))
    chunks = draw(st.dictionaries(st.sampled_from("uvwxyz"), st.none() | places(0), max_size=6))
    ids = draw(st.lists(st.sampled_from(sorted(chunks)), max_size=9)) if chunks else []
    tokens = [1 + ord(item) % 5 for item in ids]
    ranking = Ranking(ids, spans=[chunks[item] for item in ids], tokens=tokens)
    return Relevance(spans=wanted, grades=grades), ranking


def characters(spans: list[Span]) -> set[tuple[str, int]]:
    return {(span.source, place) for span in spans for place in range(span.start, span.end)}


def by_sets(
    name: str, relevance: Relevance, ranking: Ranking, n_items: int | None, min_grade: float
) -> float:
    """The definition, element by element."""
    spans = relevance.spans or {}
    wanted = characters([spans[item] for item, g in relevance.grades.items() if g >= min_grade])
    distinct = dict(zip(reversed(ranking.ids), reversed(ranking.spans or ()), strict=True))
    first = [distinct[item] for item in dict.fromkeys(ranking.ids)][:n_items]
    got = characters([span for span in first if span is not None])
    both, either = len(wanted & got), len(wanted | got)
    whole = {
        "span_recall": len(wanted),
        "span_precision": len(got),
        "span_f1": (len(wanted) + len(got)) / 2,
        "span_iou": either,
    }[name]
    return both / whole if whole else 0.0
