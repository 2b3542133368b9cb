"""How relevant an LLM finds what was retrieved; its grades can stand in for human ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, PrivateAttr

from llama_index_rag_metrics.metrics.texts.llm_judge import TextJudge
from llama_index_rag_metrics.metrics.texts.text_metric import (
    Aggregation,
    HasCorpus,
    TextMetric,
    TextScores,
    service,
)
from llama_index_rag_metrics.rankings.relevance import Relevance
from llama_index_rag_metrics.rankings.run import Ranking, Run
from llama_index_rag_metrics.runtime.amounts import WORKERS, check_integer
from llama_index_rag_metrics.runtime.cache.fetching import Cache, Tally, Usage
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import InvalidInput, LabelWarning
from llama_index_rag_metrics.runtime.masking import describe_error
from llama_index_rag_metrics.runtime.models import instance_of, model_of_settings
from llama_index_rag_metrics.runtime.retries import Refusal
from llama_index_rag_metrics.runtime.sync import each, in_thread, run_sync

if TYPE_CHECKING:
    from llama_index.core.llms import LLM
else:
    LLM = instance_of("llama_index.core.llms", "LLM")

__all__ = ["LLMRelevancy"]
_MOST_TEXTS = 50  # in one call: the more there are, the less each is looked at


class LLMRelevancy(TextMetric):
    """Relevance of the retrieved texts to the question as graded by an LLM, mean over the texts.

    Grades are whole numbers from 0 to 3, by UMBRELA's rubric: nothing to do with the query, on the
    subject, something of an answer, the exact answer (https://arxiv.org/abs/2406.06519). Nothing
    retrieved scores 0. Answers are understood as JSON, in UMBRELA's own form or as a plain number;
    one that isn't clearly a grade is refused and asked for once more, and then fails.

    Several texts of a query may go into one call, which is cheaper, and changes some grades. Those
    that an answer leaves out are graded alone. The cache keeps the grade of each text, apart from
    those of texts graded alone.

    Args:
        llm: an LLM of LlamaIndex, called in a thread; by default `Settings.llm`, as it is when it
            is first needed.
        texts_per_call: how many texts of a query are graded in one call, in random order; fewer
            where the LLM's context window ends.
        seed: of that order.
        label: tells the metrics of several LLMs apart; part of the name and of the cache's key.

    Raises:
        BadAnswer: the LLM gave no grade, twice.
        ScorerFailed: a text is too long for the LLM.

    Examples:
        >>> from llama_index.core.llms import MockLLM
        >>> judge = LLMRelevancy(llm=MockLLM(), agg="max", k=3)
        >>> judge.metric_name, judge.compute("who?", retrieved_texts=[]).score
        ('llm_relevancy(agg=max)@3', 0.0)
    """

    name = "llm_relevancy"
    bounds: ClassVar[tuple[float, float]] = (0.0, 3.0)
    agg: Aggregation = Field(default="mean", description="mean, max or median over the texts")
    llm: LLM | None = service("what grades the texts")
    texts_per_call: int = Field(
        default=1,
        ge=1,
        le=_MOST_TEXTS,
        strict=True,
        description="texts that are graded in one call",
    )
    seed: int = Field(default=0, strict=True, description="of the order of texts in a call")
    label: str = Field(default="", description="tells several LLMs apart")
    _refusal: Refusal | None = PrivateAttr(None)

    def prepare(self, dataset: HasCorpus, cache: Cache) -> LLMRelevancy:
        self.chosen_llm()
        return super().prepare(dataset, cache)

    def portable(self) -> LLMRelevancy:
        return self.model_copy(update={"llm": self.chosen_llm()})

    async def ascore(self, query: str, texts: Sequence[str]) -> TextScores:
        llm = await in_thread(self.chosen_llm)
        tally = Tally(Usage(self.label or llm.metadata.model_name))
        several = {"texts_per_call": self.texts_per_call, "seed": self.seed}
        by, refusal = self.metric_name, self._refusal
        judge = TextJudge(llm, self._cache, tally, asked_by=by, refusal=refusal, **several)
        with self._counting(tally):
            grades = await judge.grade(query, texts)  # all are kept before a failure is raised
            for error in grades:
                if isinstance(error, Exception):
                    raise error
            scores = [float(grade) for grade in grades if not isinstance(grade, Exception)]
            return TextScores(scores, tally.usage)

    async def agrade(
        self, queries: Mapping[str, str], run: Run, *, workers: int = WORKERS
    ) -> dict[str, Relevance]:
        """Relevance by the LLM's grades: then all metrics run on queries without labels.

        A query with a text that can't be graded is left out, and a warning says so. A service that
        refuses the key isn't asked again.

        Args:
            queries: query id to query.
            run: what was retrieved, with texts; the first k of each query are graded.
            workers: how many queries are graded at once.

        Raises:
            InvalidInput: there is no such number of workers.
        """
        check_integer("workers", workers)
        relevance: dict[str, Relevance] = {}
        errors: dict[str, Exception] = {}
        judge = self.model_copy()
        judge._usage, judge._refusal = None, Refusal()

        async def attempt(query_id: str) -> None:
            try:
                graded = await judge._graded(query_id, queries[query_id], run[query_id])
                relevance[query_id] = graded
            except Exception as error:  # noqa: BLE001 - recorded by query
                errors[query_id] = error

        try:
            await each([query_id for query_id in queries if query_id in run], attempt, workers)
        finally:
            self._count(judge.usage)
        if errors:
            query_id, error = next((key, errors[key]) for key in queries if key in errors)
            extent = f"{len(errors):,} of {len(queries):,} questions couldn't be graded"
            warn_caller(LabelWarning(f"{extent}; {query_id!r}: {describe_error(error)}"))
        return {query_id: relevance[query_id] for query_id in queries if query_id in relevance}

    def grade(
        self, queries: Mapping[str, str], run: Run, *, workers: int = WORKERS
    ) -> dict[str, Relevance]:
        """The synchronous twin of `agrade`; works in notebooks, too."""
        return run_sync(self.agrade(queries, run, workers=workers))

    async def _graded(self, query_id: str, query: str, ranking: Ranking) -> Relevance:
        if ranking.texts is None and ranking.ids:
            raise InvalidInput("run", query_id, "rankings with texts")
        result = await self.acompute(query, retrieved_texts=list(ranking.texts or ()))
        grades: dict[str, float] = {}
        for item, grade in zip(ranking.ids, result.metadata["scores"], strict=False):
            grades[item] = max(grade, grades.get(item, 0))
        return Relevance(grades)

    def chosen_llm(self) -> LLM:
        """The LLM that grades, as it is now; an error where there is none."""
        return self.llm or model_of_settings("llm", self.name)
