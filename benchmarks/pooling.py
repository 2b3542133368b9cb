"""How many judgements the most decisive need, and how often the stopping rule is wrong.

    python benchmarks/pooling.py FOLDER [--draws 10] [--runs 500] [--part order|stopping]
    python benchmarks/pooling.py --part size

FOLDER is a BEIR folder with judgements, such as the Cranfield collection. They are hidden, and
given out as they are asked for; what the collection didn't judge isn't relevant. Six systems:
tf-idf of words, without idf, of titles alone, of characters, and two of latent semantic analysis.

order: how many judgements it takes until the order of the six by a metric is within a Kendall's tau
of .9 of that by all judgements, and stays there, by "decisive" and by "depth"; the mean of draws of
half of the questions.

stopping: two of the systems and 50 of the questions, by lot; judgements are given out in batches
until the pool says that it is enough; wrong is a verdict that the rest turns.

size: time and memory of a pool of ten random systems, 2,000 questions and 50 ranks.
"""

from __future__ import annotations

import argparse
import random
import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import kendalltau
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from llama_index_rag_metrics import Relevance, RetrievalDataset, Run, pool, score_rankings
from llama_index_rag_metrics.labels.pooling import PoolItem

METRICS = ("ndcg@10", "ap@10", "precision@10", "recall@10")
DEPTH = 20
BATCH = 50


def systems(dataset: RetrievalDataset) -> dict[str, Run]:
    """Six systems of different kinds and qualities."""
    texts = [dataset.indexed_text(document_id) for document_id in dataset.corpus]
    titles = [dataset.titles.get(document_id, "") or "untitled" for document_id in dataset.corpus]
    words = {"stop_words": "english", "sublinear_tf": True}
    return {
        "words": _tfidf(dataset, texts, **words),
        "without idf": _tfidf(dataset, texts, use_idf=False),
        "titles": _tfidf(dataset, titles, **words),
        "characters": _tfidf(dataset, texts, analyzer="char_wb", ngram_range=(3, 4)),
        "lsa 100": _tfidf(dataset, texts, 100, **words),
        "lsa 20": _tfidf(dataset, texts, 20, **words),
    }


def _tfidf(dataset: RetrievalDataset, texts: list[str], topics: int = 0, **options: object) -> Run:
    vectorizer = TfidfVectorizer(**options)
    documents = vectorizer.fit_transform(texts)
    queries = vectorizer.transform(dataset.queries.values())
    if topics:
        reduction = TruncatedSVD(topics, random_state=0)
        documents = reduction.fit_transform(documents)
        documents /= np.maximum(np.linalg.norm(documents, axis=1, keepdims=True), 1e-9)
        similarity = reduction.transform(queries) @ documents.T
    else:
        similarity = (queries @ documents.T).toarray()
    ids = np.array(list(dataset.corpus))
    best = np.argsort(-similarity, axis=1, kind="stable")[:, :DEPTH]
    return Run({query: ids[row].tolist() for query, row in zip(dataset.queries, best, strict=True)})


class Oracle:
    """Judgements that are given out when they are asked for."""

    def __init__(self, relevance: Mapping[str, Relevance]) -> None:
        self._hidden = relevance
        self.judged: dict[str, dict[str, float]] = {query: {} for query in relevance}

    def judge(self, items: Sequence[PoolItem]) -> int:
        for item in items:
            grade = self._hidden[item.query_id].grades.get(item.id, 0.0)
            self.judged[item.query_id][item.id] = grade
        return len(items)


def means(runs: Mapping[str, Run], relevance: Mapping[str, object], metric: str) -> list[float]:
    scored = (score_rankings(relevance, run, [metric], no_relevant="zero") for run in runs.values())
    return [scores.means[metric] for scores in scored]


def in_sight(
    runs: Mapping[str, Run], relevance: Mapping[str, Relevance], depth: int = 10
) -> dict[str, Relevance]:
    """What judging the whole pool would give."""
    judged = {}
    for query, judgement in relevance.items():
        seen = {item for run in runs.values() for item in run[query].ids[:depth]}
        judged[query] = Relevance({item: judgement.grades.get(item, 0.0) for item in sorted(seen)})
    return judged


def judgements_needed(
    runs: Mapping[str, Run], relevance: Mapping[str, Relevance], metric: str, strategy: str
) -> tuple[int, int]:
    """Judgements until tau is .9 for good, and until the pool asks for nothing more."""
    truth = means(runs, in_sight(runs, relevance), metric)
    oracle = Oracle(relevance)
    needed: int | None = None
    n = 0
    for items in batches(runs, oracle, metric, strategy):
        n += oracle.judge(items)
        tau = kendalltau(means(runs, oracle.judged, metric), truth).statistic
        needed = (needed or n) if tau >= 0.9 else None
    return needed or n, n


def batches(
    runs: Mapping[str, Run], oracle: Oracle, metric: str, strategy: str
) -> Iterator[Sequence[PoolItem]]:
    """What to judge, a batch at a time; the order by depth doesn't hang on what is judged."""
    if strategy == "depth":
        whole = pool(runs, metric=metric, strategy="depth", samples=100).items
        yield from (whole[start : start + BATCH] for start in range(0, len(whole), BATCH))
        return
    while items := pool(runs, oracle.judged, n=BATCH, metric=metric, samples=100, level=0.01).items:
        yield items


def stopped(
    runs: Mapping[str, Run], dataset: RetrievalDataset, metric: str, chance: random.Random
) -> tuple[bool, float]:
    """Whether the verdict was wrong, and the share of the pool that was judged."""
    names = chance.sample(sorted(runs), 2)
    queries = chance.sample(sorted(dataset.relevance), 50)
    pair = {name: runs[name].select(queries) for name in names}
    relevance = {query: dataset.relevance[query] for query in queries}
    oracle = Oracle(relevance)
    n = 0
    while True:
        batch = pool(pair, oracle.judged, n=BATCH // 2, metric=metric, samples=200, seed=n)
        if batch.is_enough or not batch.items:
            break
        n += oracle.judge(batch.items)
    first, second = means(pair, in_sight(pair, relevance), metric)
    ahead, behind = (first, second) if batch.pairs[0].first == names[0] else (second, first)
    return ahead < behind, n / (batch.n_judged + batch.n_unjudged)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=Path, nargs="?")
    arguments.add_argument("--draws", type=int, default=10)
    arguments.add_argument("--runs", type=int, default=500)
    arguments.add_argument("--part", choices=("order", "stopping", "size"))
    options = arguments.parse_args()
    if options.part == "size":
        print(size())
        return
    if options.folder is None:
        arguments.error("FOLDER is missing")
    dataset = RetrievalDataset.load(options.folder)
    runs = systems(dataset)
    if options.part in (None, "order"):
        for line in order(dataset, runs, options.draws):
            print(line, flush=True)
    if options.part in (None, "stopping"):
        for line in stopping(dataset, runs, options.runs):
            print(line, flush=True)


def size() -> str:
    rng = np.random.default_rng(0)
    likeness = rng.normal(size=(2_000, 400))
    runs = {}
    for system in range(10):
        noisy = likeness + rng.normal(size=likeness.shape) * (0.5 + 0.15 * system)
        best = np.argsort(-noisy, axis=1)[:, :50]
        runs[f"s{system}"] = Run({f"q{n}": [f"d{d}" for d in row] for n, row in enumerate(best)})
    start = time.perf_counter()
    pooled = pool(runs, n=200)
    seconds = time.perf_counter() - start
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"{pooled.n_unjudged:,} items: {seconds:.0f} s, {most:,.0f} MB at most"


def order(dataset: RetrievalDataset, runs: Mapping[str, Run], draws: int) -> Iterator[str]:
    yield "| metric | decisive | depth | decisive needs fewer | the whole pool |"
    yield "|---|---|---|---|---|"
    for metric in METRICS:
        chance = random.Random(f"16 {metric}")
        rows = []
        for _ in range(draws):
            queries = chance.sample(sorted(dataset.relevance), len(dataset.relevance) // 2)
            relevance = {query: dataset.relevance[query] for query in queries}
            drawn = {name: run.select(queries) for name, run in runs.items()}
            decisive, _ = judgements_needed(drawn, relevance, metric, "decisive")
            rows.append((decisive, *judgements_needed(drawn, relevance, metric, "depth")))
        means = " | ".join(f"{mean:,.0f}" for mean in np.mean(rows, axis=0)[:2])
        fewer = sum(decisive < depth for decisive, depth, _ in rows)
        whole = np.mean(rows, axis=0)[2]
        yield f"| {metric} | {means} | {fewer} of {draws} | {whole:,.0f} |"


def stopping(dataset: RetrievalDataset, runs: Mapping[str, Run], n: int) -> Iterator[str]:
    yield "\n| metric | runs | wrong | judged, mean |\n|---|---|---|---|"
    for metric in METRICS:
        chance = random.Random(f"16 {metric}")
        outcomes = [stopped(runs, dataset, metric, chance) for _ in range(n // len(METRICS))]
        wrong, judged = np.mean(outcomes, axis=0)
        yield f"| {metric} | {len(outcomes)} | {wrong:.1%} | {judged:.0%} |"


if __name__ == "__main__":
    main()
