"""One or more of every result that can be shown, the hard cases among them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llama_index.core.postprocessor import SimilarityPostprocessor

from llama_index_rag_metrics import (
    Ranking,
    RetrievalDataset,
    Run,
    Scores,
    check_rules,
    evaluate_stages,
    score_rankings,
    sweep,
)
from llama_index_rag_metrics.labels import agreement, check_labels, move_labels, pool
from llama_index_rag_metrics.report.reportable import Reportable
from support.reported import EVIL, METRICS, baseline, comparison, results
from support.retrievers import Scripted, node

TRITON = "Triton circles Neptune backwards, unlike the others. Its thin air is mostly nitrogen."
MOONS = RetrievalDataset({"q": "Which moon?"}, {"q": ["t"]}, {"t": TRITON, "x": "Io."})
RUNS = {"x": {"q": ["a", "b"]}, "y": {"q": ["b", "a"]}}

REFUSED = "ConnectionError: refused"


def stages(*, is_down: bool = False) -> Reportable:
    script: dict[str, Any] = {"?": [node("a"), node("b")]}
    if is_down:
        script = {"?": ConnectionError("refused")}
    dataset = {"queries": {"q": "?"}, "corpus": {}, "relevant_docs": {"q": ["b"]}}
    drop = {EVIL: SimilarityPostprocessor(similarity_cutoff=0.0)}
    return evaluate_stages(Scripted(script), drop, dataset, ["mrr"])


def swept(top_k: Sequence[int] = (1, 2)) -> Reportable:
    return sweep(lambda top_k: lambda _: ["x", "t"][:top_k], {"top_k": top_k}, MOONS, ["recall@2"])


def asked_twice() -> Reportable:
    runs = [Run({"q1": ["a"], "q2": []}), Run({"q1": ["x", "a"], "q2": ["b"]})]
    names = ["hit_rate", "mrr"]
    judged = {"q1": ["a"], "q2": ["b"]}
    return score_rankings(judged, Run(repeats=runs, name=EVIL), names).replace(queries={"q1": EVIL})


def down() -> Reportable:
    return results({query_id: Ranking(error=REFUSED) for query_id in ("q1", "q2", "q4", "q5")})


EVERY: Mapping[str, Sequence[Callable[[], Reportable]]] = {
    "Scores": [
        lambda: Scores(["q1"], {"mrr": [0.5]}, name=EVIL),
        lambda: Scores([], {"mrr": []}),
        lambda: Scores(["q1", "q2"], {"mrr": [0.5, 1.0]}, empty=["q1"]),
        lambda: score_rankings({"q": ["a"]}, {"q": ["a"]}, METRICS),
        asked_twice,
    ],
    "EvaluationResults": [baseline],
    "HardQuestions": [
        lambda: baseline().worst("mrr", 2),
        lambda: Scores(["q1"], {"mrr": [0.5]}).worst("mrr", 0),
    ],
    "Comparison": [comparison],
    "StageResults": [stages],
    "GateReport": [
        lambda: check_rules(baseline(), ["mrr >= 0.1", "mrr >= 0.99"]),
        lambda: check_rules(baseline(), "mrr >= 0.1"),
        lambda: check_rules(baseline(), "mrr >= baseline", baseline=baseline()),
    ],
    "Sweep": [swept, lambda: swept([1])],
    "LabelFindings": [
        lambda: check_labels(MOONS, {"n": TRITON}),
        lambda: check_labels(MOONS),
        lambda: check_labels(RetrievalDataset({"q": "Which?"}, {}, {"t": TRITON})),
    ],
    "MovedLabels": [
        lambda: move_labels(MOONS, {"n": TRITON}),
        lambda: move_labels(MOONS, {"n": "something else altogether"}),
    ],
    "Pool": [lambda: pool(RUNS), lambda: pool(RUNS, {"q": {"a": 1, "b": 0}})],
    "Agreement": [
        lambda: agreement({"q": {"a": 3, "b": 0}}, {"q": {"a": 3, "b": 1}}),
        lambda: agreement({"q": {"a": 3}}, {"q": {"a": 3}}),
    ],
}
"""Name of the class to what makes results of it."""

ALL_FAILED: Mapping[str, Callable[[], Reportable]] = {
    "Scores": lambda: Scores(["a", "b"], {"mrr": [0, 0]}, failed=dict.fromkeys("ab", REFUSED)),
    "EvaluationResults": down,
    "StageResults": lambda: stages(is_down=True),
}
"""Results of systems that failed on every question."""
