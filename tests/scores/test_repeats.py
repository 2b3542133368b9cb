"""Scores of questions that were asked several times: every figure as counted by hand."""

import pickle
import random
from itertools import chain

import pytest

from llama_index_rag_metrics import Run, Scores, assert_retrieval, compare, read_run, score_rankings
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.report.terminal import print_report
from llama_index_rag_metrics.runtime.errors import GateFailed
from llama_index_rag_metrics.stories.label_view import System
from llama_index_rag_metrics.stories.story import stories_of

N, R = 30, 5
JUDGED = {f"q{n}": ["a"] for n in range(N)}


def runs(seed: int = 0) -> list[Run]:
    """R runs of N questions: n / N of the runs find the passage, at a random rank of the first 4"""
    generator = random.Random(seed)
    found = []
    for _ in range(R):
        rankings = {}
        for n in range(N):
            ids = ["x", "y", "z"]
            if generator.random() < n / N:
                ids.insert(generator.randrange(4), "a")
            rankings[f"q{n}"] = ids
        found.append(Run(rankings))
    return found


def slow_rank(run: Run, query_id: str) -> int:
    ids = list(run[query_id].ids)
    return ids.index("a") + 1 if "a" in ids else 0


def test_figures_are_those_of_a_slow_count() -> None:
    asked = runs()
    names = ["mrr", "hit_rate@2"]
    scores = score_rankings(JUDGED, Run(repeats=asked, name="agent"), names)
    assert scores.metric_names == tuple(names)
    assert scores.name == "agent"
    scores_of_runs = (score_rankings(JUDGED, run, ["mrr", "hit_rate@2"]) for run in asked)
    assert scores.repeats == tuple(scores_of_runs)
    for query_id in JUDGED:
        ranks = [slow_rank(run, query_id) for run in asked]
        mrr = sum(1 / rank if rank else 0 for rank in ranks) / R
        hits = [0 < rank <= 2 for rank in ranks]
        expected = [mrr, sum(hits) / R]
        assert [*scores.per_query[query_id].values()] == pytest.approx(expected, abs=1e-14)


def test_every_run_is_in_the_file() -> None:
    # 4 tokens, then 8: 6 a question, of both runs
    times = [Run({"q": Ranking(["a"], tokens=[4])}), Run({"q": Ranking(["b"], tokens=[8])})]
    scores = score_rankings({"q": ["a"]}, Run(repeats=times), ["mrr"])
    for kept in (Scores.from_json(scores.to_json()), pickle.loads(pickle.dumps(scores))):
        assert kept.retrieval is not None
        assert kept.retrieval.run == Run(repeats=times)
        assert kept.retrieval.run.mean_tokens == 6
        assert str(kept) == str(scores)
        assert kept == scores
    assert scores != scores.replace(repeats=scores.repeats[::-1])


def test_unit_of_intervals_and_tests_is_the_question() -> None:
    one, other = (score_rankings(JUDGED, Run(repeats=runs(seed)), ["mrr"]) for seed in (0, 1))
    bare_one, bare_other = (Scores(scores.query_ids, scores.columns) for scores in (one, other))
    assert one.intervals() == bare_one.intervals()
    assert one.intervals()["mrr"].n == N
    assert str(compare({"a": one, "b": other}, "a")["b", "mrr"]) == str(
        compare({"a": bare_one, "b": bare_other}, "a")["b", "mrr"]
    )


def test_equal_runs_give_the_run_itself_to_the_last_bit() -> None:
    run = runs()[0]
    once = score_rankings(JUDGED, run, ["mrr", "ndcg@3"])
    again = score_rankings(JUDGED, Run(repeats=[run] * 7), ["mrr", "ndcg@3"])
    assert [column.tolist() for column in again.columns.values()] == [
        column.tolist() for column in once.columns.values()
    ]


def test_order_of_runs_changes_no_bit() -> None:
    asked = runs()
    there, back = (
        score_rankings(JUDGED, Run(repeats=each), ["mrr", "hit_rate@3"])
        for each in (asked, asked[::-1])
    )
    assert there.means == back.means


def test_question_may_have_fewer_runs_than_others() -> None:
    # q2 was asked once: nothing is known of its second time, which isn't an empty ranking; q3 has
    # no ranking at all, which is an empty one each time
    run = Run(repeats=[Run({"q1": ["a"], "q2": ["a"]}), Run({"q1": ["x"]})])
    scores = score_rankings({"q1": ["a"], "q2": ["a"], "q3": ["a"]}, run, ["hit_rate"])
    assert scores.by_query("hit_rate") == {"q1": 0.5, "q2": 1.0, "q3": 0.0}
    assert scores.empty == ("q3",)
    assert scores.counts.empty == 1


def test_failures_of_some_runs_count_in_the_mean_and_are_listed() -> None:
    failed = Ranking(error="ConnectionError: refused")
    run = Run(repeats=[Run({"q1": failed, "q2": failed}), Run({"q1": ["a"], "q2": failed})])
    scores = score_rankings({"q1": ["a"], "q2": ["a"]}, run, ["mrr"])
    assert scores.by_query("mrr") == {"q1": 0.5, "q2": 0.0}
    assert [*scores.failed] == ["q2"]
    assert scores.counts.failed == 2
    assert "3 of 4 answers failed, of 2 questions" in scores.notes
    with pytest.raises(GateFailed):
        assert_retrieval(scores, "failed <= 1")


def test_choice_of_questions_keeps_their_runs() -> None:
    scores = score_rankings(JUDGED, Run(repeats=runs()), ["mrr", "hit_rate@3"])
    few, by_query = scores.select(["q1", "q29"]), scores.by_query("mrr")
    assert [run.query_ids for run in few.repeats] == [("q1", "q29")] * R
    assert few.by_query("mrr") == {"q1": by_query["q1"], "q29": by_query["q29"]}


class TestReport:
    @pytest.fixture
    def text(self, capsys: pytest.CaptureFixture[str]) -> str:
        names = ["mrr", "hit_rate@3"]
        scores = score_rankings(JUDGED, Run(repeats=runs(), name="agent"), names)
        print_report(scores.report())
        return capsys.readouterr().out

    def test_questions_that_differ_come_first(self, text: str) -> None:
        differing = sum(len({slow_rank(run, key) for run in runs()}) > 1 for key in JUDGED)
        flat = " ".join(text.split())
        assert (
            f"Asked 5 times, {differing} of {N} questions score differently from run to run on mrr."
        ) in flat
        assert "Asked 5 times: the ranking is the first one, the score the mean." in flat

    def test_note_counts_questions_with_fewer_runs(self) -> None:
        fewer = [*runs()[:-1], Run({"q29": ["a"]})]
        scores = score_rankings(JUDGED, Run(repeats=fewer), ["hit_rate"])
        assert (
            f"fewer than 5 runs: {N - 1} of {N} questions, with the mean of those: a run that "
            "isn't there doesn't count as 0"
        ) in scores.notes

    def test_outcomes_of_some_runs_are_counted_as_such(self) -> None:
        asked = [Run({"q1": ["a"], "q2": []}), Run({"q1": [], "q2": Ranking(error="busy")})]
        labels = {"q1": ["a"], "q2": ["b"]}
        several = " ".join(str(score_rankings(labels, Run(repeats=asked), "mrr")).split())
        assert "nothing retrieved" in several
        assert "got no passages" not in several
        never = score_rankings(labels, Run(repeats=[Run({"q1": ["a"], "q2": ["c"]})] * 2), "mrr")
        queries = never.report().queries
        assert queries is not None
        stories = queries().stories
        whys = [*chain(*(story.why for story in stories))]
        assert whys == ["The relevant passage was never retrieved."]  # of all runs
        found = score_rankings({"q1": ["a"]}, Run(repeats=[Run({"q1": ["x"]}), asked[0]]), "mrr")
        (story,) = found.worst(n=1).stories
        assert story.wanted[0].where == "run 1: never retrieved; run 2: rank 1"
        (beside,) = stories_of(["q1"], [System.of(found, name) for name in "ab"], "mrr")
        assert beside.summary == ["never retrieved (in the first run)"]
        never = score_rankings(labels, Run(repeats=[Run({"q1": ["a"], "q2": []})] * 2), "mrr")
        assert "1 of 2 got no passages" in " ".join(str(never).split())
        once = " ".join(str(score_rankings(labels, asked[0], "mrr")).split())
        assert "nothing retrieved" in once
        assert "failed" not in once


def test_runs_are_kept_by_what_is_made_of_them() -> None:
    run = Run(repeats=[Run({"q1": ["a"], "q2": ["b"]}), Run({"q1": ["c"]})])
    assert [list(each) for each in run.select(["q2"]).repeats] == [["q2"], []]
    assert read_run(run) == run
    assert run != Run(run)
    assert list(run) == ["q1", "q2"]


def test_latency_and_tokens_are_of_every_run() -> None:
    times = [Run({"q": Ranking(["a"], latency=n, tokens=[10 * n])}) for n in (1, 2, 3)]
    run = Run(repeats=times)
    assert run.mean_tokens == 20
    assert run.latency is not None
    assert (run.latency.n, run.latency.p50) == (3, 2.0)


def with_scores(*scores: float) -> Ranking:
    return Ranking([f"d{rank}" for rank in range(len(scores))], scores=scores)


def test_questions_without_an_answer_are_apart_in_every_run() -> None:
    runs = [
        Run({"q1": with_scores(0.9), "q2": with_scores()}),
        Run({"q1": with_scores(0.9), "q2": with_scores(0.4)}),
    ]
    scores = score_rankings({"q1": ["d0"], "q2": []}, Run(repeats=runs), ["recall", "abstained"])
    assert dict(scores.means) == {"recall": 1, "abstained": 0.5}  # once of two times
    assert dict(scores.excluded) == {"q2": "no_relevant"}
    assert scores.unanswerable == ("q2",)
    assert (scores.counts.scored, scores.counts.no_relevant, scores.empty) == (1, 1, ())
    assert scores.counts.queries == 2
    assert scores.counts.empty == 1  # in any run


def test_threshold_is_applied_to_every_run() -> None:
    expected = {"q1": ["d1"], "q2": []}
    first = Run({"q1": with_scores(0.9, 0.8), "q2": with_scores(0.7)})
    second = Run({"q1": with_scores(0.9, 0.3), "q2": with_scores(0.2)})
    run = Run(repeats=[first, second])
    names = ["recall", "abstained"]
    scores = score_rankings(expected, run.at_least(0.5), names)
    # d1 stays in the first run alone; nothing is left of q2 in the second alone
    assert dict(scores.means) == {"recall": 0.5, "abstained": 0.5}
