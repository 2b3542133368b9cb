"""What predicts the answers: planted metrics are named, noise isn't, what is left out is said."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from llama_index_rag_metrics import (
    Ranking,
    Relation,
    Run,
    Scores,
    check_rules,
    compare,
    evaluate,
    relate,
    score_rankings,
)
from llama_index_rag_metrics.decisions.relation import at_ends
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnknownMetric

N = 60
IDS = [f"q{number:02d}" for number in range(N)]
RNG = np.random.default_rng(5)
RECALL = RNG.choice([0.0, 0.5, 1.0], N)
SCORES = Scores(IDS, {"recall@5": RECALL, "mrr": RNG.random(N)}, name="dense")
ANSWERS = {
    query_id: float(chance < 0.05 + 0.9 * recall)
    for query_id, recall, chance in zip(IDS, RECALL.tolist(), RNG.random(N).tolist(), strict=True)
}


def decision(relation: Relation) -> list[str]:
    return [statement.text for statement in relation.report().decision]


def auc(metric: str) -> float:
    """How often the better answer has the better score, by scipy."""
    column, good = SCORES.column(metric), np.array([*ANSWERS.values()]) == 1
    wins = stats.mannwhitneyu(column[good], column[~good]).statistic
    return float(wins / (good.sum() * (~good).sum()))


def planted(n: int = 400) -> tuple[Scores, dict[str, int]]:
    """Rankings of long and short passages, and answers made from recall within 2,000 tokens."""
    rng = np.random.default_rng(3)
    expected, run = {}, {}
    for number in range(n):
        items = rng.permutation(20).tolist()
        relevant = {f"d{item}" for item in rng.choice(20, 4, replace=False).tolist()}
        expected[f"q{number}"] = sorted(relevant)
        run[f"q{number}"] = Ranking(
            [f"d{item}" for item in items], tokens=rng.choice([50, 600, 1500], 20).tolist()
        )
    names = ["hit_rate@5", "recall@2000tokens", "recall@5", "ndcg@10", "mrr"]
    scores = score_rankings(expected, Run(run), names)
    chances = rng.random(n).tolist()
    recall = scores.by_query("recall@2000tokens")
    answers = {
        query_id: int(chance < 0.05 + 0.9 * min(1.0, 2 * recall[query_id]))
        for query_id, chance in zip(scores.query_ids, chances, strict=True)
    }
    return scores, answers


class TestDecisions:
    def test_a_planted_metric_is_named(self) -> None:
        relation = relate(*planted())
        assert (relation.primary, relation.is_shown) == ("recall@2000tokens", True)
        first = relation["recall@2000tokens"]
        ends = f"{first.value:.2f}, {first.low:.2f} to {first.high:.2f}"
        assert decision(relation)[0].startswith(
            f"recall@2000tokens predicts your answers best (AUC {ends})"
        )
        assert relation.report().decision[0].command == (
            'compare(..., primary="recall@2000tokens")'
        )

    def test_one_sentence(self) -> None:
        relation = relate(SCORES, ANSWERS)
        first = relation["recall@5"]
        assert decision(relation)[0] == (
            f"recall@5 predicts your answers best (AUC {auc('recall@5'):.2f}, {first.low:.2f} to "
            f"{first.high:.2f}); mrr isn't shown to predict them "
            f"({auc('mrr'):.2f})."
        )

    def test_noise_names_none(self) -> None:
        rng = np.random.default_rng(0)
        named = 0
        for _ in range(60):
            answers = dict(zip(IDS, (rng.random(N) < 0.6).astype(float).tolist(), strict=True))
            relation = relate(SCORES, answers, resamples=300)
            named += relation.primary is not None
        assert named <= 6  # 3, and twice the standard deviation of 1.7

    def test_one_that_is_shown_below_one_that_is_not(self) -> None:
        """Four misses, all of the worst answers: a high tau-b, and too few to be sure of."""
        answers = np.repeat([0.0, 1.0, 2.0], 50)
        hits = np.where(np.arange(150) < 4, 0.0, 1.0)
        follows = answers + np.tile(2.5 * np.arange(5), 30)
        ids = [f"q{number:03d}" for number in range(150)]
        scores = Scores(ids, {"hit_rate@20": hits, "ndcg@10": follows / 20})
        relation = relate(scores, dict(zip(ids, answers.tolist(), strict=True)))
        first, second = relation
        assert (first.metric, first.predicts, second.predicts) == ("hit_rate@20", False, True)
        assert relation.primary == "ndcg@10"
        assert decision(relation)[0].startswith("ndcg@10 predicts your answers (tau-b ")
        assert decision(relation)[0].endswith("; hit_rate@20 isn't shown to predict them (0.19).")
        assert decision(relation)[1] == (
            "These questions can't tell whether it predicts better than hit_rate@20."
        )

    def test_noise_in_words(self) -> None:
        answers = {query_id: number % 2 for number, query_id in enumerate(IDS)}
        relation = relate(SCORES, answers)
        assert relation.primary is None
        assert decision(relation)[0].startswith(
            "No metric is shown to predict your answers: the highest is "
        )

    def test_what_cannot_be_told_apart(self) -> None:
        close = SCORES.replace(
            columns={"recall@5": RECALL, "ndcg@5": np.clip(RECALL - 0.01 * RNG.random(N), 0, 1)}
        )
        relation = relate(close, ANSWERS)
        second = relation.metrics[1]
        assert not relation.is_shown
        assert decision(relation)[1] == (
            f"These questions can't tell whether it predicts better than {second.metric}."
        )
        assert second.behind_low is not None
        assert second.behind_low < 0

    def test_the_same_order_of_questions_is_one_metric(self) -> None:
        columns = {**SCORES.columns, "ap@5": RECALL / 2, "calls": 3 - 2 * RECALL}
        relation = relate(SCORES.replace(columns=columns), ANSWERS)
        assert [relation[name].same_as for name in ("ap@5", "calls")] == ["recall@5"] * 2
        # what is repeated doesn't widen the intervals
        assert relation["ap@5"].low == relate(SCORES, ANSWERS)["recall@5"].low
        assert decision(relation)[0].startswith(
            f"recall@5, ap@5 and calls predict your answers best (AUC {auc('recall@5'):.2f}, "
        )
        assert "less is better on calls: low scores count as good ones" in relation.notes

    def test_a_metric_that_goes_the_wrong_way(self) -> None:
        wrong = {query_id: 1 - answer for query_id, answer in ANSWERS.items()}
        relation = relate(SCORES, wrong)
        assert relation["recall@5"].contradicts
        assert decision(relation)[1].startswith(
            f"Better scores on recall@5 go with worse answers (AUC {1 - auc('recall@5'):.2f}, "
        )
        assert decision(relation)[2].startswith("Are low scores of your answers the good ones?")
        # more tokens and better answers: that is no sign of answers the wrong way round
        dear = relate(Scores(IDS, {"tokens@5": 100 * RECALL}), ANSWERS)
        assert decision(dear)[1].startswith(
            "Lower scores on tokens@5, the better ones, go with worse answers (AUC "
        )
        assert len(decision(dear)) == 2

    def test_graded_answers(self) -> None:
        graded = {query_id: 1 + 4 * answer for query_id, answer in ANSWERS.items()}
        graded[IDS[0]] = 3.0
        relation = relate(SCORES, graded)
        first = relation["recall@5"]
        assert (relation.measure, first.measure, relation.is_share) == ("tau_b", "tau_b", False)
        assert first.spearman is not None
        assert decision(relation)[0].startswith("recall@5 predicts your answers best (tau-b ")
        assert [each.metric for each in relation] == ["recall@5", "mrr"]
        assert relation.notes == ("scores of answers go from 1 to 5",)
        # two values are right and wrong, whatever they are called
        graded.pop(IDS[0])
        assert relate(SCORES, graded).measure == "auc"

    def test_best_and_worst(self) -> None:
        first = relate(SCORES, ANSWERS)["recall@5"]
        answers = np.array([*ANSWERS.values()])
        for at, mean, n in (
            (1.0, first.at_best, first.n_at_best),
            (0.0, first.at_worst, first.n_at_worst),
        ):
            assert n == np.count_nonzero(at == RECALL)
            assert mean == pytest.approx(float(answers[at == RECALL].mean()))
        # 90 of 100 are at the best: nearer to a quarter than none, or all
        scores = np.repeat([0.0, 1.0], [10, 90])
        assert [len(rows) for rows in at_ends(scores)] == [90, 10]
        # a quarter of different scores
        assert [len(rows) for rows in at_ends(np.arange(40.0))] == [10, 10]
        assert [len(rows) for rows in at_ends(np.ones(5))] == [0, 0]


class TestNothingToTell:
    @pytest.mark.parametrize(
        ("answers", "why"),
        [
            (dict.fromkeys(IDS, 1.0), "all 60 questions have an answer of the same score, 1"),
            (
                {query_id: float(query_id > "q02") for query_id in IDS},
                "only 3 of 60 answers differ from the commonest score, 1; 5 must",
            ),
        ],
    )
    def test_answers_that_are_the_same(self, answers: Mapping[str, float], why: str) -> None:
        relation = relate(SCORES, answers)
        assert decision(relation) == [f"What predicts the answers can't be told: {why}."]
        assert (relation.primary, relation.is_shown) == (None, False)
        assert relation["mrr"].low is None

    @pytest.mark.parametrize("n", [1, 2, 4])
    def test_hardly_any_question(self, n: int) -> None:
        few = Scores(IDS[:n], {"recall@5": np.arange(n) / 10})
        relation = relate(few, {query_id: number % 2 for number, query_id in enumerate(IDS[:n])})
        assert relation.primary is None
        assert decision(relation)[0].startswith("What predicts the answers can't be told: ")
        assert relation["recall@5"].low is None

    def test_one_conversation_is_no_evidence(self) -> None:
        metadata = {query_id: {"conversation": "c"} for query_id in IDS}
        relation = relate(SCORES.replace(metadata=metadata), ANSWERS)
        assert relation.reason.startswith("only 1 of 1 clusters of questions have answers that ")

    def test_metrics_that_are_the_same(self) -> None:
        alike = Scores(IDS, {"hit_rate@5": np.ones(N)})
        assert relate(alike, ANSWERS).reason == (
            "no metric tells the 60 questions apart: each scores all alike"
        )
        both = SCORES.replace(columns={**SCORES.columns, "hit_rate@5": np.ones(N)})
        relation = relate(both, ANSWERS)
        assert relation.metrics[-1].value is None
        assert relation.primary == "recall@5"
        assert "hit_rate@5" not in decision(relation)[0]


class TestWhatIsLeftOut:
    def test_is_counted_and_said(self) -> None:
        scores = SCORES.replace(
            columns={"recall@5": RECALL, "mrr": [math.nan, *SCORES["mrr"][1:]]},
            excluded={"x1": "unjudged"},
        )
        answers = {**ANSWERS, "x1": 1, "x2": 1, "q01": None, "q02": math.nan}
        answers.pop("q03")
        relation = relate(scores, answers)
        assert relation.n == N - 4
        assert list(relation.notes) == [
            "answers without a score: 2",
            "questions without an answer's score: 1",
            "answers of questions that the means leave out: 1",
            "answers of questions that aren't in the results: 1",
            "questions without a value by mrr, left out for all metrics: 1",
        ]

    def test_metrics_of_other_questions(self) -> None:
        columns = {**SCORES.columns, "abstained": np.full(N, np.nan), "bleu": np.full(N, np.nan)}
        relation = relate(SCORES.replace(columns=columns), ANSWERS)
        assert [each.metric for each in relation.metrics] == ["recall@5", "mrr"]
        assert relation.notes == ("metrics without scores of these questions: abstained, bleu",)

    def test_nothing_in_common(self) -> None:
        with pytest.raises(InvalidInput) as error:
            relate(SCORES, {"a": 1, "b": 0})
        assert str(error.value) == (
            "answers: expected scores of questions such as q00, q01 and 58 more, got 'a, b'. Name "
            "the column of their ids: columns={'query_id': name}."
        )

    def test_wrong_arguments(self) -> None:
        with pytest.raises(UnknownMetric):
            relate(SCORES, ANSWERS, metrics=["ndcg@10"])
        with pytest.raises(InvalidInput, match="metrics"):
            relate(SCORES, ANSWERS, metrics=[])
        with pytest.raises(InvalidInput, match="confidence"):
            relate(SCORES, ANSWERS, confidence=95)
        with pytest.raises(InvalidInput, match="one column of scores"):
            relate(SCORES, SCORES)


class TestOtherForms:
    def test_scores_are_answers(self, tmp_path: Path) -> None:
        judged = Scores(IDS, {"faithful": list(ANSWERS.values()), "cost": RNG.random(N)})
        direct = relate(SCORES, ANSWERS)
        for answers in (judged, judged.replace(columns={"faithful": judged.column("faithful")})):
            relation = relate(SCORES, answers, columns={"answer": "faithful"})
            assert relation.metrics == direct.metrics
            assert relation.name == "faithful"
        path = tmp_path / "judged.json"
        judged.to_json(path)
        assert relate(SCORES, path, columns={"answer": "faithful"}).metrics == direct.metrics

    def test_questions_are_found_by_their_text(self) -> None:
        texts = SCORES.replace(queries={query_id: f"Why {query_id}?" for query_id in IDS})
        rows = [{"question": f"Why {key}?", "correct": score} for key, score in ANSWERS.items()]
        assert relate(texts, rows).metrics == relate(SCORES, ANSWERS).metrics

    def test_several_runs_count_by_their_mean(self) -> None:
        runs = [SCORES.replace(columns={"recall@5": column}) for column in (RECALL, RECALL[::-1])]
        relation = relate(Scores.of_repeats(runs), ANSWERS)
        mean = SCORES.replace(columns={"recall@5": (RECALL + RECALL[::-1]) / 2})
        assert relation.metrics == relate(mean, ANSWERS).metrics

    def test_conversations_count_as_one(self) -> None:
        metadata = {query_id: {"conversation": number // 4} for number, query_id in enumerate(IDS)}
        together = relate(SCORES.replace(metadata=metadata), ANSWERS)
        assert "60 questions in 15 conversations, each counted as one" in together.notes
        apart = relate(
            SCORES.replace(metadata=metadata), ANSWERS, clusters=dict(zip(IDS, IDS, strict=True))
        )
        assert apart["mrr"].value == together["mrr"].value
        assert apart["mrr"].low != together["mrr"].low

    def test_order_of_the_questions_changes_nothing(self) -> None:
        order = RNG.permutation(N)
        shuffled = Scores(
            [IDS[at] for at in order], {name: SCORES.column(name)[order] for name in SCORES}
        )
        assert relate(shuffled, ANSWERS).metrics == relate(SCORES, ANSWERS).metrics


class TestReferences:
    def test_without_context_and_with_all_passages(self) -> None:
        closed = {query_id: float(number % 10 == 0) for number, query_id in enumerate(IDS)}
        relation = relate(SCORES, ANSWERS, closed_book=closed, oracle=dict.fromkeys(IDS, 1.0))
        book, oracle = relation.closed_book, relation.oracle
        assert book is not None
        assert oracle is not None
        assert book.gap.mean == pytest.approx(relation.mean - 0.1)
        assert oracle.gap.mean == pytest.approx(1 - relation.mean)
        assert [text.partition(" (")[0] for text in decision(relation)[-2:]] == [
            f"Without any context answers score 0.10: what was retrieved adds {book.gap.mean:.2f}",
            "With every relevant passage they score 1.00: better retrieval could add "
            f"{oracle.gap.mean:.2f}",
        ]

    def test_where_neither_differs(self) -> None:
        relation = relate(SCORES, ANSWERS, closed_book=ANSWERS, oracle=ANSWERS)
        assert "what was retrieved isn't shown to help" in decision(relation)[-2]
        assert "better retrieval isn't shown to be what they need" in decision(relation)[-1]

    def test_of_some_questions(self) -> None:
        some = dict.fromkeys(IDS[:50], 0)
        relation = relate(SCORES, ANSWERS, closed_book=some)
        assert relation.closed_book is not None
        assert relation.closed_book.gap.n == 50
        assert relation.closed_book.gap.mean == pytest.approx(np.mean([*ANSWERS.values()][:50]))
        assert relation.notes == ("questions without a score of closed_book: 10",)

    def test_answers_that_are_worse_with_context(self) -> None:
        relation = relate(SCORES, dict.fromkeys(IDS, 0.25), closed_book=dict.fromkeys(IDS, 1))
        assert decision(relation)[-1].startswith(
            "Without any context answers score 1.00: what was retrieved makes them worse, by 0.75 ("
        )

    def test_of_another_scale(self) -> None:
        with pytest.raises(InvalidInput, match="closed_book: expected scores from 0 to 1"):
            relate(SCORES, ANSWERS, closed_book=dict.fromkeys(IDS, 50))

    def test_of_one_question_there_is_no_interval(self) -> None:
        last = decision(relate(SCORES, ANSWERS, closed_book={"q00": 0}))[-1]
        assert last.endswith(f"isn't shown to help, {ANSWERS['q00']:.2f}.")

    def test_of_other_questions(self) -> None:
        with pytest.raises(
            InvalidInput, match=r"^oracle: expected scores of questions such as q00"
        ):
            relate(SCORES, ANSWERS, oracle={"a": 1})


def test_figure_and_numbers() -> None:
    relation = relate(SCORES, ANSWERS)
    assert relation.plot("predictions").svg.count("<title>") >= 2
    frame = relation.to_pandas()
    assert frame.metric.tolist() == ["recall@5", "mrr"]
    assert frame.value.tolist() == [each.value for each in relation.metrics]
    said = str(relation["mrr"])
    assert said.startswith(f"mrr isn't shown to predict the answers (AUC {auc('mrr'):.2f}, ")


def test_real_rankings_against_scipy() -> None:
    pytest.importorskip("llama_index.retrievers.bm25", reason="the demo's retriever")
    from llama_index_rag_metrics.demo.collection import load_collection
    from llama_index_rag_metrics.demo.retrievers import bm25

    dataset = load_collection()
    names = ["ndcg@10", "recall@10", "hit_rate@1", "precision@5"]
    scores = evaluate(bm25(dataset.to_nodes(), 10), dataset, names).scores
    rng = np.random.default_rng(0)
    noisy = scores.column("ndcg@10") + rng.normal(0, 0.3, len(scores.query_ids))
    for answers in (np.round(noisy, 1), (noisy > 0.7).astype(float)):
        relation = relate(scores, dict(zip(scores.query_ids, answers.tolist(), strict=True)))
        for each in relation:
            column = np.round(scores.column(each.metric), 12)
            if relation.measure == "tau_b":
                assert each.value == pytest.approx(stats.kendalltau(column, answers).statistic)
                assert each.spearman == pytest.approx(stats.spearmanr(column, answers).statistic)
            else:
                good = answers == 1
                wins = stats.mannwhitneyu(column[good], column[~good]).statistic
                assert each.value == pytest.approx(wins / (good.sum() * (~good).sum()))
        assert relation.primary == "ndcg@10"


def test_comparisons_and_sweeps_decide_by_it() -> None:
    scores, answers = planted()
    primary = relate(scores, answers).primary
    worse = scores.replace(columns={name: 0.9 * scores.column(name) for name in scores})
    comparison = compare({"old": scores, "new": worse}, "old", primary=primary)
    assert "recall@2000tokens" in comparison.decision
    assert check_rules(scores, f"{primary} >= 0.1").outcome == "pass"
