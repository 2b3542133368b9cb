"""What the first edition (commit 4a4c7334) made of generated inputs is made again, bit for bit."""

import gzip
import json
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from llama_index.core.schema import NodeWithScore, TextNode
from support.paths import SHARED

from llama_index_rag_metrics import (
    Ranking,
    Relevance,
    RetrievalDataset,
    Run,
    Scores,
    Span,
    check_rules,
    compare,
    evaluate,
    score_rankings,
    sweep,
)

FOLDER = SHARED / "data" / "before"
pytestmark = [
    pytest.mark.skipif(not FOLDER.is_dir(), reason="needs ../shared/data/before"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
]


def stored(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(
        gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes())
    )
    assert rows
    return rows


def plain(value: Any) -> Any:
    """The value as JSON gives it back: NaN and None are the same."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and math.isnan(value) else value


def without_nan(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: plain(value) for name, value in values.items()}


def check_scores(scores: Scores, row: dict[str, Any]) -> None:
    for name, values in row["values"].items():
        assert without_nan(scores.by_query(name)) == without_nan(values), name
    assert without_nan(scores.means) == without_nan(row["means"])


def score_ids(row: dict[str, Any]) -> Scores:
    return score_rankings(row["labels"], row["rankings"], list(row["values"]))


def score_groups(row: dict[str, Any]) -> Scores:
    labels = {query: Relevance.groups(groups) for query, groups in row["labels"].items()}
    return score_rankings(labels, row["rankings"], list(row["values"]))


def score_spans(row: dict[str, Any]) -> Scores:
    labels = {
        query: Relevance.of_spans([Span(*span) for span in spans])
        for query, spans in row["labels"].items()
    }
    rankings = {}
    for query, spans in row["retrieved"].items():
        ids = [f"c{position}" for position in range(len(spans))]
        rankings[query] = Ranking(ids, spans=[Span(*span) for span in spans])
    return score_rankings(labels, Run(rankings), list(row["values"]))


@pytest.mark.parametrize(
    ("kind", "score"), [("ids", score_ids), ("groups", score_groups), ("spans", score_spans)]
)
def test_scores_are_those_of_before(kind: str, score: Callable[[dict[str, Any]], Scores]) -> None:
    rows = [row for row in stored("scores") if row["kind"] == kind]
    assert len(rows) >= 60
    for row in rows:
        check_scores(score(row), row)


def test_matching_by_text_is_that_of_before() -> None:
    metrics = ["recall@5", "ndcg@5", "mrr", "precision@5"]
    ids = ["e0", "e1", "e2"]
    for row in stored("matching"):
        dataset = RetrievalDataset(
            {"q": "?"}, {"q": ids}, dict(zip(ids, row["expected"], strict=True))
        )
        nodes = [
            NodeWithScore(node=TextNode(id_=f"r{rank}", text=text), score=1 - rank / 10)
            for rank, text in enumerate(row["retrieved"])
        ]
        results = evaluate(lambda query, nodes=nodes: nodes, dataset, metrics, matcher="text")
        assert dict(results.scores.means) == row["means"]


def tables(row: dict[str, Any]) -> dict[str, Scores]:
    return {
        name: Scores(row["ids"], columns, metadata=row["metadata"])
        for name, columns in row["systems"].items()
    }


MEAN_FIELDS = ("mean", "low", "high")
DIFFERENCE_FIELDS = (
    "n",
    "mean",
    "baseline_mean",
    "difference",
    "low",
    "high",
    "wins",
    "ties",
    "losses",
    "detectable",
    "outcome",
)


def test_comparisons_are_those_of_before() -> None:
    for row in stored("compare"):
        comparison = compare(tables(row), row["baseline"], confidence=row["confidence"])
        for before in row["means"]:
            interval = comparison.means[before["system"], before["metric"]]
            assert {name: plain(getattr(interval, name)) for name in MEAN_FIELDS} == {
                name: before[name] for name in MEAN_FIELDS
            }
        assert len(list(comparison)) == len(row["differences"])
        for before in row["differences"]:
            difference = comparison[before["system"], before["metric"]]
            assert {name: plain(getattr(difference, name)) for name in DIFFERENCE_FIELDS} == {
                name: before[name] for name in DIFFERENCE_FIELDS
            }


VERDICT_FIELDS = (
    "metric",
    "outcome",
    "value",
    "baseline",
    "difference",
    "n",
    "lower",
    "upper",
    "needed",
    "decidable",
)


def test_verdicts_of_the_gate_are_those_of_before() -> None:
    for row in stored("gate"):
        scores = tables(row)
        rules = [verdict["rule"] for verdict in row["verdicts"]]
        report = check_rules(scores["b"], rules, baseline=scores["a"])
        for verdict, before in zip(report.verdicts, row["verdicts"], strict=True):
            assert {name: plain(getattr(verdict, name)) for name in VERDICT_FIELDS} == {
                name: before[name] for name in VERDICT_FIELDS
            }


def sweep_of(row: dict[str, Any]) -> Any:
    places = row["places"]
    n_queries = len(next(iter(places.values())))
    queries = {f"q{number:03}": f"{number}" for number in range(n_queries)}
    dataset = RetrievalDataset(queries, {query: [f"d{text}"] for query, text in queries.items()})

    def build(c: str) -> Callable[[str], list[str]]:
        def retrieve(text: str) -> list[str]:
            above = places[c][int(text)] - 1
            return [
                *(f"x{n}" for n in range(above)),
                f"d{text}",
                *(f"y{n}" for n in range(12 - above - 1)),
            ]

        return retrieve

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sweep(build, {"c": list(places)}, dataset, row["metrics"])


def test_sweeps_are_those_of_before() -> None:
    for row in stored("sweep"):
        result = sweep_of(row)
        assert getattr(result.winner, "name", None) == row["winner"]
        # correlations are a matrix product, whose last bit depends on the machine's BLAS
        at_most_worse = {c.name: result.at_most_worse(c) for c in result}
        assert at_most_worse == pytest.approx(row["at_most_worse"], rel=1e-12)
        assert [c.name for c in result.within] == row["within"]
        assert [c.name for c in result.not_beaten] == row["undefeated"]
