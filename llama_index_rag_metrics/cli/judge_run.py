"""What `judge` does with a run: grades by an LLM."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llama_index.core.llms import LLM

from llama_index_rag_metrics import (
    Cache,
    LLMRelevancy,
    Ranking,
    Relevance,
    RetrievalDataset,
    Run,
    Scores,
    score_rankings,
)
from llama_index_rag_metrics.cli.commands import say
from llama_index_rag_metrics.cli.retriever_factories import broken, imported
from llama_index_rag_metrics.cli.run_files import TraceQuestions
from llama_index_rag_metrics.decisions.draws import drawn_along
from llama_index_rag_metrics.files.lines import to_json, write_lines
from llama_index_rag_metrics.labels.nuggets import texts_of
from llama_index_rag_metrics.report.numbers import counted, questions
from llama_index_rag_metrics.runtime.cache.fetching import Usage
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning
from llama_index_rag_metrics.scores.scoring.batches import Metrics


def llm_of(spec: str) -> LLM:
    """The LLM that a factory makes."""
    llm: Any = imported(spec, "--llm")
    if not isinstance(llm, LLM) and callable(llm):
        try:
            llm = llm()
        except (Exception, SystemExit) as error:
            raise broken("--llm", spec, "a factory that works without arguments", error) from error
    if not isinstance(llm, LLM):
        raise InvalidInput("--llm", type(llm).__name__, "what makes an LLM of LlamaIndex")
    return llm


@dataclass(frozen=True)
class Judging:
    """A run with texts, its questions, and the LLM that grades it."""

    judge: LLMRelevancy
    queries: Mapping[str, str]
    run: Run
    n_unknown: int

    @classmethod
    def of(
        cls, run: Run, judge: LLMRelevancy, dataset: RetrievalDataset | None, cache: Path | None
    ) -> Judging:
        """What there is to grade; a dataset has the questions, and documents the run lacks."""
        queries = run.queries if dataset is None else {**run.queries, **dataset.queries}
        known = {query_id: text for query_id, text in queries.items() if query_id in run}
        if not known:
            remedy = "--questions DATASET has their texts."
            expected = "rankings of questions whose texts are known"
            raise InvalidInput("RUN", run.name, expected, remedy)
        corpus = {} if dataset is None else dataset.corpus
        rankings = {query_id: _with_texts(query_id, run[query_id], corpus) for query_id in known}
        prepared = judge.prepare(dataset or RetrievalDataset(queries=known), Cache.of(cache))
        return cls(prepared, known, run.replaced(rankings), len(run) - len(known))

    def grades(self, workers: int) -> tuple[dict[str, Relevance], list[str]]:
        """The LLM's grades, and remarks on those it didn't give."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", LabelWarning)
            grades = self.judge.grade(self.queries, self.run, workers=workers)
        remarks: list[str] = []
        for warning in caught:
            is_remark = issubclass(warning.category, LabelWarning)
            (remarks.append if is_remark else say)(str(warning.message))
        if not grades:
            model = self.judge.chosen_llm().metadata.model_name
            raise InvalidInput("--llm", model, "an LLM that grades", " ".join(remarks))
        if self.n_unknown:
            extent = f"{self.n_unknown} of {self.n_unknown + len(self.queries)} questions"
            remarks.append(f"the texts of {extent} aren't known; they are left out")
        return grades, remarks

    def scores(self, grades: Mapping[str, Relevance], metrics: Metrics) -> Scores:
        """What the LLM's grades make of the rankings."""
        rankings = self.run.select(grades)
        scores = score_rankings(grades, rankings, metrics, max_retrieved=self.judge.k)
        usage = self.judge.usage or Usage()
        kept = f" and {usage.cached:,} from the cache" if usage.cached else ""
        judgements = counted(usage.fresh, "judgement", "judgements")
        requests = counted(usage.requests, "request", "requests")
        spent = f"{judgements}{kept}, {requests}{usage.tokens}"
        return scores.replace(notes=[*scores.notes, spent], queries=self.queries)

    def write_pool(
        self, path: Path, graded: Collection[str], scores: Scores, n: int, seed: int
    ) -> str:
        """Write what was graded of n questions drawn at random, for people; say what it is.

        A question without a score has nothing relevant: 0.
        """
        metric = scores.metric_names[0]
        by_query = scores.by_query(metric)
        drawn = drawn_along({key: by_query.get(key, 0.0) for key in graded}, n, seed)
        rows = [
            {"query_id": query_id, "query": self.queries[query_id], "doc_id": item, "text": text}
            for query_id, texts in texts_of(self.run, drawn, self.judge.k).items()
            for item, text in texts.items()
        ]
        write_lines(path, map(to_json, rows))
        what = f"{counted(len(rows), 'passage', 'passages')} of"
        if len(drawn) == len(graded):
            return f"{path}: {what} all {questions(len(drawn))}, for people to label"
        return (
            f"{path}: {what} {questions(len(drawn))} drawn at random from {len(graded):,}, "
            f"spread over their {metric}, for people to label"
        )


def by_labelled_ids(run: Run, asked: TraceQuestions, people: Mapping[str, Relevance] | None) -> Run:
    """The run, in which what is recognised as a labelled passage goes by that one's id."""
    labels = asked.relevance if people is None else people
    matched = asked.matched(run, {key: list(judged.grades) for key, judged in labels.items()})
    if matched is None:
        return run
    rankings = {}
    for query_id, ranking in run.items():
        labelled = set(matched.passages.get(query_id, ()))
        names: dict[str, str] = {}
        for item, ids in zip(ranking.ids, matched.stands_for.get(query_id, ()), strict=False):
            free = [label for label in ids if label in labelled - {*names.values()}]
            names.setdefault(item, free[0] if free else item)
        calls = ranking.calls and [
            replace(call, ids=[names.get(item, item) for item in call.ids])
            for call in ranking.calls
        ]
        ids = [names.get(item, item) for item in ranking.ids]
        rankings[query_id] = replace(ranking, ids=ids, calls=calls)
    return run.replaced(rankings)


def _with_texts(query_id: str, ranking: Ranking, corpus: Mapping[str, str]) -> Ranking:
    if ranking.texts is not None or not ranking.ids:
        return ranking
    if lacking := [item for item in ranking.ids if item not in corpus]:
        remedy = "--questions DATASET with a corpus has them."
        where = f"texts of what was retrieved for {query_id!r}"
        raise InvalidInput(where, lacking[0], "the text of every document", remedy)
    return replace(ranking, texts=[corpus[item] for item in ranking.ids])
