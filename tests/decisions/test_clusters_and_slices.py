"""Queries that belong together, and comparisons of parts of the queries."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.compared import N, key, scores, three_systems
from support.intervals import width

from llama_index_rag_metrics import Comparison, Scores, compare
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.statistics.corrections import correct


@pytest.fixture(scope="module")
def systems() -> dict[str, Scores]:
    return three_systems()


def spoken() -> dict[str, Scores]:
    """Two systems, with the queries' language."""
    languages = ["de", "zh", None]
    metadata = {
        f"q{number}": {"language": language} if (language := languages[number % 3]) else {}
        for number in range(N)
    }
    return {"a": scores(1, metadata=metadata), "b": scores(3, 0.08)}


class TestClusters:
    def test_by_metadata_and_by_mapping_alike(self) -> None:
        metadata = {f"q{number}": {"document": number // 3} for number in range(N)}
        plain = {"a": scores(1), "b": scores(3, 0.05)}
        clusters = {f"q{number}": f"d{number // 3}" for number in range(N)}
        mapped = compare(plain, "a", clusters=clusters, resamples=500)
        named = compare(
            {**plain, "a": scores(1, metadata=metadata)}, "a", clusters="document", resamples=500
        )
        assert mapped.differences == named.differences
        assert mapped["b", "ndcg@10"].method == "cluster-robust t with pseudo-queries"
        assert "120 questions in 40 clusters" in mapped.notes[-1]
        assert (mapped.settings.clusters, named.settings.clusters) == ("given", "document")

    def test_the_order_of_the_queries_doesnt_matter(self) -> None:
        clusters = {f"q{number}": number % 40 for number in range(N)}
        order = np.random.default_rng(4).permutation(N)
        columns = {"a": scores(1)["ndcg@10"], "b": scores(3, 0.05)["ndcg@10"]}
        in_order, shuffled = (
            compare(
                {
                    name: Scores([f"q{number}" for number in rows], {"ndcg@10": column[rows]})
                    for name, column in columns.items()
                },
                "a",
                clusters=clusters,
                resamples=500,
            ).differences
            for rows in (np.arange(N), order)
        )
        assert in_order == shuffled

    def test_pairs_are_of_clusters_too(self, systems: dict[str, Scores]) -> None:
        apart, together = (
            compare(
                systems, "bm25", clusters={f"q{n}": n // size for n in range(N)}, resamples=100
            ).pairs
            for size in (1, N // 2)
        )
        assert [pair.difference for pair in apart] == [pair.difference for pair in together]
        assert all(few.p > many.p for few, many in zip(together, apart, strict=True))

    def test_copied_questions_are_no_evidence(self) -> None:
        # three copies of each of 40 questions: without clusters p is far too small
        rng = np.random.default_rng(6)
        base, changed = rng.random(40), rng.random(40) + 0.2
        ids = [f"q{number}" for number in range(120)]
        pair = {
            "a": Scores(ids, {"m": np.repeat(base, 3)}),
            "b": Scores(ids, {"m": np.repeat(changed, 3)}),
        }
        # variances of the mean differ by a factor of 3, standard errors by 1.73
        naive = compare(pair, "a")["b", "m"]
        clusters = {query_id: int(query_id[1:]) // 3 for query_id in ids}
        honest = compare(pair, "a", clusters=clusters)["b", "m"]
        assert naive.p_t < honest.p_t / 5
        assert naive.detectable is not None
        assert honest.detectable is not None
        assert naive.detectable < honest.detectable / 1.7
        assert width(honest) > 1.6 * width(naive)

    def test_it_is_clusters_that_are_too_few(self) -> None:
        pair = {"a": scores(1), "b": scores(3, 0.001)}
        clusters = {f"q{number}": number // 20 for number in range(N)}
        difference = compare(pair, "a", clusters=clusters, resamples=100)["b", "ndcg@10"]
        assert difference.detectable is None
        assert difference.verdict.startswith("These 120 questions can't tell: b may be ")
        assert difference.verdict.endswith(" better than a on ndcg@10.")

    def test_every_query_needs_one(self, systems: dict[str, Scores]) -> None:
        with pytest.raises(InvalidInput, match="none for q1, q10, q100, q101, q102 and 114 more"):
            compare(systems, "bm25", clusters={"q0": 1})
        with pytest.raises(InvalidInput, match="a key of the questions' metadata"):
            compare(systems, "bm25", clusters="document")
        with pytest.raises(InvalidInput, match=r"clusters: expected a key .*, or a mapping"):
            compare(systems, "bm25", clusters=["d1"])  # type: ignore[arg-type]


class TestSlices:
    @pytest.fixture(scope="class")
    @classmethod
    def sliced(cls) -> Comparison:
        return compare(spoken(), "a", slices="language", resamples=500)

    def test_each_value_on_its_own(self, sliced: Comparison) -> None:
        assert list(sliced.slices) == ["de", "zh", None]
        chosen = [f"q{number}" for number in range(1, N, 3)]
        alone = compare(
            {"a": scores(1).select(chosen), "b": scores(3, 0.08).select(chosen)}, "a", resamples=500
        )
        chinese = sliced.slices["zh"]
        assert chinese.query_ids == tuple(chosen)
        for difference in chinese:
            of_alone = alone[key(difference)]
            assert difference.p_randomisation == of_alone.p_randomisation
            assert difference.difference == of_alone.difference
            # with all slices in mind
            assert width(of_alone) < width(difference) < 1.4 * width(of_alone)

    def test_corrected_for_all_slices_together(self, sliced: Comparison) -> None:
        rows = [row for part in sliced.slices.values() for row in part]
        assert len(rows) == 6
        for metric in sliced.metric_names:
            family = [row for row in rows if row.metric == metric]
            assert {row.comparisons for row in family} == {3}
            by_holm = correct([row.p_t for row in family])
            for row, holm in zip(family, by_holm, strict=True):
                assert row.p_t <= row.p_corrected <= holm
        assert [row.p_corrected for row in sliced] == [row.p_t for row in sliced]

    def test_corrected_by_holm_for_all_slices_together(self) -> None:
        rows = [
            row
            for part in compare(
                spoken(), "a", slices="language", correction="holm", resamples=500
            ).slices.values()
            for row in part
            if row.primary
        ]
        assert [row.p_corrected for row in rows] == correct([row.p_t for row in rows]).tolist()

    def test_an_unknown_key(self, systems: dict[str, Scores]) -> None:
        with pytest.raises(InvalidInput, match="slices: expected a key of the questions' metadata"):
            compare(systems, "bm25", slices="language")

    def test_they_come_along(self, sliced: Comparison) -> None:
        pytest.importorskip("pandas")
        frame = sliced.to_pandas()
        assert frame["slice"].tolist()[2:6] == ["de", "de", "zh", "zh"]
        assert len(frame) == 8
        written = json.loads(sliced.to_json())["slices"]
        assert [part["value"] for part in written] == ["de", "zh", None]


def in_two_languages(german: float) -> Scores:
    """100 English questions that all score 0.5, and 50 German ones that differ by turns."""
    ids = [f"{key}{at}" for key, n in (("en", 100), ("de", 50)) for at in range(n)]
    column = [0.5 if q[:2] == "en" else german + 0.1 * (int(q[2:]) % 2) for q in ids]
    return Scores(ids, {"mrr": column}, metadata={q: {"language": q[:2]} for q in ids})


def test_the_worst_slice_stands_beside_the_mean() -> None:
    """German loses 0.2 on every question, English nothing; 0.0667 of all."""
    found = compare(
        {"a": in_two_languages(0.6), "b": in_two_languages(0.4)}, "a", slices="language"
    )
    first, second = (str(statement.text) for statement in found.report().decision)
    assert first.startswith("b is worse than a on mrr: −0.0")
    assert second.startswith("Worst of 2 slices, language de: b is worse than a on mrr: −0.20")
    assert "Worst of" not in str(
        compare({"a": in_two_languages(0.6), "b": in_two_languages(0.6)}, "a")
    )


def test_a_shown_loss_is_worse_than_a_larger_one_of_few_questions() -> None:
    """German loses 0.1 on 50 questions, French 0.3 on one of 2, which says nothing."""
    ids = [f"{key}{at}" for key, n in (("de", 50), ("fr", 2)) for at in range(n)]
    metadata = {q: {"language": q[:2]} for q in ids}
    before = [0.5 + 0.1 * (at % 2) for at in range(52)]
    lost = [0.1 + 0.01 * (at % 3) for at in range(50)] + [0.0, 0.3]
    after = [score - less for score, less in zip(before, lost, strict=True)]
    sides = {
        name: Scores(ids, {"mrr": column}, metadata=metadata)
        for name, column in (("a", before), ("b", after))
    }
    _, worst = (str(each.text) for each in compare(sides, "a", slices="language").report().decision)
    assert worst.startswith("Worst of 2 slices, language de: b is worse than a on mrr: −0.11")
