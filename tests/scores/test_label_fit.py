"""Labels that don't fit what they judge are said in the first lines, whatever the door."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unicodedata import normalize

import polars as pl
import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.schema import NodeWithScore, TextNode

from llama_index_rag_metrics import (
    Ranking,
    Relevance,
    RetrievalDataset,
    Run,
    Scores,
    check_rules,
    compare,
    evaluate,
    match_run,
    read_run,
    score_rankings,
    score_table,
    sweep,
    write_run,
)
from llama_index_rag_metrics.rankings.matching.id_matcher import seen_apart
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning
from llama_index_rag_metrics.scores.label_fit import Asked, Stock, fit_notes

TEN_IDS = {f"q{n}": f"n{n}" for n in range(10)}
TEN = RetrievalDataset(TEN_IDS, {query_id: [item] for query_id, item in TEN_IDS.items()})


def notes_of(*asked: Asked, stock: Stock | None = None) -> list[str]:
    return fit_notes(asked.__getitem__, len(asked), stock or Stock(), range(len(asked)))


def first_lines(reported: Any) -> list[str]:
    return [statement.text for statement in reported.report().decision[:3]]


class TestPassagesThatArentThere:
    def test_index_lacks_them(self) -> None:
        # recall is 1 for three questions and can't be more than 0 for seven
        nodes = [TextNode(id_=f"n{n}", text=f"text {n}") for n in range(3)]
        index = VectorStoreIndex(nodes, embed_model=MockEmbedding(3))
        for source in (index, index.as_retriever(similarity_top_k=3)):
            results = evaluate(source, TEN, ["recall@3"])
            assert results.scores.means["recall@3"] == 0.3
            for kept in (results, Scores.from_json(results.scores.to_json())):
                worst = str(kept.worst("recall@3", 1))
                assert "The relevant passage is not in the index." in worst
                assert "7 of 10 relevant passages are not in the index" in worst
            assert first_lines(results)[0] == (
                "7 of 10 labels name passages that the index doesn't have, such as 'n3' of "
                "question 'q3': recall can be 0.30 at most."
            )

    def test_corpus_lacks_them(self) -> None:
        # the second question has one of its two labels
        dataset = RetrievalDataset(
            {"q1": "a?", "q2": "b?"}, {"q1": ["a"], "q2": ["b", "gone"]}, {"a": "A", "b": "B"}
        )
        expected = (
            "1 of 3 labels name passages that the corpus doesn't have, such as 'gone' of "
            "question 'q2': recall can be 0.75 at most"
        )
        assert evaluate(lambda _: ["a", "b"], dataset, ["recall"]).scores.label_notes == (expected,)
        scores = score_rankings(dataset, {"q1": ["a"], "q2": ["a", "b"]}, ["recall"])
        assert scores.label_notes == (expected,)
        assert scores.means["recall"] == 0.75
        assert scores.queries["q1"] == "a?"

    def test_limit_of_recall_is_of_relevant_labels_and_of_questions_that_count(self) -> None:
        corpus, absent = {"a": "A"}, "labels name passages that the corpus doesn't have, such as"

        def retrieve(query: str) -> list[str]:
            if query == "b?":
                raise ConnectionError("down")
            return ["a"]

        # of q1 the grade of what is gone is no relevant one; q2 loses 1 of 2, unless left out
        labels = {"q1": {"a": 1, "gone": 0.5}, "q2": ["a", "lost"]}
        dataset = RetrievalDataset({"q1": "a?", "q2": "b?"}, labels, corpus)
        said = f"2 of 4 {absent} 'gone' of question 'q1'"
        limits: dict[Any, str] = {"zero": ": recall can be 0.75 at most", "exclude": ""}
        for failed, limit in limits.items():
            results = evaluate(retrieve, dataset, ["recall"], failed=failed)
            assert results.scores.label_notes[0] == said + limit
            scores = score_rankings(dataset, results.run, ["recall"], failed=failed)
            assert scores.label_notes[0] == said + limit
        assert scores.means["recall"] == 1

    def test_corpus_that_isnt_all_there_is_says_nothing(self) -> None:
        stock = Stock(ids={"a"})
        assert notes_of(Asked("q1", ["b", "c"], ["b"]), stock=stock) == []

    def test_sweep_says_it_too(self) -> None:
        dataset = RetrievalDataset(TEN.queries, TEN.relevance, {"n0": "0", "n1": "1"})
        found = sweep(lambda k: lambda _: ["n1", "n0"][:k], {"k": [1, 2]}, dataset, ["recall@2"])
        assert "8 of 10 labels name passages that the corpus doesn't have" in str(found)


@pytest.mark.parametrize(
    ("label", "other", "difference"),
    [
        ("caf\xe9.pdf", "cafe\u0301.pdf", "Unicode form"),
        ("Kiln.md", "kiln.md", "case"),
        ("a b", "a\u200b b ", "white space"),
        ("17.0", "17", "a final .0"),
        ("007", "7", "leading zeros"),
        ("a%20b.md", "a b.md", "percent-encoding"),
        ("Kiln 1", "kiln1", "spelling"),
    ],
)
def test_spelling_that_differs(label: str, other: str, difference: str) -> None:
    start = f"Ids that are equal but for {difference}: 1 of"
    for wanted, got in ((label, other), (other, label)):
        (note,) = notes_of(Asked("q1", [wanted], ["x", got]), Asked("q2", ["b"], ["b"]))
        assert note.startswith(f"{start} 2 labels, such as {seen_apart(wanted, got)[0]} for the id")
    # both are passages of their own
    assert notes_of(Asked("q1", [label], [other]), Asked("q2", ["b"], [label])) == []
    (missing, spelled) = notes_of(
        Asked("q1", [label], ["x"]), stock=Stock("the index", {other, "x"})
    )
    assert missing.startswith("1 of 1 labels name passages that the index doesn't have")
    assert spelled.startswith(f"{start} 1 labels")


def test_numbers_have_no_spelling() -> None:
    asked = [Asked(f"q{n}", [-n], [n]) for n in range(1, 4)]  # type: ignore[list-item]
    assert notes_of(*asked) == []


@pytest.mark.parametrize(
    ("label", "other", "affix"),
    [
        ("d{}", "s3://kiln/d{}", "the prefix 's3://kiln/'"),
        ("docs/d{}", "d{}", "the prefix 'docs/'"),
        ("d{}#0", "d{}", "the suffix '#0'"),
        ("{}", "doc{}", "the prefix 'doc'"),
        ("s3://old/{}.md", "s3://new/{}.md", "the prefixes 's3://old/' and 's3://new/'"),
        ("d{}.md", "d{}.txt", "the suffixes '.md' and '.txt'"),
        ("b'd{}'", "d{}", """the prefix "b'" and the suffix "'\""""),
        ("docs\\d{}", "docs/d{}", "punctuation"),
        ("{{00ab-1234-{}}}", "00ab1234{}", "punctuation"),
    ],
)
def test_common_prefix_or_suffix(label: str, other: str, affix: str) -> None:
    asked = [Asked(f"q{n}", [label.format(n)], ["x", other.format(n)]) for n in range(3)]
    (note,) = notes_of(*asked)
    assert note.startswith(f"Ids that are equal but for {affix}: 3 of 3 labels")
    assert notes_of(asked[0]) == []  # one such id may be another passage
    others = [Asked(f"o{n}", ["?" * (n + 3)], ["!"]) for n in range(4)]
    assert len(notes_of(*asked, *others[:3])) == 1  # half of the labels that are missing
    assert notes_of(*asked, *others) == []


def test_chunks_of_documents_have_suffixes_with_numbers() -> None:
    asked = [Asked(f"q{n}", [f"d{n}"], [f"d{n}_{n + 3}", f"d{n}_{n}"]) for n in range(4)]
    (note,) = notes_of(*asked)
    assert note.startswith("Ids that are equal but for the suffix '_0': 4 of 4 labels")
    chunks = [Asked(f"q{n}", [f"d{n}.md#1"], [f"d{n}.md#0"]) for n in range(4)]
    assert notes_of(*chunks) == []  # others of the same document
    # other files of the same name are other passages
    others = [Asked(f"q{n}", [f"{n}/index.md"], [f"{n + 1}/index.md"]) for n in range(4)]
    assert notes_of(*others) == []


def test_id_of_another_type_is_named() -> None:
    asked = Asked("q", ["1", "2"], ["1", 2])  # type: ignore[list-item]
    assert "equal but for type: 1 of 2 labels, such as '2' for the id 2" in notes_of(asked)[0]


def test_numbers_inside_of_numbers_are_no_prefix() -> None:
    assert notes_of(*(Asked(f"q{n}", [f"{n}"], [f"1{n}", f"{n}2"]) for n in range(5))) == []


def test_question_misspelled_among_thousands_is_found_where_many_are() -> None:
    asked = [Asked(f"q{n}", [f"D{n}" if n % 10 else f"d{n}"], [f"d{n}"]) for n in range(2000)]
    (note,) = notes_of(*asked)
    assert note.startswith("Ids that are equal but for case: 1,800 of 2,000 labels")


def test_all_doors_say_that_ids_are_spelled_otherwise(tmp_path: Path) -> None:
    # one of three is a file name from macOS; without that recall is 1
    names = [f"\xdcbersicht {n}.pdf" if n % 3 == 0 else f"report {n}.pdf" for n in range(12)]
    dataset = RetrievalDataset(
        {f"q{n}": f"file {n}" for n in range(12)}, {f"q{n}": [name] for n, name in enumerate(names)}
    )
    run = {f"q{n}": [normalize("NFD", name)] for n, name in enumerate(names)}
    start = "Ids that are equal but for Unicode form: 4 of 12 labels"
    results = evaluate(lambda query: run[f"q{query.split()[-1]}"], dataset, ["recall@1"])
    scores = score_rankings(dataset.relevance, run, ["recall@1"])
    for reported in (results, scores):
        assert first_lines(reported)[0].startswith(start)
    right = score_rankings(dataset.relevance, dict(dataset.relevance), ["recall@1"])
    compared = compare({"old": right, "new": scores}, "old")
    assert first_lines(compared)[0].startswith(f"new: {start}")
    compared.to_html(tmp_path / "page.html")
    assert start in (tmp_path / "page.html").read_text(encoding="utf-8")
    table = {"retrieved_ids": [*run.values()], "expected_ids": [[name] for name in names]}
    with pytest.warns(LabelWarning, match=start):
        score_table(pl.DataFrame(table), "recall@1")
    assert Scores.from_json(scores.to_json()).label_notes == scores.label_notes


def test_ids_by_another_unicode_form_are_seen_apart() -> None:
    dataset = RetrievalDataset({"q": "?"}, {"q": ["caf\xe9"]})
    with pytest.warns(LabelWarning, match=r"'caf\\xe9', a retrieved id 'cafe\\u0301'"):
        evaluate(lambda _: ["cafe\u0301"], dataset, ["mrr"])
    assert seen_apart("文件A", "文件\uff21") == ("'文件A'", r"'文件\uff21'")
    assert seen_apart("a\u0323\u0307", "a\u0307\u0323") == (r"'a\u0323\u0307'", r"'a\u0307\u0323'")


THINGS = ("kiln", "wheel", "glaze")
OLD = {str(n): f"All about the {thing}, and what to know." for n, thing in enumerate(THINGS)}
NEW = {str((n + 1) % 3): OLD[str(n)] for n in range(3)}
OTHER_TEXTS = "Ids of other texts: 3 of 3 retrieved ids have another text in"
DATASET = RetrievalDataset({n: n for n in OLD}, {n: [n] for n in OLD}, OLD)
BARE = RetrievalDataset(DATASET.queries, DATASET.relevance)


class TestIdsThatWereUsedAgain:
    def retrieved(self, item: str) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(id_=item, text=NEW[item]), score=1)]

    @pytest.mark.parametrize(("shift", "score"), [(1, 0.0), (0, 1.0)])
    def test_first_line_names_ids_of_other_texts(self, shift: int, score: float) -> None:
        def retrieve(query: str) -> list[NodeWithScore]:
            return self.retrieved(str((int(query) + shift) % 3))

        results = evaluate(retrieve, DATASET, ["hit_rate@1"])
        assert results.scores.means["hit_rate@1"] == score
        assert first_lines(results)[0].startswith(f"{OTHER_TEXTS} the dataset. ")
        results = evaluate(lambda n: [*self.retrieved(n), *retrieve(n)], DATASET, ["hit_rate@1"])
        assert ("rank 2, under another id" in str(results.worst("hit_rate@1"))) == (shift == 1)

    def test_first_line_names_ids_of_other_texts_without_a_corpus(self, tmp_path: Path) -> None:
        def evaluated(texts: Mapping[str, str], item: str = "") -> Any:
            def retrieve(n: str) -> list[NodeWithScore]:
                return [NodeWithScore(node=TextNode(id_=item or n, text=texts[n]), score=1)]

            dataset = RetrievalDataset({n: n for n in OLD}, {n: [item or n] for n in OLD})
            return evaluate(retrieve, dataset, ["hit_rate@1"])

        old, new = evaluated(OLD), evaluated(NEW)
        old.to_json(tmp_path / "old.json")
        line = first_lines(compare({"old": old, "new": new}, "old"))[0]
        assert line.startswith(f"new: {OTHER_TEXTS} old. ")
        for before, name in ((old, "the baseline"), (tmp_path / "old.json", "old.json")):
            report = check_rules(new, "hit_rate@1 >= baseline", baseline=before).report()
            assert report.decision[-1].text.startswith(f"{OTHER_TEXTS} {name}. ")
        # the id of a document has several texts
        documents = {"old": evaluated(OLD, "d"), "new": evaluated(NEW, "d")}
        assert OTHER_TEXTS not in " ".join(first_lines(compare(documents, "old")))

    def test_texts_of_labels_are_known_texts(self) -> None:
        texts = {n: [OLD[n]] for n in OLD}
        dataset = RetrievalDataset({n: n for n in OLD}, {n: [n] for n in OLD}, expected_texts=texts)
        results = evaluate(self.retrieved, dataset, ["hit_rate@1"])
        for scores in (results.scores, score_rankings(dataset, results.run, ["hit_rate@1"])):
            assert scores.label_notes[0].startswith("Ids of other texts: 3 of 3 retrieved ids")

    def test_part_of_the_text_or_more_of_it_is_the_same(self) -> None:
        stock = Stock(ids={"a"}, texts={"a": "The kiln fires at 1240 degrees."})
        for text in ("Kilns\n\nThe kiln fires at 1240 degrees.", "the  KILN fires", ""):
            assert notes_of(Asked("q", ["a"], ["a"], [text]), stock=stock) == []


def test_first_line_counts_labels_under_new_ids() -> None:
    def retriever(moved: str) -> Callable[[str], list[NodeWithScore]]:
        def retrieve(query: str) -> list[NodeWithScore]:
            item = f"n-{query}" if query in moved else query
            node = TextNode(id_=item, text=f"{OLD[query]} And more.")
            return [NodeWithScore(node=node, score=1)]

        return retrieve

    old, new = (evaluate(retriever(moved), DATASET, ["mrr"]) for moved in ("", "1"))
    said = (
        "1 of 3 labels came under other ids and count as misses, such as '1' of question '1', "
        "which came as 'n-1': match by text (matcher='text', "
        "stored runs with match_run()), or move the labels (rag-metrics labels move)."
    )
    assert first_lines(new)[0] == said
    assert f"new: {said}" in first_lines(compare({"old": old, "new": new}, "old"))
    old, new = (evaluate(retriever(moved), BARE, ["mrr"]) for moved in ("", "02"))
    said = "Not a valid score: 2 of 3 labels came under other ids"
    compared = compare({"old": old, "new": new}, "old")
    assert first_lines(compared)[0].startswith(f"new: {said}")
    assert compared["new", "mrr"].outcome == "can't tell"
    assert first_lines(score_rankings(DATASET, new.run, ["mrr"]))[0].startswith(said)


def test_blank_text_or_part_of_a_word_came_under_no_other_id() -> None:
    for text in ("Yes", " ", "?"):
        stock = Stock(texts={"a": text})
        assert notes_of(Asked("q", ["a"], ["n"], ["Yesterday ? we met"]), stock=stock) == []


def test_passages_that_match_without_being_the_same() -> None:
    def revenue(year: int) -> str:
        return f"In fiscal year {year} the revenue of the northern region was 3.1 million, net."

    def retrieve(query: str) -> list[NodeWithScore]:
        text = revenue(2019 if query == "then?" else 2022)
        return [NodeWithScore(node=TextNode(id_=query, text=text), score=1)]

    dataset = RetrievalDataset(
        {"q1": "then?", "q2": "now?"},
        expected_texts={"q1": [revenue(2022)], "q2": [revenue(2022).upper()]},
    )
    results = evaluate(retrieve, dataset, ["hit_rate@1"], matcher="text")
    assert results.scores.means["hit_rate@1"] == 1.0
    assert first_lines(results)[0].startswith(
        "Credited without being the text of a label: 1 of 2 passages; the lowest likeness is 89 %"
    )
    matched = match_run(results.run, dataset, "text")
    stored = score_rankings(matched.relevance, matched.run, ["hit_rate@1"])
    assert first_lines(results)[0] == first_lines(stored)[0]


@pytest.mark.parametrize(
    ("label", "text", "said"),
    [
        ("abcdefghij" * 5, "abcdefghij abcdefghij abcdefghij klm", "the lowest likeness is 99 %"),
        ("Version 1.2 ends in 2024.", "Version 12 ends in 2024.", "Credited without being"),
        ("Fired at 1240 degrees, by two.", "Fired at 1240 degrees. Glazes melt.", "missed: 1."),
    ],
)
def test_what_is_like_a_label_without_being_it(label: str, text: str, said: str) -> None:
    dataset = RetrievalDataset({"q": "?"}, expected_texts={"q": [label]})
    run = Run({"q": Ranking(["n"], texts=[text])})
    assert said in "".join(match_run(run, dataset, "text").run.label_notes)


class TestOtherQuestionsOrLabels:
    def scores(self, dataset: RetrievalDataset) -> Scores:
        return score_rankings(dataset, {f"q{n}": [f"n{n}"] for n in range(10)}, ["mrr"])

    @pytest.mark.parametrize("stored", [False, True])
    def test_compare_refuses_them(self, stored: bool) -> None:
        reworded = RetrievalDataset({**TEN.queries, "q3": "other?"}, TEN.relevance)
        relabelled = RetrievalDataset(TEN.queries, {**TEN.relevance, "q4": ["n4", "n5"]})
        cases = {
            r"Other questions in new than in old: 1 with another text \(q3\)": reworded,
            r"Other questions in new than in old: 1 with other labels \(q4\)": relabelled,
        }
        for message, dataset in cases.items():
            new = self.scores(dataset)
            if stored:
                new = Scores.from_json(new.to_json())
            with pytest.raises(InvalidInput, match=message):
                compare({"old": self.scores(TEN), "new": new}, "old")

    def test_weights_of_facets_are_labels(self) -> None:
        facets = {"a": ["n1"], "b": ["n2"]}
        labels = [{"q": Relevance(facets=facets, weights={"a": weight})} for weight in (1, 2)]
        old, new = (score_rankings(given, {"q": ["n1"]}, ["facet_recall"]) for given in labels)
        with pytest.raises(InvalidInput, match="1 with other labels"):
            compare({"old": old, "new": new}, "old")

    def test_order_makes_no_difference(self) -> None:
        relabelled = RetrievalDataset(TEN.queries, {**TEN.relevance, "q4": {"x": 0, "n4": 1}})
        shuffled = RetrievalDataset(TEN.queries, {**TEN.relevance, "q4": {"n4": 1, "x": 0}})
        compare({"old": self.scores(relabelled), "new": self.scores(shuffled)}, "old")


@pytest.mark.parametrize(("n", "is_said"), [(20, False), (18, True), (10, True), (0, True)])
def test_questions_that_only_one_side_has(n: int, is_said: bool) -> None:
    labels = {f"q{number}": ["a"] for number in range(20)}
    run = {f"q{number + 20 - n}": ["a"] for number in range(20)}
    notes = score_rankings(labels, run, ["mrr"]).label_notes
    assert any(f"{n} of 20 judged questions have a ranking" in note for note in notes) == is_said


def test_grades_below_min_grade_are_counted() -> None:
    # of q1 one of two counts, though another one does; ndcg takes both
    scores = score_rankings({"q1": {"a": 0.9, "b": 1.0}}, {"q1": ["a"]}, ["recall@1", "ndcg@1"])
    assert scores.means["recall@1"] == 0
    assert scores.means["ndcg@1"] == 0.9
    dataset = RetrievalDataset({"q1": "?"}, {"q1": {"a": 0.9, "b": 1.0}})
    evaluated = evaluate(lambda _: ["a"], dataset, ["recall@1", "ndcg@1"]).scores
    assert evaluated.label_notes == scores.label_notes
    assert evaluated.means == scores.means
    assert scores.label_notes == (
        "Below min_grade=1: 1 of 2 labels with a positive grade, which metrics of that min_grade "
        "don't count as relevant",
    )
    # no passage is relevant from grade 1 on: a false positive
    scores = score_rankings({"q": {"a": 0.5}}, {"q": ["a"]}, ["accuracy(corpus_size=9)"])
    assert scores.label_notes[0].startswith("Below min_grade=1: 1 of 1 labels")
    # a threshold that somebody chose is no surprise, but is said
    chosen = score_rankings({"q1": {"a": 1, "b": 2}}, {"q1": ["a"]}, ["recall(min_grade=2)"])
    assert chosen.label_notes == ()
    assert "Below min_grade=2: 1 of 2 labels" in chosen.notes[0]


class TestOrder:
    @pytest.mark.parametrize("ending", ["run", "csv", "jsonl"])
    def test_scores_that_rise_with_the_rank(self, tmp_path: Path, ending: str) -> None:
        path = tmp_path / f"l2.{ending}"
        path.write_text(
            {
                "run": "q1 Q0 d1 1 0.1 t\nq1 Q0 d2 2 0.9 t\n",
                "csv": "query_id,doc_id,rank,score\nq1,d1,1,0.1\nq1,d2,2,0.9\n",
                "jsonl": '{"query_id": "q1", "retrieved_ids": ["d1", "d2"], "scores": [0.1, 0.9]}',
            }[ending]
        )
        scores = score_rankings({"q1": ["d1"]}, read_run(path), ["mrr"])
        # trec_eval orders by score, wherever the rank says otherwise
        assert scores.means["mrr"] == (0.5 if ending == "run" else 1.0)
        assert any("scores rise" in note for note in scores.label_notes)

    def test_rows_that_are_ordered_by_score_are_turned_round(self) -> None:
        rows = [{"query_id": "q1", "doc_id": f"d{n}", "score": n / 4} for n in range(4)]
        (note,) = score_rankings({"q1": ["d0"]}, read_run(rows), ["mrr"]).label_notes
        assert note.startswith("Turned round: in 1 of 1 rankings of the file scores rise")
        falling = [{"query_id": "q2", "doc_id": f"d{n}", "score": -n} for n in range(4)]
        assert not read_run([*rows, *falling]).notes  # where half of them rise
        # of rows in no order nothing is said
        assert not read_run([rows[1], rows[3], rows[0], rows[2]]).notes

    def test_questions_that_look_like_comments(self, tmp_path: Path) -> None:
        path = tmp_path / "hash.run"
        path.write_text("# by bm25\n#1 Q0 d1 1 0.9 t\nq2 Q0 d1 1 0.9 t\n")
        (note,) = score_rankings({"q2": ["d1"]}, read_run(path), ["mrr"]).label_notes
        assert note == "Taken for comments: 1 lines of six columns that begin with #, such as '#1'"

    def test_equal_scores(self, tmp_path: Path) -> None:
        path = tmp_path / "ties.run"
        path.write_text("q1 Q0 d1 1 0 t\nq1 Q0 d2 2 0 t\n")
        (note,) = score_rankings({"q1": ["d1"]}, read_run(path), ["mrr"]).notes
        assert note == "all scores are equal in 1 of 1 rankings, and say nothing about the order"

    @pytest.mark.parametrize(("scores", "is_said"), [((0.1, 0.9), True), ((1, 1), False)])
    def test_a_live_retriever_s_order_is_its_own(
        self, scores: tuple[float, ...], is_said: bool
    ) -> None:
        nodes = [NodeWithScore(node=TextNode(id_=f"n{n}"), score=n) for n in scores]
        notes = evaluate(lambda _: nodes, TEN, ["mrr"]).scores.notes
        assert any("scores rise with the rank" in note for note in notes) == is_said
        assert not any("all scores are equal" in note for note in notes)


def test_cutoff_beyond_all_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match="k must be"):
        score_rankings({"q": ["a"]}, {"q": ["a"]}, ["ndcg@99999999999999999999"])
    assert score_rankings({"q": ["a"]}, {"q": ["a"]}, ["ndcg@1000000000000"]).means


def test_empty_id_is_no_id() -> None:
    for labels, ranking, place in (
        (["a", ""], ["a"], "expected_ids of question 'q'"),
        (["a"], ["a", ""], "retrieved_ids, rank 2 of question 'q'"),
    ):
        with pytest.raises(InvalidInput, match=f"{place}: expected an id"):
            score_rankings({"p": None, "q": labels, "r": ["a"]}, {"q": ranking}, ["mrr"])
        row = {"query_id": ["q"], "retrieved_ids": [ranking], "expected_ids": [labels]}
        with pytest.raises(InvalidInput, match=f"{place}: expected an id"):
            score_table(pl.DataFrame(row), ["mrr"])
    for judged, ranked in (({"": ["a"], "q": ["a"]}, {"q": ["a"]}), ({"q": ["a"]}, {"": ["a"]})):
        with pytest.raises(InvalidInput, match="texts that aren't empty, got ''"):
            score_rankings(judged, ranked, ["mrr"])
    with pytest.raises(InvalidInput, match="a text that isn't empty"):
        Run({"q": ["a", ""]})
    nodes = [NodeWithScore(node=TextNode(id_="", text="a"))]
    dataset = RetrievalDataset({"q": "?"}, {"q": ["a"]})
    for answer, place in ((nodes, "node_id of a retrieved node"), (["a", ""], "ids")):
        with pytest.raises(InvalidInput, match=f"{place} of question 'q': expected an id"):
            evaluate(lambda _, items=answer: items, dataset, ["mrr"])


def test_metric_that_needs_no_labels_is_counted_by_its_own_questions() -> None:
    scores = Scores(["q1"], {"llm": [1.0]}, excluded={"q1": "unjudged"})
    assert scores.due("llm") == {"q1"}


def test_first_metric_decides_in_the_report_of_one_system() -> None:
    scores = score_rankings({"q": ["a"]}, {"q": ["b", "a"]}, ["mrr", "ndcg@10"])
    assert scores.report().decision[0].text.startswith("mrr is 0.50")


ALIKE = "write them alike on both sides"
BY_TEXT = "match by text with match_run()"


def notes_of_doors(
    tmp_path: Path, expected: Mapping[str, Any], retrieved: Mapping[str, Any]
) -> list[Sequence[str]]:
    """What score_rankings and score_table say of the same rankings."""
    write_run(retrieved, tmp_path / "run.jsonl")
    notes = [score_rankings(expected, retrieved, "mrr").notes]
    rows = [*{**expected, **retrieved}]
    columns = {"query_id": rows, "retrieved_ids": [*map(retrieved.get, rows)]}
    columns["expected_ids"] = [*map(expected.get, rows)]
    with pytest.warns(LabelWarning) as warned:
        score_table(pl.DataFrame(columns), "mrr")
    notes.append(tuple(str(warning.message) for warning in warned))
    return notes


def test_questions_that_are_called_otherwise() -> None:
    expected = {f"q{n}": [f"d{n}"] for n in range(20)}
    retrieved = {f"Q{n}": [f"d{n}"] for n in range(20)}
    (note,) = score_rankings(expected, retrieved, "mrr").notes
    assert note.startswith(
        "0 of 20 judged questions have a ranking, beside those of 20 others: a judged question "
        "is 'q0', a ranked one 'Q0'."
    )
    assert ALIKE in note


def test_next_to_nothing_is_in_common(tmp_path: Path) -> None:
    questions = {f"q{n:03}": [f"d{n}"] for n in range(200)}
    others = {query_id.upper(): ids for query_id, ids in questions.items()}
    notes = notes_of_doors(tmp_path, questions, {**others, "q000": ["d0"]})
    assert all(ALIKE in of_door[0] and of_door[0].startswith("1 of 200") for of_door in notes)
    passages = {query_id: [f"{item}0"] for query_id, (item,) in questions.items()}
    notes = notes_of_doors(tmp_path, questions, {**passages, "q000": ["d0"]})
    assert all(BY_TEXT in of_door[0] and of_door[0].startswith("1 of 200") for of_door in notes)


@pytest.mark.parametrize(
    ("expected", "retrieved"),
    [
        ({"q1": ["d1"], "q2": ["d2"]}, {"q1": ["x"], "q2": ["d2"]}),
        ({"q1": ["d1"]}, {"q1": ["d1"], "q3": ["x"]}),  # a pool judged in part
        ({"q1": ["d1"]}, {"q1": []}),
        ({"q1": {"d1": 0}}, {"q1": ["x"]}),
        ({"q1": ["d1"]}, {}),
        ({"q1": None}, {"q1": ["x"]}),
        ({f"q{n}": [f"d{n}"] for n in range(1000)}, {f"q{n}": [f"d{n}"] for n in range(5)}),
    ],
)
def test_ids_that_meet_or_a_side_without_any_say_nothing(expected: Any, retrieved: Any) -> None:
    notes = score_rankings(expected, retrieved, "mrr").notes
    assert not [note for note in notes if ALIKE in note or BY_TEXT in note]


def test_first_line_names_ids_counted_from_another_number() -> None:
    # each question gets its neighbour's passage: all ids are known, and none is right
    dataset = RetrievalDataset({n: n for n in "0123"}, {n: [n] for n in "0123"})
    scores = evaluate(lambda query: [str((int(query) + 1) % 4)], dataset, ["mrr"]).scores
    assert scores.label_notes[0].startswith("0 of 4 labels were retrieved for their questions: ")


def test_evaluation_says_it_once() -> None:
    dataset = {"queries": {"q1": "x?"}, "corpus": {}, "relevant_docs": {"q1": ["d1"]}}
    notes = evaluate(lambda _: ["x"], dataset, ["mrr"]).scores.notes
    assert len([note for note in notes if "'d1'" in note]) == 1


def test_texts_that_are_the_only_labels_are_to_be_matched() -> None:
    dataset = RetrievalDataset({"q": "x?"}, expected_texts={"q": ["The kiln fires."]})
    run = Run({"q": Ranking(["a"], texts=["The kiln fires."])})
    with pytest.raises(InvalidInput, match=r"match_run\(run, dataset, 'text'\)"):
        score_rankings(dataset, run, "mrr")
    matched = match_run(run, dataset, "text")
    assert score_rankings(matched.relevance, matched.run, "mrr").means == {"mrr": 1.0}
    with pytest.warns(LabelWarning, match="matcher='text'"):
        results = evaluate(lambda _: ["a"], dataset, ["mrr"])
    assert "matcher='text'" in first_lines(results)[0]
