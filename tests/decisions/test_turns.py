"""Questions that belong together are taken as a whole: turns of a conversation, or clusters."""

import math
from typing import Any

import numpy as np
import pytest
from support.intervals import width

from llama_index_rag_metrics import RetrievalDataset, Scores, compare, evaluate, sweep
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.statistics.intervals import mean_interval

N, TURNS = 24, 4
IDS = [f"q{number}" for number in range(N * TURNS)]
METADATA = {
    f"q{number}": {"conversation": f"c{number // TURNS}", "turn": number % TURNS + 1}
    for number in range(N * TURNS)
}
BY_HAND = {query_id: row["conversation"] for query_id, row in METADATA.items()}
NAMED = {query_id: {"by_hand": conversation} for query_id, conversation in BY_HAND.items()}


def scores(seed: int, gain: float = 0.0, metadata: Any = METADATA) -> Scores:
    """Turns of a conversation are nearly alike."""
    rng = np.random.default_rng(seed)
    of_conversation = np.repeat(rng.random(N), TURNS)
    column = np.clip(of_conversation + rng.normal(gain, 0.02, N * TURNS), 0, 1)
    return Scores(IDS, {"ndcg@10": column}, metadata=metadata)


def test_intervals_are_those_of_conversations() -> None:
    known = scores(1)
    (interval,) = known.intervals().values()
    by_hand = [BY_HAND[key] for key in IDS]
    assert interval == mean_interval(known["ndcg@10"], clusters=by_hand)
    single = mean_interval(known["ndcg@10"])
    assert interval.mean == single.mean
    assert interval.high - interval.low > 1.5 * (single.high - single.low)  # type: ignore[operator]


def test_comparisons_go_by_conversation() -> None:
    systems = {"a": scores(1), "b": scores(2, 0.05)}
    plain = {name: each.replace(metadata={}) for name, each in systems.items()}
    known = compare(systems, "a")
    hand = {name: each.replace(metadata=NAMED) for name, each in plain.items()}
    by_hand = compare(hand, "a", clusters="by_hand")
    assert known.differences == by_hand.differences
    assert f"{N * TURNS} questions in {N} conversations" in known.notes[-1]
    apart = compare(plain, "a")["b", "ndcg@10"]
    # as if the questions were independent
    assert width(apart) < width(known["b", "ndcg@10"])


def test_conversations_are_those_that_any_side_knows() -> None:
    """Whatever else the metadata of another side say, or of the one before."""
    other: Any = {key: {"language": "en"} for key in IDS}
    known = compare({"a": scores(1), "b": scores(2)}, "a")
    first = compare({"a": scores(1, metadata=other), "b": scores(2)}, "a")
    second = compare({"a": scores(1), "b": scores(2, metadata=other)}, "a")
    assert known.differences == first.differences == second.differences


def test_conversations_of_one_question_are_no_clusters() -> None:
    none: Any = {key: {"conversation": None} for key in IDS}
    one = {key: {"conversation": key} for key in IDS}
    of_pandas: Any = {key: {"conversation": math.nan} for key in IDS}
    for metadata in (none, one, of_pandas):
        assert scores(1, metadata=metadata).intervals() == scores(1, metadata={}).intervals()


def test_questions_outside_of_conversations_are_by_themselves() -> None:
    some = {key: row for key, row in METADATA.items() if int(key[1:]) < 8}
    clusters = [BY_HAND[key] if key in some else key for key in IDS]
    known = scores(1, metadata=some)
    assert known.intervals()["ndcg@10"] == mean_interval(known["ndcg@10"], clusters=clusters)


def dataset() -> RetrievalDataset:
    """Conversations whose turns are mixed; a question finds its passage in the first two turns."""
    order = sorted(range(N * TURNS), key=lambda number: (-(number % TURNS), number))
    return RetrievalDataset(
        {f"q{number}": f"{number}?" for number in order},
        {f"q{number}": ["d"] for number in order},
        metadata={
            f"q{number}": {
                "conversation": f"c{number // TURNS}",
                "history": [{"role": "user", "content": "?"}] * (number % TURNS),
            }
            for number in order
        },
    )


def find(question: str, metadata: Any) -> list[str]:
    return ["d"] if len(metadata["history"]) < 2 else ["e"]


def test_reports_show_what_was_said_last() -> None:
    history = [{"role": "user", "content": letter * 500} for letter in "abc"]
    told = RetrievalDataset(
        {"q": "?"}, {"q": ["d"]}, metadata={"q": {"conversation": "c<b>", "history": history}}
    )
    results = evaluate(lambda question: ["e"], told, ["recall@1"])
    (query,) = results.worst(n=1).report().listings[0].queries
    (remark,) = query.remarks
    assert remark.startswith("Part of conversation c<b>, after user: bbb")
    assert "a" * 9 not in remark
    assert len(remark) < 400
    # whatever else a table calls so stays as it is
    other = Scores(["q"], {"mrr": [1.0]}, metadata={"q": {"history": "long", "turn": 1}})
    assert other.metadata["q"] == {"history": "long", "turn": 1}


def test_sweeps_intervals_go_by_conversation() -> None:
    found = sweep(lambda n: find, {"n": [1, 2]}, dataset(), ["recall@1"])
    cell = found.report().tables[0].rows[0].cells[1]
    own = found.results["n=1"].scores.intervals()["recall@1"]
    assert (cell.low, cell.high) == (own.low, own.high)


def test_sweep_decides_by_conversation() -> None:
    # four turns of 3 of 24 conversations are lost: 12 of 96 questions would show a winner, and 5
    # changes or fewer never do
    def build(lost: int) -> Any:
        return lambda question: ["e"] if int(question[:-1]) < TURNS * lost else ["d"]

    asked = dataset()
    for data, winner in (
        (asked, None),
        (RetrievalDataset(asked.queries, asked.relevance), "lost=0"),
    ):
        found = sweep(build, {"lost": [0, 3]}, data, ["recall@1"])
        assert (found.winner and found.winner.name) == winner
        pair = compare(found.results, "lost=3")["lost=0", "recall@1"]
        assert (pair.outcome == "better") == (winner is not None)


DOCUMENTS = {f"q{number}": {"document": number // 3} for number in range(120)}


def test_copied_questions_are_no_evidence() -> None:
    # three copies of each of 40 questions
    rng = np.random.default_rng(6)
    base, changed = rng.random(40), rng.random(40) + 0.2
    pair = {
        name: Scores([*DOCUMENTS], {"m": np.repeat(column, 3)}, metadata=DOCUMENTS)
        for name, column in (("a", base), ("b", changed))
    }
    # variances of the mean differ by a factor of 3, standard errors by 1.73
    naive = compare(pair, "a")["b", "m"]
    clustered = compare(pair, "a", clusters="document")
    honest = clustered["b", "m"]
    assert "120 questions in 40 clusters" in clustered.notes[-1]
    assert naive.detectable is not None
    assert honest.detectable is not None
    assert naive.detectable < honest.detectable / 1.7
    assert width(honest) > 1.6 * width(naive)


def test_key_that_no_question_has_is_refused() -> None:
    systems = {name: Scores([*DOCUMENTS], {"m": [0.5] * 120}) for name in "ab"}
    with pytest.raises(InvalidInput, match="a key of the questions' metadata"):
        compare(systems, "a", clusters="document")
