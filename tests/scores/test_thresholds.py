"""Thresholds on retrieval scores: against a slow sweep, and against MTEB's numbers."""

from __future__ import annotations

import json
import math
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.core.schema import BaseNode, NodeWithScore, TextNode
from llama_index.retrievers.bm25 import BM25Retriever
from support.examples import examples

from llama_index_rag_metrics import (
    Call,
    Ranking,
    Relevance,
    RetrievalDataset,
    Run,
    combine_calls,
    evaluate,
    score_rankings,
    score_thresholds,
)
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnknownMetric
from llama_index_rag_metrics.statistics.abstention import (
    FOLDS,
    Steps,
    abstention_nauc,
    confidences,
    shortest_between,
)
from llama_index_rag_metrics.statistics.intervals import MeanInterval

SCORES = st.sampled_from([-3.0, -0.5, 0.0, 0.1, 0.25, 0.3, 0.75, 0.7500001, 2.0])
ITEMS = st.lists(st.tuples(st.sampled_from("abcdef"), SCORES), max_size=6)
METRICS = st.sampled_from(["recall@2", "mrr", "ndcg@3", "precision", "ap"])
GOLDEN = Path(__file__).parents[1] / "golden" / "mteb" / "nauc.json"


@st.composite
def collections(draw: st.DrawFn) -> tuple[dict[str, dict[str, int]], dict[str, Ranking]]:
    """Questions with and without an answer; rankings with copies and ties, best first."""
    n = draw(st.integers(1, 8))
    expected: dict[str, dict[str, int]] = {"first": {"a": 1}}
    run = {}
    for number in range(n):
        expected[f"q{number}"] = draw(
            st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 2), max_size=3)
        )
    for query_id in expected:
        items = sorted(draw(ITEMS), key=lambda item: -item[1])
        run[query_id] = Ranking([item for item, _ in items], [score for _, score in items])
    return expected, run


def scores_of(ranking: Ranking) -> list[float]:
    return [score for score in ranking.scores or () if score is not None]


def slow_rows(
    expected: dict[str, dict[str, int]], run: dict[str, Ranking], metric: str
) -> list[tuple[float, float, float, float]]:
    """Each score that was seen as a threshold: everything is cut and scored anew."""
    answerable = [query for query, grades in expected.items() if max(grades.values(), default=0)]
    others = [query_id for query_id in expected if query_id not in answerable]
    # of a copy, the score at its first rank
    first = {
        query: dict(reversed([*zip(ranking.ids, scores_of(ranking), strict=True)]))
        for query, ranking in run.items()
    }
    highest = [max(scores_of(run[query])) for query in others if run[query].ids]
    of_answerable = [score for query in answerable for score in first[query].values()]
    rows = []
    for threshold in sorted({*of_answerable, *highest}):
        left = {
            query: [item for item in dict.fromkeys(run[query].ids) if scores[item] >= threshold]
            for query, scores in first.items()
        }
        mean = score_rankings(expected, left, metric).means[metric]
        answered = sum(bool(left[query_id]) for query_id in answerable) / len(answerable)
        spared = sum(not left[query_id] for query_id in others) / len(others) if others else -1.0
        rows.append((threshold, mean, answered, spared))
    return rows


def close(numbers: Any) -> Any:
    return pytest.approx(numbers, rel=1e-12, abs=1e-12)


@pytest.mark.slow
@given(collections(), METRICS, st.sampled_from([0.0, 0.02, 0.3]))
@examples(150)
def test_every_threshold_is_what_a_slow_sweep_says(
    collection: tuple[dict[str, dict[str, int]], dict[str, Ranking]], metric: str, tolerance: float
) -> None:
    expected, run = collection
    found = score_thresholds(expected, run, metric, tolerance=tolerance)
    wanted = slow_rows(expected, run, metric)
    rows = [
        (row.min_score, row.mean, row.answered, -1.0 if math.isnan(row.spared) else row.spared)
        for row in found
    ]
    assert [close(row) for row in rows] == wanted
    full = score_rankings(expected, run, metric).means[metric]
    assert found.without.mean == close(full)
    # the lowest score that spares the most, within the tolerance
    allowed = [row for row in wanted if full - row[1] <= tolerance + 1e-9]
    most = max((row[3] for row in allowed), default=-1.0)
    nothing = [query_id for query_id in expected if not max(expected[query_id].values(), default=0)]
    spared = sum(not run[query_id].ids for query_id in nothing) / max(1, len(nothing))
    if most <= spared or not nothing:
        assert found.proposed is None
        return
    best = next(row for row in allowed if row[3] == most)
    assert found.proposed is not None
    # written shorter, it does the same
    again = score_rankings(expected, run, [metric, "abstained"], min_score=found.proposed.min_score)
    assert again.means[metric] == close(best[1]) == close(found.proposed.seen.mean)
    assert again.means["abstained"] == close(most) == close(found.proposed.seen.spared)
    assert found.proposed.min_score <= best[0]


def slow_choice(top: list[float], best: list[float], tolerance: float) -> float:
    """Of single relevant passages' scores: the lowest threshold that spares most; -inf for none."""
    seen = sorted({*top, *best})
    chosen, most = -math.inf, 0.0
    for below, at in zip([-math.inf, *seen], seen, strict=False):
        lost = sum(each < at for each in top) / len(top)
        spared = sum(each < at for each in best) / len(best)
        if lost <= tolerance + 1e-9 and spared > most + 1e-12:
            chosen, most = shortest_between(below, at), spared
    return chosen


@pytest.mark.parametrize("are_conversations", [False, True])
def test_held_out_figures_are_those_of_thresholds_that_others_chose(
    are_conversations: bool,
) -> None:
    """Conversations have a question of each kind, and scores far from the others'.

    With as many folds as conversations, each is judged by the choice of all the others.
    """
    chance = np.random.default_rng(3)
    folds = np.random.default_rng(0)
    if are_conversations:
        numbers = np.arange(6)
        top, best = np.array([[5.0], [0.0]]) + 10.0 * numbers
        parts, tolerance = [numbers, numbers], 0.2
    else:
        top, best = (np.round(chance.normal(mean, 1, n), 2) for mean, n in ((1, 33), (0, 17)))
        parts, tolerance = [folds.permutation(n) % FOLDS for n in (33, 17)], 0.1
    steps = Steps(top.reshape(-1, 1), np.array([[1.0, 0.0]] * len(top)), best)
    lost, spared = steps.held_out(tolerance, parts if are_conversations else None)
    for fold in range(parts[0].max() + 1):
        inside, others = (part == fold for part in parts)
        threshold = slow_choice(top[~inside].tolist(), best[~others].tolist(), tolerance)
        assert lost[inside].tolist() == (top[inside] < threshold).tolist()
        assert spared[others].tolist() == (best[others] < threshold).tolist()


def width(interval: MeanInterval) -> float:
    assert interval.low is not None
    assert interval.high is not None
    return interval.high - interval.low


def test_conversations_make_intervals_of_what_is_held_out_wider() -> None:
    """Five turns with the same score are no more than one of them, of each of 12 conversations."""
    chance = np.random.default_rng(5)
    levels = chance.normal([1, 0], 1, (12, 2)).round(3).tolist()
    turns = [(f"{conversation} {turn}", conversation, turn % 2)
             for conversation, turn in product(range(12), range(10))]  # fmt: skip
    expected = {query_id: ["a"] * (1 - kind) for query_id, _, kind in turns}
    scores = {query_id: levels[conversation][kind] for query_id, conversation, kind in turns}
    metadata = {query_id: {"conversation": conversation} for query_id, conversation, _ in turns}
    queries = {query_id: query_id for query_id in expected}

    def ask(question: str) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(id_="a", text="a"), score=scores[question])]

    results = evaluate(ask, RetrievalDataset(queries, expected, None, metadata), ["recall"])
    together = results.thresholds("recall", tolerance=0.2).proposed
    alone = score_thresholds(expected, results.run, "recall", tolerance=0.2).proposed
    assert together is not None
    assert alone is not None
    assert together.seen == alone.seen
    assert width(together.loss) > 1.5 * width(alone.loss)
    assert width(together.spared) > 1.5 * width(alone.spared)


def test_a_choice_on_noise_is_seen_through() -> None:
    """Scores that tell nothing: what is chosen looks good, on other questions it doesn't.

    The best of 40 questions without an answer lies below the lowest 2 % of the others only by
    chance: held out, as large a share of both falls below it.
    """
    chance = np.random.default_rng(1)
    seen, held, lost = [], [], []
    for _ in range(60):
        steps = Steps(
            chance.normal(size=(40, 1)), np.array([[1.0, 0.0]] * 40), chance.normal(size=40)
        )
        threshold = steps.choose(0.05)
        seen.append(0.0 if threshold is None else steps.spared(np.array([threshold]))[0])
        of_answerable, of_others = steps.held_out(0.05)
        lost.append(of_answerable.mean())
        held.append(of_others.mean())
    assert np.mean(seen) > np.mean(held) + 0.01
    assert np.mean(held) == pytest.approx(np.mean(lost), abs=0.02)


def test_too_few_questions_are_not_split() -> None:
    run = {"q1": Ranking(["a"], scores=[0.9]), "q2": Ranking(["a"], scores=[0.1])}
    found = score_thresholds({"q1": ["a"], "q2": []}, run, "mrr")
    assert found.proposed is not None
    assert found.proposed.loss.n == found.proposed.spared.n == 0
    assert "too few questions to judge it on others" in str(found)


def test_nothing_without_an_answer_leaves_nothing_to_spare() -> None:
    found = score_thresholds({"q": ["a"]}, {"q": Ranking(["a"], scores=[1.0])}, "mrr")
    assert found.proposed is None
    assert "No question is without an answer" in str(found)
    assert "spared" not in str(found.plot().svg).split("<title>")[0]


def test_no_threshold_may_cost_too_much() -> None:
    run = {"q1": Ranking(["a"], scores=[0.5]), "q2": Ranking(["a"], scores=[0.5])}
    found = score_thresholds({"q1": ["a"], "q2": []}, run, "mrr")
    # a tie at the threshold is kept: the two can't be told apart
    assert [(row.mean, row.spared) for row in found] == [(1.0, 0.0)]
    assert found.proposed is None
    assert "No cutoff within the tolerance, 0.02 of mrr, spares a further" in repr(found)
    assert "cheapest" not in repr(found)
    run["q2"] = Ranking(["a"], scores=[0.7])
    run["q3"] = Ranking(["a"], scores=[0.8])
    # q1 is lost at 0.8
    found = score_thresholds({"q1": ["a"], "q2": [], "q3": ["a"]}, run, "mrr")
    assert "; the cheapest costs 0.50." in repr(found)


WORDS = ["ants", "bees", "march", "dance", "night", "home", "queens", "who"]


class WordEmbedding(BaseEmbedding):
    """A dimension a word; texts without any of them point away from all others."""

    def _get_text_embedding(self, text: str) -> list[float]:
        words = text.lower().split()
        counts = [float(words.count(word)) for word in WORDS]
        return [*counts, 0.0] if any(counts) else [-1.0] * len(WORDS) + [0.0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


PASSAGES = {
    "ants": "ants march at night",
    "bees": "bees dance home",
    "home": "ants march home",
    "queens": "queens dance",
}
QUESTIONS: dict[str, tuple[str, list[str]]] = {
    "q1": ("do ants march at night", ["ants"]),
    "q2": ("how bees dance", ["bees"]),
    "q3": ("who march home", ["home", "ants"]),
    "q4": ("queens dance at home", ["queens"]),
    "q5": ("who repairs zeppelins", []),
    "q6": ("when is it open", []),
    "q7": ("queens ants", []),
    "q8": ("bees march", []),
}


@pytest.mark.parametrize("kind", ["dense", "bm25", "reciprocal_rerank", "relative_score"])
@pytest.mark.parametrize("tolerance", [0.0, 0.3])
def test_llama_index_s_postprocessor_does_what_the_table_says(kind: str, tolerance: float) -> None:
    """Of every row, and of the line that is proposed; negative and equal scores among them."""
    nodes: list[BaseNode] = [TextNode(id_=name, text=text) for name, text in PASSAGES.items()]
    dense = VectorStoreIndex(nodes, embed_model=WordEmbedding()).as_retriever(similarity_top_k=3)
    bm25 = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=3)
    retriever: BaseRetriever = bm25 if kind == "bm25" else dense
    if kind not in ("dense", "bm25"):
        retriever = QueryFusionRetriever(
            [dense, bm25], llm=MockLLM(), num_queries=1, mode=FUSION_MODES(kind), use_async=False
        )
    dataset = RetrievalDataset(
        {query_id: question for query_id, (question, _) in QUESTIONS.items()},
        {query_id: expected for query_id, (_, expected) in QUESTIONS.items()},
    )
    names = ["recall@3", "abstained"]
    results = evaluate(retriever, dataset, names)
    found = results.thresholds(tolerance=tolerance)
    stored = score_thresholds(dataset.relevance, results.run, "recall@3", tolerance=tolerance)
    assert list(found) == list(stored)
    assert (found.nauc, found.proposed) == (stored.nauc, stored.proposed)
    rows = [*found]
    assert len(rows) > 3
    if found.proposed is not None:
        assert found.proposed.line in str(found)
        rows.append(found.proposed.seen)
    [table] = found.report().sections[0].tables
    shown = {float(row.label.split()[0].replace("−", "-")): row.cells for row in table.parts[0]}
    for cutoff in {row.min_score for row in rows} | shown.keys():
        behind = SimilarityPostprocessor(similarity_cutoff=cutoff)
        cut = evaluate(retriever, dataset, names, node_postprocessors=[behind])
        recall, spared = cut.scores.means["recall@3"], cut.scores.means["abstained"]
        answered = sum(bool(cut.run[query_id].ids) for query_id in ("q1", "q2", "q3", "q4"))
        for row in (row for row in rows if row.min_score == cutoff):
            assert (recall, spared, answered / 4) == (close(row.mean), row.spared, row.answered)
        if cutoff in shown:
            values = [cell.value for cell in shown[cutoff]]
            assert values == [close(recall), close(found.without.mean - recall),
                              (answered, 4), (4 * spared, 4)]  # fmt: skip


def test_results_that_were_cut_already_say_so() -> None:
    chance = np.random.default_rng(4)
    scores = {f"q{n}": chance.uniform(size=3).round(3).tolist() for n in range(20)}

    def retrieve(query: str) -> list[NodeWithScore]:
        return [
            NodeWithScore(node=TextNode(id_=f"d{n}", text=f"x {n}"), score=score)
            for n, score in enumerate(sorted(scores[query])[::-1])
        ]

    dataset = RetrievalDataset(
        {query_id: query_id for query_id in scores},
        {query_id: ["d0"] if n % 2 else [] for n, query_id in enumerate(scores)},
    )
    behind = SimilarityPostprocessor(similarity_cutoff=0.5)
    results = evaluate(retrieve, dataset, ["mrr"])
    assert results.thresholds().notes == ()
    cut = evaluate(retrieve, dataset, ["mrr"], node_postprocessors=[behind])
    for found in (
        cut.thresholds(),
        evaluate(retrieve, dataset, ["mrr"], min_score=0.5).thresholds(),
        score_thresholds(dataset.relevance, results.run.at_least(0.5), "mrr"),
    ):
        [note] = found.notes
        assert note.startswith("passages below 0.5 are left out already")
    # as in a file, which doesn't say; some questions got nothing
    lowest = min(score for each in scores.values() for score in each if score >= 0.5)
    [note] = score_thresholds(dataset.relevance, Run({**cut.run}), "mrr").notes
    assert note.startswith("nothing was returned for")
    assert f"only those above {lowest:g}, the lowest score seen" in note


def test_what_a_matcher_recognises_counts() -> None:
    dataset = RetrievalDataset(
        {"q1": "how?", "q2": "who?"},
        {"q2": []},
        expected_texts={"q1": ["Ants march in columns at night."]},
    )
    said = {"how?": "Ants march in columns at night.", "who?": "Bees dance."}

    def retrieve(query: str) -> list[NodeWithScore]:
        node = TextNode(id_=f"new {query}", text=said[query])
        return [NodeWithScore(node=node, score=0.9 if query == "how?" else 0.3)]

    results = evaluate(retrieve, dataset, ["recall@1"], matcher="text")
    rows = [(row.min_score, row.mean, row.spared) for row in results.thresholds("recall@1")]
    assert rows == [(0.3, 1.0, 0.0), (0.9, 1.0, 1.0)]


def test_failed_questions_stay_what_they_are() -> None:
    run = {
        "q1": Ranking(["a"], scores=[0.5]),
        "q2": Ranking(error="down"),
        "q3": Ranking(error="down"),
        "q4": Ranking([]),
    }
    found = score_thresholds({"q1": ["a"], "q2": ["a"], "q3": [], "q4": []}, run, "mrr")
    assert (found.without.mean, found.without.spared, found.n_unanswerable) == (0.5, 1.0, 1)
    # the failed ones aren't taken for cut, q4 is
    assert found.notes[1].startswith("nothing was returned for 1 question: if a threshold was")
    assert found.notes[2] == "1 question without an answer is left out: the retriever failed"


def test_a_question_without_a_ranking_got_nothing() -> None:
    run = {"q1": Ranking(["a"], scores=[0.5]), "q2": Ranking(["a"], scores=[0.1])}
    found = score_thresholds({"q1": ["a"], "q2": [], "q3": []}, run, "mrr")
    assert (found.n_unanswerable, found.without.spared, found[-1].spared) == (2, 0.5, 1.0)


def test_where_nothing_was_returned_there_is_no_threshold() -> None:
    found = score_thresholds({"q1": ["a"], "q2": []}, {"q1": [], "q2": []}, "mrr")
    assert (len(found), found.proposed, found.without.spared) == (0, None, 1.0)
    assert json.loads(found.to_json()) == []
    assert "mrr" in str(found)
    with pytest.raises(InvalidInput, match="a figure"):
        found.plot()


def test_groups_and_facets_are_thresholded_too() -> None:
    expected: dict[str, Any] = {"q1": Relevance.groups([["a", "b"], ["c"]]), "q2": []}
    run = {
        "q1": Ranking(["b", "x", "c"], scores=[0.9, 0.5, 0.4]),
        "q2": Ranking(["a"], scores=[0.45]),
    }
    rows = [(row.min_score, row.mean) for row in score_thresholds(expected, run, "group_recall")]
    assert rows == [(0.4, 1.0), (0.45, 0.5), (0.5, 0.5), (0.9, 0.5)]


def test_distances_are_refused() -> None:
    run = {"q1": Ranking(["a", "b"], scores=[0.1, 0.9]), "q2": Ranking(["a"], scores=[0.4])}
    with pytest.raises(InvalidInput, match=r"rise with the rank, as distances do.*Negate"):
        score_thresholds({"q1": ["a"], "q2": []}, run, "mrr")
    with pytest.raises(InvalidInput, match="rise with the rank"):
        Run(run).at_least(0.5)

    def distances(_: str) -> list[NodeWithScore]:
        pairs = (("a", 0.1), ("b", 0.9))
        return [NodeWithScore(node=TextNode(id_=item, text=item), score=at) for item, at in pairs]

    dataset = RetrievalDataset({"q1": "x"}, {"q1": ["a"]})
    results = evaluate(distances, dataset, ["mrr"], min_score=0.5)
    assert "most scores rise with the rank" in results.scores.notes[0]


def test_a_reranked_order_is_noted() -> None:
    run = {
        "q1": Ranking(["a", "b", "c"], scores=[0.8, 0.9, 0.1]),
        "q2": Ranking(["a", "b"], scores=[0.4, 0.3]),
    }
    found = score_thresholds({"q1": ["a"], "q2": []}, run, "mrr")
    assert "1 ranking isn't in the order of the scores" in found.notes[0]


def test_scores_that_tell_no_questions_apart_are_noted() -> None:
    """As of runs that were fused, or written without scores, or scaled to each question."""
    run = {f"q{n}": Ranking(["a", "b"], scores=[1 / 61, 1 / (62 + n)]) for n in range(4)}
    found = score_thresholds({"q0": ["a"], "q1": ["b"], "q2": [], "q3": []}, run, "mrr")
    [note] = found.notes
    assert "the highest score is the same for every question" in note


def test_single_passages_do_not_show_whether_scores_are_distances() -> None:
    run = {"q1": Ranking(["a"], scores=[0.1]), "q2": Ranking(["a"], scores=[0.4])}
    [note] = score_thresholds({"q1": ["a"], "q2": []}, run, "mrr").notes
    assert "no ranking has two different scores" in note


def test_scores_of_several_retrievers_are_never_pooled() -> None:
    calls = [
        Call(["a"], scores=[0.9], query="x", retriever="dense"),
        Call(["b"], scores=[12.0], query="x", retriever="bm25"),
    ]
    runs = {"q1": combine_calls(calls[:1]), "q2": combine_calls(calls[1:])}
    with pytest.raises(InvalidInput, match="scores of one retriever"):
        score_thresholds({"q1": ["a"], "q2": []}, Run(runs), "mrr")
    with pytest.raises(InvalidInput, match="Those of an agent's several calls don't compare"):
        score_thresholds(
            {"q1": ["a"]}, {"q1": combine_calls([calls[0], calls[0], calls[0]])}, "mrr"
        )


@pytest.mark.parametrize("scores", [None, [0.5, None], [0.5, math.nan], [math.inf, 0.5]])
def test_scores_have_to_be_there(scores: list[float] | None) -> None:
    run = {"q1": Ranking(["a", "b"], scores=scores)}
    with pytest.raises(InvalidInput, match=r"scores"):
        score_thresholds({"q1": ["a"]}, run, "mrr")


@pytest.mark.parametrize("metric", ["abstained", "returned@3", "tokens", "wasted_calls"])
def test_the_metric_is_one_of_quality(metric: str) -> None:
    run = {"q1": Ranking(["a"], scores=[0.5], tokens=[3])}
    with pytest.raises(InvalidInput, match="metric"):
        score_thresholds({"q1": ["a"]}, run, metric)


def test_wrong_arguments() -> None:
    run = {"q1": Ranking(["a"], scores=[0.5])}
    with pytest.raises(InvalidInput, match="tolerance"):
        score_thresholds({"q1": ["a"]}, run, "mrr", tolerance=-0.1)
    for too_much in (1, 2):
        with pytest.raises(InvalidInput, match="tolerance: expected less than 1, all that mrr can"):
            score_thresholds({"q1": ["a"]}, run, "mrr", tolerance=too_much)
    assert score_thresholds({"q1": ["a"]}, run, "dcg", tolerance=2).tolerance == 2
    with pytest.raises(InvalidInput, match=r"a value for some question.*Label questions that have"):
        score_thresholds({"q1": []}, run, "mrr")
    dataset = RetrievalDataset({"q1": "x"}, {"q1": ["a"]})
    with pytest.raises(UnknownMetric):
        evaluate(lambda _: ["a"], dataset, ["mrr"]).thresholds("recall@5")
    with pytest.raises(InvalidInput, match="a score of every retrieved passage"):
        evaluate(lambda _: ["a"], dataset, ["mrr"]).thresholds("mrr")


def test_the_order_of_the_questions_does_not_matter() -> None:
    chance = np.random.default_rng(5)
    expected = {f"q{n}": ["a"] if n % 3 else [] for n in range(40)}
    run = {query: Ranking(["a"], scores=[float(chance.normal())]) for query in expected}
    backwards = {query: run[query] for query in reversed(run)}
    one, other = (
        score_thresholds(expected, each, "mrr", tolerance=0.2) for each in (run, backwards)
    )
    assert (list(one), one.proposed) == (list(other), other.proposed)


def test_nauc_is_what_mteb_s_code_says() -> None:
    for case in json.loads(GOLDEN.read_text()):
        telling = [confidences(np.array(scores)) for scores in case["scores"]]
        for key, wanted in case["nauc"].items():
            confidence = np.array([each[key] for each in telling])
            assert abstention_nauc(confidence, np.array(case["values"])) == pytest.approx(
                wanted, rel=1e-12
            )


def test_nauc_of_a_run_counts_questions_without_an_answer_as_0() -> None:
    """By hand: of 4 questions the least confident are left out first, at shares of 0 to 90 %.

    Left out of 4: 0, 0, 1, 1, 2, 2, 2, 3, 3, 3 (0.5 and 2.5 round to even: 0.8 → 1, 1.2 → 1). By
    the highest score the order is q4 (0), q2 (1), q3 (0), q1 (1), so the means that are left are
    1/2, 1/2, 2/3, 2/3, 1/2, 1/2, 1/2, 1, 1, 1; of the best order 1/2, 1/2, 2/3, 2/3, 1, 1, 1, 1, 1,
    1. Trapezoids of width 0.1, above 0.9 × 1/2.
    """
    run = {
        "q1": Ranking(["a"], scores=[0.9]),
        "q2": Ranking(["a"], scores=[0.4]),
        "q3": Ranking(["a"], scores=[0.5]),
        "q4": Ranking(["a"], scores=[0.1]),
        "q5": Ranking([]),  # nothing says how sure the retriever was
    }
    found = score_thresholds(
        {"q1": ["a"], "q2": ["a"], "q3": [], "q4": [], "q5": ["b"]}, run, "mrr"
    )
    rounded = [min(round(rate * 4), 3) for rate in np.linspace(0, 1, 11)[:-1]]
    assert rounded == [0, 0, 1, 1, 2, 2, 2, 3, 3, 3]
    curve = [1 / 2, 1 / 2, 2 / 3, 2 / 3, 1 / 2, 1 / 2, 1 / 2, 1, 1, 1]
    best = [1 / 2, 1 / 2, 2 / 3, 2 / 3, 1, 1, 1, 1, 1, 1]
    area, ideal = (sum(a + b for a, b in pairwise(c)) / 20 for c in (curve, best))
    assert found.nauc["max"] == pytest.approx((area - 0.45) / (ideal - 0.45), rel=1e-12)
    assert math.isnan(found.nauc["std"]) is False


def test_nauc_is_unknown_where_all_values_are_the_same() -> None:
    run = {"q1": Ranking(["a"], scores=[0.9]), "q2": Ranking(["a"], scores=[0.4])}
    found = score_thresholds({"q1": ["a"], "q2": ["a"]}, run, "mrr")
    assert all(math.isnan(value) for value in found.nauc.values())
    assert "–" in str(found)


@given(st.floats(-1e6, 1e6), st.floats(1e-9, 1e3))
@examples(200)
def test_a_threshold_is_written_short(low: float, width: float) -> None:
    high = low + width
    if low < high:
        assert low < shortest_between(low, high) <= high


def test_it_is_seen_and_exported(tmp_path: Path) -> None:
    chance = np.random.default_rng(2)
    expected = {f"q{n}": ["a"] if n % 3 else [] for n in range(60)}
    run = {
        query: Ranking(["<b>", "a"], scores=sorted(chance.normal(n % 3, 0.5, 2).tolist())[::-1])
        for n, query in enumerate(expected)
    }
    found = score_thresholds(expected, run, "recall@2", name="<i>dense</i>", tolerance=0.1)
    plot = found.plot()
    assert "by threshold on the score, recall@2" in plot.sentence
    page = found.to_html(tmp_path / "page.html").read_text()
    assert "<i>dense" not in page
    assert "(proposed)" in page
    rows = json.loads(found.to_json())
    assert len(rows) == len(found) == 40 * 2 + 20
    assert rows[0] == {
        "min_score": found[0].min_score,
        "mean": found[0].mean,
        "answered": 1.0,
        "spared": 0.0,
    }
    assert found.to_csv().startswith("min_score,mean,answered,spared\n")
    assert "With a cutoff of" in found.to_markdown()
    assert found.proposed is not None
    # with fewer passages, recall never rises
    assert found.proposed.loss.low == 0.0
    assert "to 0.00): cross-validated" in " ".join(str(found).split())


def test_the_table_is_the_trade() -> None:
    """The lowest score that spares none, one and two of two questions."""
    best = {"q1": 0.8, "q2": 0.7, "q3": 0.45, "q4": 0.3}
    run = {query: Ranking(["a", "b"], scores=[score, 0.1]) for query, score in best.items()}
    found = score_thresholds({"q1": ["a"], "q2": ["a"], "q3": [], "q4": []}, run, "recall")
    [table] = found.report().sections[0].tables
    # above the score before: as short as they can be, they do the same
    assert [row.label for row in table.parts[0]] == ["0", "0.4", "0.7 (proposed)"]
    assert [row.min_score for row in found] == [0.1, 0.3, 0.45, 0.7, 0.8]
