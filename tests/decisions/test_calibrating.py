"""calibrate(): what comes of few human scores and many of a judge, and what is refused."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from llama_index.core.postprocessor import SimilarityPostprocessor
from scipy import stats

from llama_index_rag_metrics import (
    Calibration,
    RetrievalDataset,
    Scores,
    calibrate,
    compare,
    evaluate_stages,
    score_rankings,
    sweep,
)
from llama_index_rag_metrics.runtime.errors import InvalidInput, UnknownFormat, UnknownMetric
from llama_index_rag_metrics.statistics.intervals import mean_interval
from llama_index_rag_metrics.statistics.prediction_powered import prediction_powered

METRICS = ("ndcg@10", "hit_rate@5")


def sides(
    kappa: float, human: int = 60, judged: int = 400, seed: int = 2, bias: float = 0.0
) -> tuple[Scores, Scores]:
    """The judge's scores and people's; the judge's are the truth, or of another question."""
    rng = np.random.default_rng(seed)
    ndcg = rng.beta(2, 2, judged)
    truth = np.stack([ndcg, (ndcg > 0.35).astype(float)], axis=1)
    known = rng.random(judged) < kappa
    judge = np.where(known[:, None], truth, truth[rng.permutation(judged)])
    judge = np.where(rng.random(judged)[:, None] < bias, 1.0, judge)
    ids = [f"q{number:03}" for number in range(judged)]
    metadata = {
        query_id: {"language": "en" if number % 2 else "de"} for number, query_id in enumerate(ids)
    }

    def scores(values: np.ndarray, n: int) -> Scores:
        columns = dict(zip(METRICS, values[:n].T, strict=True))
        return Scores(
            ids[:n], columns, metadata={query_id: metadata[query_id] for query_id in ids[:n]}
        )

    return scores(judge, judged), scores(truth, human)


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return calibrate(*sides(0.8, bias=0.3))


class TestNumbers:
    def test_by_metric(self, calibration: Calibration) -> None:
        judge, human = sides(0.8, bias=0.3)
        for metric in METRICS:
            calibrated = calibration[metric]
            expected = prediction_powered(
                human[metric], judge.column(metric)[:60], judge.column(metric)[60:]
            )
            assert calibrated.helps
            assert calibrated.mean == expected.mean
            assert (calibrated.weight, calibrated.worth) == (expected.weight, expected.worth)
            assert (calibrated.n_human, calibrated.n_judged) == (60, 400)
            assert calibrated.human.mean == human.means[metric]
            assert calibrated.judge_mean == pytest.approx(judge.means[metric])
            bias = judge.column(metric)[:60].mean() - human.means[metric]
            assert calibrated.bias == pytest.approx(bias)
            assert calibrated.bias > 0
            assert calibrated.high - calibrated.low < calibrated.human.high - calibrated.human.low  # type: ignore[operator]

    def test_the_correlation_of_question_scores(self, calibration: Calibration) -> None:
        judge, human = sides(0.8, bias=0.3)
        for metric in METRICS:
            expected = stats.pearsonr(human[metric], judge.column(metric)[:60]).statistic
            assert calibration[metric].correlation == pytest.approx(expected)
        same = {f"q{n}": 1.0 for n in range(30)}
        assert calibrate({**same, "q99": 0.0}, same)["score"].correlation is None

    def test_the_order_of_the_questions_is_nothing(self, calibration: Calibration) -> None:
        judge, human = sides(0.8, bias=0.3)
        turned = judge.select(judge.query_ids).replace(
            query_ids=judge.query_ids[::-1],
            columns={metric: judge.column(metric)[::-1] for metric in METRICS},
        )
        again = calibrate(turned, human)
        for metric in METRICS:
            assert again[metric].mean == pytest.approx(calibration[metric].mean, abs=1e-12)

    def test_plain_mappings(self) -> None:
        judge, human = sides(0.8)
        by_query = [side.by_query("ndcg@10") for side in (judge, human)]
        calibrated = calibrate(*by_query)["score"]
        assert calibrated.mean == pytest.approx(calibrate(judge, human)["ndcg@10"].mean)

    def test_slices(self) -> None:
        judge, human = sides(0.8)
        calibration = calibrate(judge, human, slices="language")
        assert {*calibration.slices} == {"en", "de"}
        german = calibration.slices["de"]["hit_rate@5"]
        assert (german.n_human, german.n_judged) == (30, 200)
        assert "language: de" in str(calibration)

    def test_slices_that_none_is_in(self) -> None:
        judge, human = sides(0.8)
        expected = "slices: expected a key of the questions' metadata: ['language'], got 'lang'."
        with pytest.raises(InvalidInput, match=f"^{re.escape(expected)}$"):
            calibrate(judge, human, slices="lang")
        asked = {query_id: {"from": None} for query_id in human.query_ids}
        further = {query_id: {"from": "logs"} for query_id in judge.query_ids[60:]}
        expected = (
            "slices: expected a key of the metadata of questions that people scored, got 'from'. "
            "Let people score some that have it."
        )
        with pytest.raises(InvalidInput, match=f"^{re.escape(expected)}$"):
            calibrate(judge.replace(metadata={**asked, **further}), human, slices="from")


class TestWords:
    def test_what_it_is_worth(self, calibration: Calibration) -> None:
        calibrated = calibration["ndcg@10"]
        words = (
            f"60 human and 400 judged questions are worth {math.floor(calibrated.worth)} human ones"
        )
        assert calibrated.sentence.endswith(f": {words}.")
        assert calibrated.worth > 60

    def test_a_single_human_question(self) -> None:
        calibrated = calibrate({"q1": 0.3, "q2": 0.5}, {"q1": 1.0})["score"]
        assert "by 1 human question alone: " in calibrated.sentence

    def test_scores_that_are_all_the_same(self) -> None:
        # the judge agrees on all 30: its scores aren't what is wrong
        judge = {f"q{n}": 0.1 for n in range(100)}
        calibrated = calibrate(judge, dict(list(judge.items())[:30]))["score"]
        assert calibrated.sentence.endswith("alone: people's scores are all the same.")

    def test_a_judge_too_poor_to_help(self) -> None:
        judge, human = sides(0.0, seed=2)
        calibrated = calibrate(judge, human)["hit_rate@5"]
        assert not calibrated.helps
        assert calibrated.sentence.endswith(
            "by 60 human questions alone: the judge's scores hardly follow people's."
        )
        assert (calibrated.mean, calibrated.low, calibrated.high, calibrated.worth) == (
            calibrated.human.mean,
            calibrated.human.low,
            calibrated.human.high,
            60,
        )

    def test_questions_that_werent_drawn_at_random(self) -> None:
        judge, _ = sides(0.8)
        easiest = sorted(judge.query_ids, key=judge.by_query("ndcg@10").__getitem__)[-60:]
        calibration = calibrate(judge, judge.select(easiest), metrics=["ndcg@10"])
        assert any("drawn at random" in note for note in calibration.notes)
        assert calibrate(*sides(0.8)).notes == ()


class TestFewLabelsWithoutADisagreement:
    def test_it_says_so(self) -> None:
        truth = {f"q{n:03}": float(n % 3 > 0) for n in range(500)}
        people = dict([*truth.items()][:20])
        few = calibrate(truth, people)["score"]
        assert few.sentence.endswith(
            f"20 human and 500 judged questions are worth {math.floor(few.worth)} human ones; the "
            "judge agreed with people on all 20: label 50 before you rely on it."
        )
        many = calibrate(truth, dict([*truth.items()][:50]))["score"]
        assert many.sentence.endswith("human ones.")
        # nor where it erred once
        wrong = calibrate({**truth, "q000": 1.0}, people)["score"]
        assert wrong.sentence.endswith("human ones.")


class TestClusters:
    def test_intervals_and_worth_are_of_clusters(self) -> None:
        judge, human = sides(0.8)
        documents = {query_id: int(query_id[1:]) // 3 for query_id in judge.query_ids}
        plain = calibrate(judge, human)["hit_rate@5"]
        clustered = calibrate(judge, human, clusters=documents)["hit_rate@5"]
        assert clustered.mean == pytest.approx(plain.mean)
        expected = mean_interval(human["hit_rate@5"], clusters=np.arange(60) // 3)
        assert (clustered.human.low, clustered.human.high) == (expected.low, expected.high)
        assert clustered.worth != plain.worth

    def test_by_a_key_that_one_side_has(self) -> None:
        judge, human = sides(0.8)
        bare = human.replace(metadata={})
        by_key = calibrate(judge, bare, clusters="language")
        assert "fewer than 20 clusters" in by_key["ndcg@10"].sentence

    def test_an_unknown_key(self) -> None:
        with pytest.raises(InvalidInput, match="a key of the questions' metadata"):
            calibrate(*sides(0.8), clusters="document")


class TestSeveralJudges:
    def test_they_count_by_their_mean(self) -> None:
        first, human = sides(0.8, seed=2)
        noise = np.random.default_rng(9).random(400) < 0.3
        second = first.replace(
            columns={metric: np.where(noise, 0.5, first.column(metric)) for metric in METRICS}
        )
        calibration = calibrate({"large": first, "small": second}, human)
        mean = (first.column("ndcg@10") + second.column("ndcg@10")) / 2
        expected = prediction_powered(human["ndcg@10"], mean[:60], mean[60:])
        assert calibration["ndcg@10"].mean == pytest.approx(expected.mean)
        assert calibration["ndcg@10"].worth == pytest.approx(expected.worth)
        alone = [math.floor(calibrate(each, human)["ndcg@10"].worth) for each in (first, second)]
        assert calibration.notes[0] == (
            "the judge is the mean of large and small; with one of them alone, on ndcg@10, human "
            f"and judged questions would be worth: {alone[0]} with large, {alone[1]} with small"
        )
        systems = {"a": calibration, "b": calibration}
        assert compare(systems, "a")["b", "ndcg@10"].difference == 0

    def test_questions_that_one_of_them_skipped_are_left_out(self) -> None:
        judge, human = sides(0.8)
        short = judge.select(judge.query_ids[:300])
        assert calibrate({"a": judge, "b": short}, human)["ndcg@10"].n_judged == 300
        with pytest.raises(InvalidInput, match=r"judge_scores by ndcg@10.*none for q000"):
            calibrate({"a": judge, "b": judge.select(judge.query_ids[1:])}, human)

    def test_with_clusters(self) -> None:
        judge, human = sides(0.8)
        documents = {query_id: int(query_id[1:]) // 3 for query_id in judge.query_ids}
        more = judge.replace(query_ids=[*judge.query_ids[:-1], "one that the first one skipped"])
        both = calibrate({"a": judge, "b": more}, human, clusters=documents)
        assert both["ndcg@10"].n_judged == 399
        assert both.notes[0].startswith("the judge is the mean of a and b")

    def test_plain_mappings(self) -> None:
        judge, human = ({f"q{n}": float(n % 2) for n in range(size)} for size in (90, 30))
        both = calibrate({"a": judge, "b": judge}, human)["score"]
        assert both.mean == pytest.approx(calibrate(judge, human)["score"].mean)

    def test_systems_arent_judges(self) -> None:
        labels = {f"q{n}": ["d"] for n in range(40)}
        systems = {
            name: score_rankings(labels, dict.fromkeys(labels, ids), ["mrr"])
            for name, ids in (("bm25", ["d"]), ("hybrid", ["x", "d"]))
        }
        with pytest.raises(InvalidInput, match="scores of the same rankings by each judge"):
            calibrate(systems, systems["bm25"])


class TestReport:
    def test_human_and_judged_numbers_stand_apart(self, calibration: Calibration) -> None:
        text = calibration.to_markdown()
        for column in ("calibrated", "people alone", "judge alone", "worth"):
            assert column in text
        assert "60 human and 400 judged questions" in str(calibration)

    def test_everywhere(self, calibration: Calibration, tmp_path: Path) -> None:
        assert "people alone" in calibration.to_markdown()
        assert "people alone" in calibration._repr_html_()
        page = calibration.to_html(tmp_path / "calibration.html")
        assert "Calibrated scores" in page.read_text(encoding="utf-8")
        rows = json.loads(calibration.to_json())
        assert "ndcg@10" in json.dumps(rows)
        assert "human_mean" in calibration.to_csv()
        assert repr(calibration) == f"<Calibration: {calibration['ndcg@10']}>"


class TestRefused:
    def test_a_question_that_the_judge_skipped(self) -> None:
        judge, human = sides(0.8)
        with pytest.raises(InvalidInput, match=r"none for q000 and|none for q000, q001"):
            calibrate(judge.select(judge.query_ids[2:]), human)

    def test_no_metric_in_common(self) -> None:
        judge, human = sides(0.8)
        with pytest.raises(InvalidInput, match="a metric that both have"):
            calibrate({"q000": 1.0}, human)
        with pytest.raises(UnknownMetric):
            calibrate(judge, human, metrics=["mrr"])
        with pytest.raises(UnknownMetric):
            calibrate(judge, human)["mrr"]

    @pytest.mark.parametrize("scores", [None, [0.5], {"q": "good"}, {"q": math.nan}])
    def test_what_isnt_scores(self, scores: Any) -> None:
        judge, human = sides(0.8)
        with pytest.raises(InvalidInput, match="judge_scores"):
            calibrate(scores, human)
        with pytest.raises(InvalidInput, match="human_scores"):
            calibrate(judge, scores)

    def test_no_human_score(self) -> None:
        with pytest.raises(InvalidInput, match="human_scores"):
            calibrate({"q": 1.0}, {})

    def test_confidence(self) -> None:
        with pytest.raises(InvalidInput, match="confidence"):
            calibrate(*sides(0.8), confidence=95)


class TestWhereThereIsNothingRelevant:
    """The judge finds nothing for every fifth question, people for every third."""

    def scores(self, who: str, n: int, **options: Any) -> Scores:
        step = {"judge": 5, "people": 3}[who]
        labels = {f"q{number}": {"d": int(number % step > 0)} for number in range(n)}
        return score_rankings(labels, {key: ["d"] for key in labels}, ["mrr"], **options)

    def test_leaving_them_out_is_refused_where_it_can_not_be_paired(self) -> None:
        with pytest.raises(
            InvalidInput, match=r'none for q5.*Score both sides with no_relevant="z'
        ):
            calibrate(self.scores("judge", 90), self.scores("people", 30))

    def test_counted_as_0_they_take_part(self) -> None:
        sides = [
            self.scores(who, n, no_relevant="zero") for who, n in (("judge", 90), ("people", 30))
        ]
        calibration = calibrate(*sides)
        assert calibration["mrr"].n_human == 30
        assert calibration["mrr"].human.mean == pytest.approx(2 / 3)
        assert not calibration.notes

    def test_where_people_leave_some_out_a_note_says_so(self) -> None:
        calibration = calibrate(
            self.scores("judge", 90, no_relevant="zero"), self.scores("people", 30)
        )
        assert calibration["mrr"].n_human == 20
        (note,) = [note for note in calibration.notes if "nothing relevant" in note]
        assert note.startswith("people found nothing relevant for 10 questions. Score both sides")


class TestStagesAndSweeps:
    """They are calibrated system by system: labels of both kinds, the same rankings."""

    QUESTIONS: ClassVar = {f"q{n}": str(n) for n in range(120)}
    JUDGED: ClassVar = RetrievalDataset(
        QUESTIONS,
        {q: [f"d{n}", f"x{n}"] if int(n) % 5 == 0 else [f"d{n}"] for q, n in QUESTIONS.items()},
    )
    HUMAN: ClassVar = RetrievalDataset(
        {q: n for q, n in QUESTIONS.items() if int(n) < 60},
        {q: [f"d{n}"] for q, n in QUESTIONS.items() if int(n) < 60},
    )

    @staticmethod
    def build(k: int) -> Callable[[str], list[str]]:
        def retrieve(query: str) -> list[str]:
            ids = [f"x{query}", f"d{query}", "z"] if int(query) % 3 else [f"d{query}", "z", "y"]
            return ids[:k]

        return retrieve

    def test_a_sweep(self) -> None:
        judged, human = (
            sweep(self.build, {"k": [1, 2]}, dataset, ["recall"], count_tokens=False)
            for dataset in (self.JUDGED, self.HUMAN)
        )

        systems = {}
        for system in human:
            by_judge, by_people = judged[system.name].results, system.results
            assert by_judge is not None
            assert by_people is not None
            systems[system.name] = calibrate(by_judge, by_people)

        # people: of every three questions one has its passage first, all have it among two
        assert systems["k=1"].human.means["recall"] == pytest.approx(1 / 3)
        (difference,) = compare(systems, "k=1").differences
        assert str(difference.verdict).startswith("k=2 is better than k=1 on recall")

    def test_stages(self) -> None:
        judged, human = (
            evaluate_stages(self.build(3), [SimilarityPostprocessor()], dataset, ["mrr"])
            for dataset in (self.JUDGED, self.HUMAN)
        )

        systems = {stage: calibrate(judged[stage], human[stage]) for stage in human}

        assert list(compare(systems, "retriever").calibrations) == [*human]

    def test_all_at_once_is_refused(self) -> None:
        stages = evaluate_stages(self.build(3), [SimilarityPostprocessor()], self.HUMAN, ["mrr"])
        swept = sweep(self.build, {"k": [1]}, self.HUMAN, ["mrr"], count_tokens=False)
        for several in (stages, swept):
            with pytest.raises(InvalidInput, match="stages or of a sweep one by one"):
                calibrate(several, several)  # type: ignore[arg-type]

    def test_a_calibration_is_no_dataset(self) -> None:
        scores = {f"q{n}": float(n % 2) for n in range(40)}
        with pytest.raises(UnknownFormat, match="it holds results, not questions"):
            sweep(self.build, {"k": [1]}, calibrate(scores, scores), ["mrr"])
