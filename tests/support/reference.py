"""Every id metric of docs/definitions.md once more, slowly and plainly: the oracle of the tests.

Nothing here is shared with the package, and nothing is fast. Grades hold what was judged, 0 and
negative included. Rankings may repeat an id: its first rank counts and the ranks close up.
"""

from collections.abc import Callable, Mapping, Sequence
from math import fsum, log2
from typing import Literal

Grades = Mapping[str, float]
Ids = Sequence[str]
Groups = Sequence[Ids]
Cutoff = int | None
Mode = Literal["linear", "exponential"]
Ideal = Literal["all"] | None


def ratio(a: float, b: float) -> float:
    return a / b if b else 0.0


def distinct(ranking: Ids) -> list[str]:
    return list(dict.fromkeys(ranking))


def relevant(grades: Grades, min_grade: float) -> set[str]:
    return {item for item, grade in grades.items() if grade >= min_grade}


def hit_ranks(items: set[str], ranking: Ids, k: Cutoff) -> list[int]:
    """The ranks, from 1 and ascending, at which `items` stand in the top `k`."""
    return [rank for rank, item in enumerate(distinct(ranking)[:k], start=1) if item in items]


def hit_rate(grades: Grades, ranking: Ids, *, k: Cutoff = None, min_grade: float = 1) -> float:
    return 1.0 if hit_ranks(relevant(grades, min_grade), ranking, k) else 0.0


def mrr(grades: Grades, ranking: Ids, *, k: Cutoff = None, min_grade: float = 1) -> float:
    ranks = hit_ranks(relevant(grades, min_grade), ranking, k)
    return 1 / ranks[0] if ranks else 0.0


def granular_mrr(grades: Grades, ranking: Ids, *, k: Cutoff = None, min_grade: float = 1) -> float:
    ranks = hit_ranks(relevant(grades, min_grade), ranking, k)
    return ratio(fsum(1 / rank for rank in ranks), len(ranks))


def precision(grades: Grades, ranking: Ids, *, k: Cutoff = None, min_grade: float = 1) -> float:
    hits = len(hit_ranks(relevant(grades, min_grade), ranking, k))
    return ratio(hits, len(distinct(ranking)) if k is None else k)


def recall(grades: Grades, ranking: Ids, *, k: Cutoff = None, min_grade: float = 1) -> float:
    expected = relevant(grades, min_grade)
    return ratio(len(hit_ranks(expected, ranking, k)), len(expected))


def f(
    grades: Grades, ranking: Ids, *, beta: float = 1.0, k: Cutoff = None, min_grade: float = 1
) -> float:
    p = precision(grades, ranking, k=k, min_grade=min_grade)
    r = recall(grades, ranking, k=k, min_grade=min_grade)
    return ratio((1 + beta**2) * p * r, beta**2 * p + r)


def ap(grades: Grades, ranking: Ids, *, k: Cutoff = None, min_grade: float = 1) -> float:
    expected = relevant(grades, min_grade)
    ranks = hit_ranks(expected, ranking, k)
    return ratio(fsum(hits / rank for hits, rank in enumerate(ranks, start=1)), len(expected))


def r_precision(grades: Grades, ranking: Ids, *, min_grade: float = 1) -> float:
    expected = relevant(grades, min_grade)
    return ratio(len(hit_ranks(expected, ranking, len(expected))), len(expected))


def bpref(grades: Grades, ranking: Ids, *, min_grade: float = 1) -> float:
    """trec_eval's bpref: per hit, the share of the top judged non-relevant items not above it."""
    relevant_count = sum(grade >= min_grade for grade in grades.values())
    nonrelevant_count = sum(0 <= grade < min_grade for grade in grades.values())
    nonrelevant_above = 0
    preferences = []
    for item in distinct(ranking):
        if item not in grades or grades[item] < 0:
            continue
        if grades[item] < min_grade:
            nonrelevant_above += 1
        else:
            violated = min(nonrelevant_above, relevant_count)
            preferences.append(1 - ratio(violated, min(nonrelevant_count, relevant_count)))
    return ratio(fsum(preferences), relevant_count)


def infap(grades: Grades, ranking: Ids, *, min_grade: float = 1) -> float:
    """trec_eval's infAP: per hit, the precision its rank is expected to have.

    The pooled items above a hit, judged or not, are relevant in the proportion of the judged ones
    there; items outside the pool are not relevant.
    """
    epsilon = 0.00001
    relevant_above = nonrelevant_above = unjudged_above = 0
    precisions = []
    for rank, item in enumerate(distinct(ranking), start=1):
        if item not in grades:
            continue
        if grades[item] < 0:
            unjudged_above += 1
        elif grades[item] < min_grade:
            nonrelevant_above += 1
        else:
            judged_above = relevant_above + nonrelevant_above
            proportion = (relevant_above + epsilon) / (judged_above + 2 * epsilon)
            precisions.append((1 + (judged_above + unjudged_above) * proportion) / rank)
            relevant_above += 1
    return ratio(fsum(precisions), sum(grade >= min_grade for grade in grades.values()))


def gain(grade: float, mode: Mode) -> float:
    if grade <= 0:
        return 0.0
    return float(grade) if mode == "linear" else 2.0**grade - 1


def dcg(grades: Grades, ranking: Ids, *, k: Cutoff = None, mode: Mode = "linear") -> float:
    if mode == "exponential" and any(grade > 64 for grade in grades.values()):
        raise ValueError("exponential gains take grades up to 64")
    ranks = enumerate(distinct(ranking)[:k], start=1)
    return fsum(gain(grades.get(item, 0), mode) / log2(rank + 1) for rank, item in ranks)


def ndcg(
    grades: Grades, ranking: Ids, *, k: Cutoff = None, mode: Mode = "linear", ideal: Ideal = None
) -> float:
    if ideal == "all" and k is not None:
        raise ValueError("ideal and k exclude each other")
    gaining = [item for item, grade in grades.items() if grade > 0]
    best = sorted(gaining, key=lambda item: grades[item], reverse=True)
    if k is not None:
        best = best[:k]
    elif ideal is None:
        best = best[: len(distinct(ranking))]
    return ratio(dcg(grades, ranking, k=k, mode=mode), dcg(grades, best, mode=mode))


def rbp(
    grades: Grades, ranking: Ids, *, p: float = 0.8, k: Cutoff = None, min_grade: float = 1
) -> float:
    ranks = hit_ranks(relevant(grades, min_grade), ranking, k)
    return min(1.0, (1 - p) * fsum(p ** (rank - 1) for rank in ranks))


def err(grades: Grades, ranking: Ids, *, k: Cutoff = None, max_grade: float = 4) -> float:
    if any(grade > max_grade for grade in grades.values()):
        raise ValueError("a grade is above max_grade")
    reached = 1.0
    terms = []
    for rank, item in enumerate(distinct(ranking)[:k], start=1):
        stop = gain(grades.get(item, 0), "exponential") / 2**max_grade
        terms.append(reached * stop / rank)
        reached *= 1 - stop
    return fsum(terms)


def judged(grades: Grades, ranking: Ids, *, k: Cutoff = None) -> float:
    top = distinct(ranking)[:k]
    return ratio(sum(item in grades and grades[item] >= 0 for item in top), len(top))


def confusion(
    grades: Grades, ranking: Ids, *, corpus_size: int, k: Cutoff = None, min_grade: float = 1
) -> dict[str, int]:
    expected = relevant(grades, min_grade)
    predicted = set(distinct(ranking)[:k])
    return {
        "tp": len(predicted & expected),
        "fp": len(predicted - expected),
        "fn": len(expected - predicted),
        "tn": corpus_size - len(predicted | expected),
    }


def accuracy(
    grades: Grades, ranking: Ids, *, corpus_size: int, k: Cutoff = None, min_grade: float = 1
) -> float:
    counts = confusion(grades, ranking, corpus_size=corpus_size, k=k, min_grade=min_grade)
    if not relevant(grades, min_grade):
        return 0.0  # as every metric, where nothing reaches min_grade
    return ratio(counts["tp"] + counts["tn"], corpus_size)


def ranks_by_group(groups: Groups, ranking: Ids, k: Cutoff) -> list[list[int]]:
    return [hit_ranks(set(group), ranking, k) for group in groups]


def group_recall(groups: Groups, ranking: Ids, *, k: Cutoff = None) -> float:
    ranks_found = ranks_by_group(groups, ranking, k)
    return ratio(sum(1 for ranks in ranks_found if ranks), len(groups))


def group_f1(groups: Groups, ranking: Ids, *, k: Cutoff = None) -> float:
    p = precision({item: 1 for group in groups for item in group}, ranking, k=k)
    r = group_recall(groups, ranking, k=k)
    return ratio(2 * p * r, p + r)


def group_mrr(groups: Groups, ranking: Ids, *, k: Cutoff = None) -> float:
    ranks_found = ranks_by_group(groups, ranking, k)
    return ratio(fsum(1 / ranks[0] for ranks in ranks_found if ranks), len(groups))


def group_ap(groups: Groups, ranking: Ids, *, k: Cutoff = None) -> float:
    means = []
    for ranks in ranks_by_group(groups, ranking, k):
        precisions = [hits / rank for hits, rank in enumerate(ranks, start=1)]
        means.append(ratio(fsum(precisions), len(precisions)))
    return ratio(fsum(means), len(groups))


def abstained(ranking: Ids) -> float:
    return 0.0 if ranking else 1.0


def returned(ranking: Ids, *, k: Cutoff = None) -> float:
    return float(len(distinct(ranking)[:k]))


def found_facets(groups: Groups, ranking: Ids, k: Cutoff) -> list[bool]:
    return [bool(ranks) for ranks in ranks_by_group(groups, ranking, k)]


def complete(groups: Groups, ranking: Ids, *, k: Cutoff = None) -> float:
    return 1.0 if groups and all(found_facets(groups, ranking, k)) else 0.0


def facet_recall(
    groups: Groups, ranking: Ids, *, k: Cutoff = None, weights: Sequence[float] | None = None
) -> float:
    weights = weights or [1.0] * len(groups)
    weighted = zip(weights, found_facets(groups, ranking, k), strict=True)
    return ratio(fsum(weight for weight, is_found in weighted if is_found), fsum(weights))


def novelty_gains(groups: Groups, ranking: Ids, alpha: float) -> list[float]:
    """Of each item, the sum over its groups of (1 - alpha)^(times supplied above)."""
    supplied = [0] * len(groups)
    gains = []
    for item in ranking:
        its_groups = [number for number, group in enumerate(groups) if item in group]
        gains.append(fsum((1 - alpha) ** supplied[number] for number in its_groups))
        for number in its_groups:
            supplied[number] += 1
    return gains


def ideal_order(groups: Groups, alpha: float) -> list[str]:
    """Always the item that gains most next; of equals, the one of the highest id."""
    left = {item for group in groups for item in group}
    order: list[str] = []
    while left:
        gain = {item: novelty_gains(groups, [*order, item], alpha)[-1] for item in left}
        order.append(max(left, key=lambda item: (gain[item], item)))
        left.remove(order[-1])
    return order


def alpha_ndcg(groups: Groups, ranking: Ids, *, alpha: float = 0.5, k: Cutoff = None) -> float:
    items = distinct(ranking)[:k]
    ideal = ideal_order(groups, alpha)[: len(items) if k is None else k]
    sums = []
    for order in (items, ideal):
        gains = enumerate(novelty_gains(groups, order, alpha), start=1)
        sums.append(fsum(gain / log2(rank + 1) for rank, gain in gains))
    return ratio(*sums)


def err_ia(groups: Groups, ranking: Ids, *, alpha: float = 0.5, k: Cutoff = None) -> float:
    items = distinct(ranking)[:k]
    gains = novelty_gains(groups, items, alpha)
    gained = fsum(gain / rank for rank, gain in enumerate(gains, start=1))
    length = len(items) if k is None else k
    best = fsum((1 - alpha) ** (rank - 1) / rank for rank in range(1, length + 1))
    return ratio(gained, len(groups) * best)


REFERENCE: dict[str, Callable[..., float]] = {
    "hit_rate": hit_rate, "granular_hit_rate": recall, "mrr": mrr,
    "granular_mrr": granular_mrr, "precision": precision, "recall": recall, "f": f, "f1": f,
    "ap": ap, "r_precision": r_precision, "dcg": dcg, "ndcg": ndcg, "rbp": rbp, "err": err,
    "bpref": bpref, "infap": infap, "judged": judged, "accuracy": accuracy,
    "group_recall": group_recall, "group_f1": group_f1, "group_mrr": group_mrr,
    "group_ap": group_ap, "complete": complete, "facet_recall": facet_recall,
    "alpha_ndcg": alpha_ndcg, "err_ia": err_ia,
}  # fmt: skip
