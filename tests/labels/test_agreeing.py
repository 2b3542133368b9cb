"""Agreement of two judges: by hand, and against scikit-learn."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from support.reviews import JUDGED, write

from llama_index_rag_metrics.labels import agreement
from llama_index_rag_metrics.labels.agreeing import Agreement
from llama_index_rag_metrics.runtime.containers import FloatArray
from llama_index_rag_metrics.runtime.errors import InvalidInput


def cohens_kappa(ours: FloatArray, theirs: FloatArray) -> Agreement:
    """The agreement of two judges on a passage a question."""
    first, second = (
        {f"q{n}": {"d": float(grade)} for n, grade in enumerate(grades)}
        for grades in (ours, theirs)
    )
    return agreement(first, second)


def test_agreement_by_hand() -> None:
    llm = {"q1": {"a": 3, "b": 0, "c": 1}, "q2": {"d": 2, "e": 0}}
    human = {"q1": {"a": 3, "b": 0, "c": 0, "z": 1}, "q2": {"d": 2}, "q9": {"a": 1}}
    # a, b, c, d: agree on 3 of 4; by chance: 0: 1/4 · 2/4, 1: 0, 2 and 3: 1/4 · 1/4
    chance = 1 / 8 + 1 / 16 + 1 / 16
    agreed = agreement(llm, human)
    assert (agreed.kappa, agreed.n) == pytest.approx(((3 / 4 - chance) / (1 - chance), 4))


def test_agreement_is_scikit_learns_with_an_interval() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="computes the kappa, too")
    rng = np.random.default_rng(5)
    ours, theirs = rng.integers(0, 4, (2, 30, 4))
    theirs = np.where(rng.random((30, 4)) < 0.5, ours, theirs)
    judged, human = (
        {
            f"q{n}": {str(item): int(grade) for item, grade in enumerate(row)}
            for n, row in enumerate(by)
        }
        for by in (ours, theirs)
    )
    agreed = agreement(judged, human)
    kappa = metrics.cohen_kappa_score(ours.ravel(), theirs.ravel())
    assert (agreed.kappa, agreed.n) == pytest.approx((kappa, 120))
    assert agreed.low is not None
    assert agreed.high is not None
    assert agreed.low < agreed.kappa < agreed.high
    wider = agreement(judged, human, confidence=0.99)
    assert wider.low is not None
    assert wider.low < agreed.low


def test_items_of_one_query_belong_together() -> None:
    # the same 40 pairs: in 4 queries that agree wholly or not at all, and in 40 of one item each
    same, other = {"a": 1, "b": 0, "c": 1, "d": 0}, {"a": 0, "b": 1, "c": 0, "d": 1}
    whole = {f"q{n}": {f"{copy}{item}": grade for copy in range(3) for item, grade in same.items()}
             for n in range(4)}  # fmt: skip
    human = {query_id: {item: other[item[-1]] if query_id == "q3" else grade
                        for item, grade in grades.items()}
             for query_id, grades in whole.items()}  # fmt: skip
    apart = [
        {
            f"{query_id}{item}": {item: grade}
            for query_id, row in by.items()
            for item, grade in row.items()
        }
        for by in (whole, human)
    ]
    together, alone = agreement(whole, human), agreement(*apart)
    assert together.kappa == pytest.approx(alone.kappa)
    assert together.low is not None
    assert alone.low is not None
    assert together.low < alone.low


def test_judgements_without_variance() -> None:
    # observed and by chance, they agree on all: 0 / 0. Of two lists only what both name is compared
    agreed = agreement({"q": ["a", "b"]}, {"q": ["a", "c"]})
    assert (math.isnan(agreed.kappa), agreed.low, agreed.high, agreed.n) == (True, None, None, 1)
    assert "Kappa has no value: all grades are the same." in str(agreed)


def test_interval_of_one_query_isnt_there() -> None:
    agreed = agreement({"q": {"a": 1, "b": 0}}, {"q": {"a": 1, "b": 0}})
    assert agreed == Agreement(agreed.kappa, None, None, 2)
    assert agreed.kappa == pytest.approx(1)


def test_judgements_that_can_not_be_compared() -> None:
    with pytest.raises(InvalidInput, match="second"):
        agreement({"q": {"a": 1}}, {"q": {"b": 1}})
    with pytest.raises(InvalidInput, match="confidence"):
        agreement({"q": {"a": 1}}, {"q": {"a": 1}}, confidence=95)


def test_negative_grade_is_no_judgement() -> None:
    judged, human = {"q": {"a": 3, "b": 0, "c": 1}}, {"q": {"a": 3, "b": 0, "c": -1}}
    assert (agreement(judged, human).kappa, agreement(judged, human).n) == (1, 2)
    assert agreement(human, judged).n == 2


def test_files_of_two_reviewers_and_a_report_in_every_form(tmp_path: Path) -> None:
    anna = write(tmp_path / "anna.jsonl", {**JUDGED, "doc_id": "*d*"}, {**JUDGED, "doc_id": "e"})
    ben = write(tmp_path / "ben.jsonl", {**JUDGED, "doc_id": "*d*", "grade": 1})
    agreed = agreement(anna, ben)
    assert "*d*: 2 and 1" in str(agreed)
    assert "1 of 1 passage graded differently" in str(agreed)
    assert agreed.to_html(tmp_path / "r.html").exists()
    assert "&#42;d&#42;" in agreed.to_markdown()
    (row,) = json.loads(agreed.to_json())
    assert (row["doc_id"], row["first"], row["second"]) == ("*d*", 2, 1)


def test_full_agreement_isnt_certainty() -> None:
    grades = np.random.default_rng(17).integers(0, 4, 30).astype(float)
    agreed = cohens_kappa(grades, grades)
    assert (agreed.kappa, agreed.high) == pytest.approx((1, 1))
    assert agreed.low is not None
    assert 0.7 < agreed.low < 0.9


@pytest.mark.parametrize("kappa", [0.3, 0.7])
def test_interval_covers(kappa: float) -> None:
    # scores that are the truth with probability κ, else drawn anew, have just that κ
    rng, covered = np.random.default_rng(23), 0
    for _ in range(400):
        ours = rng.choice([0.0, 1.0], 60)
        theirs = np.where(rng.random(60) < kappa, ours, rng.choice([0.0, 1.0], 60))
        agreed = cohens_kappa(ours, theirs)
        covered += agreed.low <= kappa <= agreed.high  # type: ignore[operator]
    assert 0.92 <= covered / 400 <= 0.99
