"""Questions asked unequally often, with labels and forbidden ids in every form."""

import pytest

from llama_index_rag_metrics import Run, score_rankings

pytestmark = pytest.mark.peers

_EXPECTED = {"q1": ["a"], "q2": ["b"], "q3": ["c"]}
_RUN = Run(repeats=[Run({"q1": ["a", "x"], "q2": ["b"]}), Run({"q1": ["y"], "extra": ["x"]})])


@pytest.mark.parametrize(
    "forbidden", [{"q1": ["x"], "q2": ["b"], "extra": ["x"]}, [["x"], ["b"], [], ["x"]]]
)
def test_forbidden_ids_are_those_of_the_questions_that_a_run_asked(forbidden: object) -> None:
    # in expected, then in the run: q1, q2, q3, extra; q1 leaks in the first of its two runs
    scores = score_rankings(_EXPECTED, _RUN, ["leaked", "hit_rate"], forbidden=forbidden)  # type: ignore[arg-type]
    leaked = {"q1": 0.5, "q2": 1.0, "q3": 0.0, "extra": 1.0}
    assert scores.by_query("leaked") == leaked
    assert scores.by_query("hit_rate") == {"q1": 0.5, "q2": 1.0, "q3": 0.0}


def test_a_question_that_nobody_asked_is_still_refused() -> None:
    with pytest.raises(ValueError, match="forbidden: expected only ids of the questions"):
        score_rankings(_EXPECTED, _RUN, "leaked", forbidden={"q4": ["x"]})


def test_labels_of_ranx_count_in_every_run() -> None:
    ranx = pytest.importorskip("ranx")
    labels = ranx.Qrels({query_id: dict.fromkeys(ids, 1) for query_id, ids in _EXPECTED.items()})
    scores = score_rankings(labels, _RUN, ["hit_rate"])
    assert scores.by_query("hit_rate") == {"q1": 0.5, "q2": 1.0, "q3": 0.0}
