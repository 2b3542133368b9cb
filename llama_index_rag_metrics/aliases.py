"""What other tools call the metrics, their parameters and values."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

ALIASES: Mapping[str, str] = {
    "success": "hit_rate",
    "hit": "hit_rate",
    "hr": "hit_rate",
    "rr": "mrr",
    "recip_rank": "mrr",
    "reciprocal_rank": "mrr",
    "p": "precision",
    "set_p": "precision",
    "setp": "precision",
    "r": "recall",
    "set_recall": "recall",
    "setr": "recall",
    "set_f": "f",
    "setf": "f",
    "f1_score": "f1",
    "f_score": "f",
    "fbeta": "f",
    "map": "ap",
    "map_cut": "ap",
    "average_precision": "ap",
    "mean_average_precision": "ap",
    "rprec": "r_precision",
    "rprecision": "r_precision",
    "ndcg_cut": "ndcg",
    "11pt_avg": "eleven_point_average",
    "relative_p": "relative_precision",
    "set_relative_p": "relative_precision",
    "unj": "unjudged",
    "rbp_resid": "rbp_residual",
    "ndcg_burges": "ndcg(mode=exponential)",
    "dcg_burges": "dcg(mode=exponential)",
    "acc": "accuracy",
    "strec": "facet_recall",
    "s_recall": "facet_recall",
    "subtopic_recall": "facet_recall",
}
"""What trec_eval, ir_measures, ranx and others call them; case and dashes don't matter."""

PARAMETER_ALIASES: Mapping[str, str] = {"rel": "min_grade", "b": "beta", "dcg": "mode"}
VALUE_ALIASES: Mapping[str, str] = {"exp-log2": "exponential", "log2": "linear"}
"""What ir_measures calls the modes of its parameter `dcg`."""

ELSEWHERE: Mapping[str, str] = {
    "context_precision": "ap",
    "contextual_precision": "ap",
    "context_recall": "facet_recall",
    "contextual_recall": "facet_recall",
    "context_relevance": "llm_relevancy",
    "contextual_relevancy": "llm_relevancy",
    "id_based_context_precision": "precision",
    "id_based_context_recall": "recall",
}
"""What is closest to the metrics of ragas and DeepEval, which measure something else."""


def split_names(text: str) -> list[str]:
    """The names between commas; a comma between the parameters of one doesn't divide.

    >>> split_names("ndcg(ideal=all,mode=linear)@5,mrr")
    ['ndcg(ideal=all,mode=linear)@5', 'mrr']
    """
    names: list[str] = []
    end, is_inside = len(text), False
    # from the end, since what counts is which bracket comes next; a pattern that looks ahead at
    # every comma would take quadratic time
    for place in range(len(text) - 1, -1, -1):
        if text[place] in "()":
            is_inside = text[place] == ")"
        elif text[place] == "," and not is_inside:
            names.append(text[place + 1 : end])
            end = place
    return [text[:end], *reversed(names)]


def respelt(name: str) -> list[str]:
    """What may be meant by a name whose cutoff or parameter is written in another way.

    >>> respelt("ndcg10"), respelt("rbp.80"), respelt("ndcg@10@5"), respelt("mrr@")
    (['ndcg@10'], ['rbp(p=0.80)'], ['ndcg@10', 'ndcg@5', 'ndcg'], ['mrr@10', 'mrr'])
    """
    bare, *cutoffs = re.split(r"[@(]+", name.strip()[:_LONGEST])
    bare = bare.strip()
    if cutoffs:
        return [*([f"{bare}@{k}" for k in cutoffs if k.isdecimal()] or [f"{bare}@10"]), bare]
    if known := ELSEWHERE.get(bare.lower().replace(" ", "_")):
        return [known]
    if number := re.fullmatch(r"(\D+?)\.?(\d+)", bare):
        uncut, k = number.groups()
        return [f"rbp(p=0.{k})" if uncut.lower() == "rbp" else f"{uncut}@{k}"]
    return []


_LONGEST = 100
"""In characters, of a name that is guessed at."""

SQUARED_BETA = ("set_f", "setf")
"""trec_eval and ir_measures give F the square of beta: set_F_4 and SetF(beta=4) are f(beta=2)."""

AMBIGUOUS: Mapping[str, str] = {
    "hits": "hit_rate, a share, or num_rel_ret, the count that ranx calls hits",
    "gm_map": "ap, whose geometric mean --format trec prints as gm_map",
    "gm_bpref": "bpref, whose geometric mean --format trec prints as gm_bpref",
}
"""Names that mean different numbers in other tools, or no number per query."""


def root(squared: object) -> object:
    """The beta of such a name's value, if that is a number."""
    return math.sqrt(squared) if isinstance(squared, (int, float)) and squared > 0 else squared
