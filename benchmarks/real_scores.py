"""Per-query scores of real retrieval, on which the statistics are measured.

Eight retrievers on the Cranfield collection (1,400 abstracts on aerodynamics, 225 questions), with
three kinds of labels: graded ones, the single best abstract of each question, and 1,398 known-item
questions, which are titles that look for the abstract below them. `python benchmarks/real_scores.py
FOLDER` builds real_scores.json.gz from a copy of the collection in BEIR's format. The file holds
numbers alone: ten-thousandths, one a query.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Labels: TypeAlias = str
Populations: TypeAlias = dict[str, dict[str, npt.NDArray[np.float64]]]
"""Labels to metric to (queries, runs) scores; the runs are in the order of RUNS."""

STORED = Path(__file__).with_name("real_scores.json.gz")
UNIT = 10_000
DEPTH = 10
METRICS = ("ndcg@10", "mrr@10", "recall@10", "hit_rate@5", "hit_rate@1", "precision@5")
RUNS = (
    "bm25",
    "bm25, k1 0.9 b 0.4",
    "bm25, no stemming",
    "bm25, first sentence only",
    "tf-idf",
    "lsa, 100 dimensions",
    "lsa, 200 dimensions",
    "hybrid",
)
CHANGES = (
    ("bm25", "bm25, k1 0.9 b 0.4"),
    ("bm25", "bm25, no stemming"),
    ("bm25", "hybrid"),
    ("bm25", "tf-idf"),
    ("lsa, 100 dimensions", "lsa, 200 dimensions"),
    ("bm25", "lsa, 200 dimensions"),
    ("bm25", "bm25, first sentence only"),
)
"""(baseline, system): from a parameter that changes few queries to another retriever."""


def load() -> Populations:
    """The stored scores."""
    stored = json.loads(gzip.decompress(STORED.read_bytes()))
    return {
        labels: {
            metric: np.array([metrics[metric] for metrics in runs.values()]).T / UNIT
            for metric in METRICS
        }
        for labels, runs in stored.items()
    }


def differences(
    scores: npt.NDArray[np.float64], change: tuple[str, str]
) -> npt.NDArray[np.float64]:
    """(queries,) system minus baseline."""
    baseline, system = (RUNS.index(name) for name in change)
    return np.round(scores[:, system] - scores[:, baseline], 4)


def build(folder: Path) -> dict[str, dict[str, dict[str, list[int]]]]:
    """Labels to run to metric to scores in ten-thousandths."""
    from llama_index_rag_metrics import score_rankings

    return {
        labels: {
            name: {
                metric: np.rint(scores[metric] * UNIT).astype(int).tolist() for metric in METRICS
            }
            for name, run in _runs(documents, queries).items()
            for scores in [score_rankings(relevant, run, METRICS)]
        }
        for labels, relevant, documents, queries in collection(folder)
    }


def collection(
    folder: Path,
) -> Iterator[tuple[Labels, dict[str, dict[str, int]], dict[str, str], dict[str, str]]]:
    """Every kind of labels, with relevance, documents and queries."""
    corpus = _lines(folder / "corpus.jsonl")
    questions = {row["_id"]: row["text"] for row in _lines(folder / "queries.jsonl")}
    graded: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query_id, item, grade = line.split("\t")
        graded.setdefault(query_id, {})[item] = int(grade)
    best = {
        query_id: {max(grades, key=grades.__getitem__): 1} for query_id, grades in graded.items()
    }
    whole = {row["_id"]: f"{row['title']}. {row['text']}" for row in corpus}
    bodies = {row["_id"]: row["text"] for row in corpus if row["text"].strip()}
    titles = {row["_id"]: row["title"] for row in corpus if row["_id"] in bodies}
    asked = {query_id: questions[query_id] for query_id in graded}
    yield "graded", graded, whole, asked
    yield "single label", best, whole, asked
    yield "known item", {item: {item: 1} for item in titles}, bodies, titles


def _lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _runs(
    documents: Mapping[str, str], queries: Mapping[str, str]
) -> dict[str, Mapping[str, Sequence[str]]]:
    from llama_index_rag_metrics import fuse

    first = {item_id: text.split(" . ")[0] for item_id, text in documents.items()}
    runs: dict[str, Mapping[str, Sequence[str]]] = {
        RUNS[0]: bm25(documents, queries),
        RUNS[1]: bm25(documents, queries, k1=0.9, b=0.4),
        RUNS[2]: bm25(documents, queries, stemmed=False),
        RUNS[3]: bm25(first, queries),
        RUNS[4]: vectors(documents, queries, None),
        RUNS[5]: vectors(documents, queries, 100),
        RUNS[6]: vectors(documents, queries, 200),
    }
    fused = fuse({name: runs[name] for name in (RUNS[0], RUNS[6])}, depth=DEPTH)
    runs[RUNS[7]] = {query_id: list(ranking.ids) for query_id, ranking in fused.items()}
    return runs


def bm25(
    documents: Mapping[str, str],
    queries: Mapping[str, str],
    k1: float = 1.5,
    b: float = 0.75,
    *,
    stemmed: bool = True,
    depth: int = DEPTH,
) -> dict[str, list[str]]:
    import bm25s
    import Stemmer

    options = {
        "stopwords": "en",
        "stemmer": Stemmer.Stemmer("english") if stemmed else None,
        "show_progress": False,
    }
    index = bm25s.BM25(k1=k1, b=b)
    index.index(bm25s.tokenize([*documents.values()], **options), show_progress=False)
    tokens = bm25s.tokenize([*queries.values()], **options)
    places, _ = index.retrieve(tokens, k=depth, show_progress=False)
    item_ids = np.array([*documents])
    return dict(zip(queries, item_ids[places].tolist(), strict=True))


def vectors(
    documents: Mapping[str, str], queries: Mapping[str, str], dimensions: int | None
) -> dict[str, list[str]]:
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    terms = TfidfVectorizer(sublinear_tf=True, stop_words="english")
    indexed = terms.fit_transform(documents.values())
    if dimensions is None:
        return nearest(terms.transform, documents, queries)
    svd = TruncatedSVD(dimensions, random_state=0).fit(indexed)
    return nearest(
        lambda texts: normalize(svd.transform(terms.transform(texts))), documents, queries
    )


def nearest(
    embed: Callable[[Iterable[str]], Any], documents: Mapping[str, str], queries: Mapping[str, str]
) -> dict[str, list[str]]:
    """The items whose features, dense or sparse, are most alike."""
    similarity = embed(queries.values()) @ embed(documents.values()).T
    dense = similarity if isinstance(similarity, np.ndarray) else similarity.toarray()
    order = np.argsort(-dense, axis=1, kind="stable")[:, :DEPTH]
    return dict(zip(queries, np.array([*documents])[order].tolist(), strict=True))


if __name__ == "__main__":
    content = json.dumps(build(Path(sys.argv[1])), separators=(",", ":"))
    STORED.write_bytes(gzip.compress(content.encode(), 9, mtime=0))
    for labels, metrics in load().items():
        for metric, scores in metrics.items():
            print(labels, metric, scores.shape, scores.mean(axis=0).round(3))
    print(f"{STORED.name}: {STORED.stat().st_size:,} bytes")
