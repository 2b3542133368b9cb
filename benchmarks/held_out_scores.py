"""Per-query scores of real retrieval on which no method of the package was chosen.

Beside real_scores.py, and by the same manner:

* spans: 472 questions on five texts, each with one to five passages that answer it; 2,000-odd
  chunks, ten retrievers, metrics of places, tokens, facets and grades.
* agents: the same questions, asked in several calls by six agents, each of which goes on asking for
  the words of the question that it hasn't read.
* other runs: Cranfield's graded labels, eleven runs that real_scores.py doesn't have.
* deep: the best abstract of each question by BM25 with four settings, 100 deep and uncut, so that
  many tiny changes stand beside few large ones.
* clusters: known items. Every third word of up to five sentences of a passage looks for it, so that
  the questions about a passage share it.

`python benchmarks/held_out_scores.py FOLDER` builds held_out_scores.json.gz from the collections
`spans` (questions.csv, corpora/*.md) and `cranfield` (in BEIR's format). The file holds numbers
alone.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from real_scores import DEPTH, UNIT, bm25, collection, nearest, vectors

from llama_index_rag_metrics import Call, Ranking, Relevance, fuse, score_rankings

Run: TypeAlias = Mapping[str, Sequence[str]]

STORED = Path(__file__).with_name("held_out_scores.json.gz")
CHUNK = 700
"""Characters, at most; a paragraph that is longer is cut after a blank."""
SPAN_METRICS = ("span_recall@5", "span_iou@5", "span_f1@5")
ID_METRICS = (
    "ndcg@10",
    "mrr@10",
    "recall@5",
    "hit_rate@5",
    "precision@5",
    "dcg@10",
    "complete@5",
    "facet_recall@5",
    "alpha_ndcg@10",
    "tokens@5",
)
OTHER_METRICS = ("ndcg@10", "ap@10", "err@10", "hit_rate@5", "precision@5", "dcg@10")
DEEP_METRICS = ("ap", "ndcg")
KNOWN_METRICS = ("ndcg@10", "mrr@10", "hit_rate@5", "hit_rate@1")
AGENT_METRICS = ("calls", "wasted_calls", "new_relevant", "recall", "complete")
AGENTS = (("bm25", 3, 0.5), ("bm25", 3, 0.6), ("bm25", 3, 0.8), ("bm25", 5, 0.6))
"""The retriever, passages a call, and the share of the question's words that is enough."""
OTHER_AGENTS = (("tf-idf", 3, 0.6), ("lsa", 3, 0.6))
MOST_CALLS = 6


class Population(NamedTuple):
    """Scores of several runs over the same questions.

    Attributes:
        scores: metric to (questions, runs) scores.
        changes: (baseline, system), each a column.
        clusters: (questions,) what questions have in common, or None.
    """

    runs: Sequence[str]
    scores: Mapping[str, npt.NDArray[np.float64]]
    changes: Sequence[tuple[int, int]]
    clusters: npt.NDArray[np.int64] | None


def load() -> dict[str, Population]:
    """The stored scores, by name of the population."""
    stored = json.loads(gzip.decompress(STORED.read_bytes()))
    return {
        name: Population(
            part["runs"],
            {metric: np.array(rows).T / UNIT for metric, rows in part["scores"].items()},
            [(0, run) for run in range(1, len(part["runs"]))],
            np.array(part["clusters"]) if part["clusters"] else None,
        )
        for name, part in stored.items()
    }


def changed_pairs() -> Iterator[tuple[str, str, npt.NDArray[np.float64]]]:
    """Population, metric and (questions, 2) scores of every change, baseline first."""
    for name, population in load().items():
        for metric, scores in population.scores.items():
            for change in population.changes:
                pair = scores[:, change]
                if np.ptp(pair, axis=1).any():
                    yield name, metric, pair


def build(folder: Path) -> dict[str, object]:
    """Everything that is stored."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in _corpora(folder)}
    chunks = {
        f"{source}[{start}:{end}]": (source, start, end)
        for source, text in texts.items()
        for start, end in _chunks(text)
    }
    bodies = {name: texts[source][start:end] for name, (source, start, end) in chunks.items()}
    questions = [*csv.DictReader((folder / "spans" / "questions.csv").open(encoding="utf-8"))]
    asked = {f"q{number}": row["question"] for number, row in enumerate(questions)}
    places = {
        name: [
            (row["corpus_id"], part["start_index"], part["end_index"])
            for part in json.loads(row["references"])
        ]
        for name, row in zip(asked, questions, strict=True)
    }
    facets = {
        name: Relevance.facets(
            {str(number): _touching(place, chunks) for number, place in enumerate(expected)}
        )
        for name, expected in places.items()
    }
    by_place = {name: Relevance.of_spans(expected) for name, expected in places.items()}
    runs = _runs(bodies, asked)
    tokens = {name: len(text.split()) for name, text in bodies.items()}
    ranked = {
        run: {
            name: Ranking(
                ids, spans=[chunks[item] for item in ids], tokens=[tokens[item] for item in ids]
            )
            for name, ids in found.items()
        }
        for run, found in runs.items()
    }
    spans = _scored(facets, ranked, ID_METRICS)
    for run, found in ranked.items():
        spans[run].update(_scored(by_place, {run: found}, SPAN_METRICS)[run])
    agents = {
        f"{name}, {size} a call, until {enough}": _sessions(bodies, asked, name, size, enough)
        for name, size, enough in (*AGENTS, *OTHER_AGENTS)
    }
    graded, best, _ = collection(folder / "cranfield")
    known, known_bodies, clusters = _known_items(texts)
    return {
        "spans": _part(spans),
        "agents": _part(_scored(facets, agents, AGENT_METRICS)),
        "other runs": _part(_scored(graded[1], _other_runs(*graded[2:]), OTHER_METRICS)),
        "deep": _part(_scored(best[1], _deep(*best[2:]), DEEP_METRICS)),
        "clusters": _part(
            _scored(
                {name: [item] for name, item in clusters.items()},
                _runs(known_bodies, known),
                KNOWN_METRICS,
            ),
            [*clusters.values()],
        ),
    }


def _corpora(folder: Path) -> list[Path]:
    return sorted((folder / "spans" / "corpora").glob("*.md"))


def _chunks(text: str, size: int = CHUNK) -> Iterator[tuple[int, int]]:
    """Where the chunks of a text are: cut after the last blank that fits."""
    start = 0
    while start < len(text):
        end = min(start + size, len(text))
        if end < len(text):
            end = max(text.rfind("\n\n", start + size // 2, end), text.rfind(" ", start, end)) + 1
            end = end if end > start else start + size
        if text[start:end].strip():
            yield start, end
        start = end


def _touching(place: tuple[str, int, int], chunks: Mapping[str, tuple[str, int, int]]) -> list[str]:
    source, start, end = place
    return [
        name
        for name, (other, first, last) in chunks.items()
        if other == source and first < end and start < last
    ]


def _scored(
    relevant: Mapping[str, object], runs: Mapping[str, Mapping[str, object]], metrics: Sequence[str]
) -> dict[str, dict[str, list[int]]]:
    """Run to metric to scores in ten-thousandths."""
    return {
        run: {
            metric: np.rint(np.asarray(scores[metric]) * UNIT).astype(int).tolist()
            for metric in metrics
        }
        for run, found in runs.items()
        for scores in [score_rankings(relevant, found, metrics)]
    }


def _part(
    scored: Mapping[str, Mapping[str, list[int]]], clusters: Sequence[str] = ()
) -> dict[str, object]:
    names = {name: number for number, name in enumerate(dict.fromkeys(clusters))}
    metrics = next(iter(scored.values()))
    return {
        "runs": [*scored],
        "scores": {metric: [run[metric] for run in scored.values()] for metric in metrics},
        "clusters": [names[name] for name in clusters],
    }


def _runs(documents: Mapping[str, str], queries: Mapping[str, str]) -> dict[str, Run]:
    """Ten retrievers; the first is the baseline of the others."""
    runs: dict[str, Run] = {
        "bm25": bm25(documents, queries),
        "bm25, k1 0.9 b 0.4": bm25(documents, queries, k1=0.9, b=0.4),
        "bm25, no stemming": bm25(documents, queries, stemmed=False),
        "tf-idf": vectors(documents, queries, None),
        "lsa, 100 dimensions": vectors(documents, queries, 100),
        "lsa, 200 dimensions": vectors(documents, queries, 200),
        "characters": _by_characters(documents, queries),
        "hashed words": _hashed(documents, queries),
    }
    runs["hybrid"] = _fused(runs["bm25"], runs["lsa, 200 dimensions"])
    return runs | {"bm25, approximate": _approximate(runs["bm25"])}


def _other_runs(documents: Mapping[str, str], queries: Mapping[str, str]) -> dict[str, Run]:
    titles = {item: text.split(". ")[0] for item, text in documents.items()}
    runs: dict[str, Run] = {
        "bm25, k1 1.2 b 0.6": bm25(documents, queries, k1=1.2, b=0.6),
        "bm25, k1 2 b 1": bm25(documents, queries, k1=2.0, b=1.0),
        "bm25, titles": bm25(titles, queries),
        "tf-idf, titles": vectors(titles, queries, None),
        "lsa, 50 dimensions": vectors(documents, queries, 50),
        "lsa, 300 dimensions": vectors(documents, queries, 300),
        "characters": _by_characters(documents, queries),
        "hashed words": _hashed(documents, queries),
    }
    baseline = runs["bm25, k1 1.2 b 0.6"]
    runs["hybrid"] = _fused(baseline, runs["characters"])
    runs["approximate"] = _approximate(baseline)
    return runs | {"one in fifteen touched": _touched(baseline)}


def _deep(documents: Mapping[str, str], queries: Mapping[str, str]) -> dict[str, Run]:
    settings = {"1.5 0.75": (1.5, 0.75), "0.9 0.4": (0.9, 0.4), "1.2 0.75": (1.2, 0.75)}
    runs = {
        name: bm25(documents, queries, k1=k1, b=b, depth=100) for name, (k1, b) in settings.items()
    }
    return runs | {"no stemming": bm25(documents, queries, stemmed=False, depth=100)}


def _by_characters(documents: Mapping[str, str], queries: Mapping[str, str]) -> Run:
    from sklearn.feature_extraction.text import TfidfVectorizer

    grams = TfidfVectorizer(sublinear_tf=True, analyzer="char_wb", ngram_range=(3, 4))
    return nearest(grams.fit(documents.values()).transform, documents, queries)


def _hashed(documents: Mapping[str, str], queries: Mapping[str, str]) -> Run:
    from sklearn.feature_extraction.text import HashingVectorizer

    words = HashingVectorizer(n_features=2**11, stop_words="english", alternate_sign=False)
    return nearest(words.transform, documents, queries)


def _fused(*runs: Run) -> Run:
    fused = fuse({str(number): run for number, run in enumerate(runs)}, depth=DEPTH)
    return {name: list(ranking.ids) for name, ranking in fused.items()}


def _approximate(run: Run) -> Run:
    """As an approximate index does: one in twenty of the items isn't found."""
    rng = np.random.default_rng(0)
    return {name: [item for item in ids if rng.random() > 0.05] for name, ids in run.items()}


def _touched(run: Run) -> Run:
    """One question in fifteen is ranked the other way round."""
    rng = np.random.default_rng(1)
    return {name: [*reversed(ids)] if rng.random() < 1 / 15 else ids for name, ids in run.items()}


def _sessions(
    documents: Mapping[str, str], queries: Mapping[str, str], name: str, size: int, enough: float
) -> dict[str, Ranking]:
    """What an agent retrieves that asks again for the words that it hasn't read."""
    words = {item: _words(text) for item, text in documents.items()}
    calls: dict[str, list[Call]] = {query: [] for query in queries}
    asking = dict(queries)
    for _ in range(MOST_CALLS):
        found = (
            bm25(documents, asking)
            if name == "bm25"
            else vectors(documents, asking, 100 if name == "lsa" else None)
        )
        for query, ids in found.items():
            calls[query].append(Call(ids[:size], query=asking[query]))
        missing = {
            query: _words(queries[query]).difference(
                *(words[item] for call in calls[query] for item in call.ids)
            )
            for query in asking
        }
        asking = {
            query: " ".join(sorted(left))
            for query, left in missing.items()
            if len(left) > (1 - enough) * len(_words(queries[query]))
            and " ".join(sorted(left)) != asking[query]
        }
        if not asking:
            break
    return {
        query: Ranking([*dict.fromkeys(item for call in made for item in call.ids)], calls=made)
        for query, made in calls.items()
    }


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z0-9]+", text.lower()) if len(word) > 3}


def _known_items(texts: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Questions, passages, and which passage each question looks for."""
    passages = {
        f"p{number}": texts["finance"][start:end]
        for number, (start, end) in enumerate(_chunks(texts["finance"], 3 * CHUNK))
    }
    questions, wanted = {}, {}
    for item, text in passages.items():
        sentences = [
            words
            for sentence in re.split(r"(?<=[.!?])\s", text)
            if len(words := re.findall(r"[A-Za-z]{3,}", sentence)) >= 12
        ]
        for words in sentences[:5]:
            name = f"k{len(questions)}"
            questions[name], wanted[name] = " ".join(words[::3]), item
    return questions, passages, wanted


if __name__ == "__main__":
    content = json.dumps(build(Path(sys.argv[1])), separators=(",", ":"))
    STORED.write_bytes(gzip.compress(content.encode(), 9, mtime=0))
    for name, population in load().items():
        print(name, len(population.runs), population.clusters is not None)
        for metric, scores in population.scores.items():
            print("  ", metric, scores.shape, scores.mean(axis=0).round(3))
    print(f"{STORED.name}: {STORED.stat().st_size:,} bytes")
