"""Nuggets by an LLM: what a good answer states, and which passages support it."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from llama_index.core.storage.kvstore.types import BaseKVStore

from llama_index_rag_metrics.evaluation.asking.query_runner import FailedQueries
from llama_index_rag_metrics.evaluation.asking.run_options import check_count
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.labels import grouped
from llama_index_rag_metrics.labels.nugget_llm import MOST_KEPT, NuggetLLM
from llama_index_rag_metrics.labels.nuggets import (
    Nuggets,
    PassagesLike,
    Texts,
    corpus_of,
    labelled_texts,
    texts_of,
)
from llama_index_rag_metrics.rankings.relevance import Nugget, Support, vital_first
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.runtime.amounts import WORKERS
from llama_index_rag_metrics.runtime.cache.fetching import Cache
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import BadAnswer, InvalidInput, LabelWarning
from llama_index_rag_metrics.runtime.masking import describe_error, shorten
from llama_index_rag_metrics.runtime.progress import progress
from llama_index_rag_metrics.runtime.retries import http_status
from llama_index_rag_metrics.runtime.sync import each, synchronous

if TYPE_CHECKING:
    from llama_index.core.llms import LLM


_ANSWER = "reference answer"


async def acreate_nuggets(
    questions: RetrievalDataset | Mapping[str, str],
    llm: LLM | None = None,
    *,
    passages: PassagesLike | None = None,
    answers: Mapping[str, str] | str | None = None,
    depth: int | None = 20,
    most: int = MOST_KEPT,
    cache: Cache | BaseKVStore | str | os.PathLike[str] | None = None,
    workers: int = WORKERS,
    show_progress: bool = False,
) -> Nuggets:
    """Let an LLM list what a good answer to each question states, vital or okay.

    The steps are AutoNuggetizer's (TREC 2024 RAG track: Pradeep et al., arXiv:2411.09607 and
    2504.15068): the LLM reads up to 10 passages at once and updates a list of at most 30 facts,
    then labels them, 10 at once; vital ones come first, and 20 are kept. `acreate_nuggets` is
    awaited; `create_nuggets` isn't.

    Args:
        questions: a dataset, or query id to question.
        llm: any LLM of LlamaIndex, called in threads; by default `Settings.llm`.
        passages: what is read: a run with texts, several, or query id to {passage id: text}. By
            default, where there are no answers: what the dataset says is relevant.
        answers: query id to a reference answer, or the key of the dataset's metadata that has it.
        depth: how many of each ranking are read, best first; None: all.
        most: how many nuggets of a question are kept.
        cache: keeps what the LLM answered, each answer at once, so that none is paid for twice and
            an interrupted call can be made again: a path, or a key-value store of LlamaIndex.
        workers: how many questions are worked on at once.
        show_progress: whether to show a progress bar.

    Returns:
        Nuggets without supports; `assign_nuggets` finds these. Questions that failed are in its
        `errors`, and a warning names the first.

    Raises:
        InvalidInput: an argument can't be used, or there is nothing to read.

    Examples:
        >>> import asyncio
        >>> from llama_index.core.llms import CompletionResponse, MockLLM
        >>> class Reader(MockLLM):
        ...     def complete(self, prompt, formatted=False, **options):
        ...         labels = '{"labels": ["vital"]}'
        ...         facts = '{"facts": ["Enceladus has jets of water vapour"]}'
        ...         return CompletionResponse(text=labels if "1 facts" in prompt else facts)
        >>> texts = {"q1": {"d1": "Jets of water vapour rise from Enceladus."}}
        >>> asyncio.run(acreate_nuggets({"q1": "Which moon?"}, Reader(), passages=texts))["q1"]
        [Nugget('Enceladus has jets of water vapour', 'vital', {})]
    """
    check_count("most", most, "nuggets")
    if isinstance(questions, Mapping) and all(isinstance(text, str) for text in questions.values()):
        questions = RetrievalDataset(questions)
    dataset = RetrievalDataset.of(questions)
    queries, sources = dataset.queries, _sources(dataset, passages, answers, depth)
    nugget_llm = NuggetLLM(llm, cache, "create_nuggets")
    created: dict[str, Sequence[Nugget]] = {}

    async def create(query_id: str) -> None:
        question, texts = queries[query_id], sources[query_id]
        facts = await nugget_llm.facts(question, texts)
        if not facts:
            read = counted(len(texts), "passage", "passages")
            raise BadAnswer("create_nuggets", f"no fact in {read} that the answer needs")
        importances = await nugget_llm.importances(question, facts)
        created[query_id] = vital_first(map(Nugget, facts, importances))[:most]

    failed = dict.fromkeys(queries.keys() - sources.keys(), "there is no passage to read")
    failed |= await _run_jobs("creating nuggets", list(sources), create, workers, show_progress)
    errors = {query_id: failed[query_id] for query_id in queries if query_id in failed}
    _warn_of(errors, len(queries), "questions have no nuggets")
    by_query = {query_id: created.get(query_id, ()) for query_id in queries}
    return Nuggets(by_query, queries, errors, nugget_llm.tally.usage)


create_nuggets = synchronous(acreate_nuggets)


def _sources(
    dataset: RetrievalDataset,
    passages: PassagesLike | None,
    answers: Mapping[str, str] | str | None,
    depth: int | None,
) -> Texts:
    query_ids, known = list(dataset.queries), {}
    if not isinstance(answers, str):
        known = dict(answers or {})
    else:
        values = {key: about.get(answers) for key, about in dataset.metadata.items()}
        known = {key: str(value) for key, value in values.items() if value is not None}
        if not known:
            keys = sorted({key for fields in dataset.metadata.values() for key in fields})
            remedy = f"It has {keys[:8]}." if keys else "It has no metadata."
            raise InvalidInput("answers", answers, "a key of the dataset's metadata", remedy)
    texts = texts_of({} if passages is None else passages, query_ids, depth, corpus_of(dataset))
    if passages is None and answers is None:
        texts = labelled_texts(dataset)
    sources: dict[str, dict[str, str]] = {}
    for query_id in query_ids:
        answer = {_ANSWER: known[query_id]} if known.get(query_id, "").strip() else {}
        if read := {**answer, **texts.get(query_id, {})}:
            sources[query_id] = read
    if not sources:
        remedy = "Give passages=..., answers=..., or a dataset with labels and their texts."
        raise InvalidInput("questions", shorten(query_ids[:3]), "something to read", remedy)
    return sources


async def aassign_nuggets(
    nuggets: Nuggets,
    passages: PassagesLike,
    llm: LLM | None = None,
    *,
    corpus: Mapping[str, str] | None = None,
    depth: int | None = 10,
    cache: Cache | BaseKVStore | str | os.PathLike[str] | None = None,
    workers: int = WORKERS,
    show_progress: bool = False,
) -> Nuggets:
    """Let an LLM say which passages support which nuggets: in full, in part, or not.

    The rubric is AutoNuggetizer's (Pradeep et al., arXiv:2411.09607 and 2504.15068): a passage, and
    up to 10 nuggets at once. A passage that doesn't fit into the LLM's context window is read in
    pieces, and the best counts. `aassign_nuggets` is awaited; `assign_nuggets` isn't.

    Args:
        nuggets: the nuggets. Supports that they have already stay, and aren't asked for.
        passages: a run with texts, several, or query id to {passage id: text}. To compare systems,
            give the runs of all of them.
        corpus: document id to text, for runs without texts.
        llm, depth, cache, show_progress: as of `create_nuggets`.
        workers: how many passages are looked at once.

    Returns:
        The nuggets with their supports. A passage on which the LLM failed isn't in them; its
        question's `errors` say so, and a warning does.

    Raises:
        InvalidInput: an argument can't be used, the text of an item isn't known, or there is no
            passage for any of the questions.

    Examples:
        >>> import asyncio
        >>> from llama_index.core.llms import CompletionResponse, MockLLM
        >>> from llama_index_rag_metrics import Nugget, Nuggets
        >>> class Reader(MockLLM):
        ...     def complete(self, prompt, formatted=False, **options):
        ...         return CompletionResponse(text='{"labels": ["full"]}')
        >>> nuggets = Nuggets({"q1": [Nugget("jets of water vapour")]}, {"q1": "Which moon?"})
        >>> texts = {"q1": {"d1": "Jets of water vapour rise from Enceladus."}}
        >>> asyncio.run(aassign_nuggets(nuggets, texts, Reader())).relevance()
        {'q1': Relevance.facets({'jets of water vapour': ['d1']})}
    """
    if not isinstance(nuggets, Nuggets):
        raise InvalidInput("nuggets", nuggets, "Nuggets, as create_nuggets gives them")
    nugget_llm = NuggetLLM(llm, cache, "assign_nuggets")
    with_nuggets = [query_id for query_id, of_query in nuggets.items() if of_query]
    texts = texts_of(passages, with_nuggets, depth, corpus)
    if with_nuggets and not any(texts.values()):
        expected = f"passages of questions with nuggets, such as {with_nuggets[0]!r}"
        raise InvalidInput("passages", list(passages)[:3], expected)
    by_job: dict[tuple[str, str], dict[str, Support]] = {}

    async def assign(job: tuple[str, str]) -> None:
        query_id, passage = job
        facts = [nugget.text for nugget in nuggets[query_id] if passage not in nugget.supports]
        if not facts:
            return
        text, question = texts[query_id][passage], nuggets.queries.get(query_id, "")
        supports = await nugget_llm.supports(question, facts, text)
        by_job[job] = dict(zip(facts, supports, strict=True))

    jobs = [(query_id, passage) for query_id in texts for passage in texts[query_id]]
    failed = await _run_jobs("assigning nuggets", jobs, assign, workers, show_progress)
    by_query = grouped((key, f"{passage!r}: {error}") for (key, passage), error in failed.items())
    errors = {
        query_id: f"{counted(len(lines), 'passage', 'passages')} failed; {lines[0]}"
        for query_id, lines in by_query.items()
    }
    _warn_of(errors, len(texts), "questions have passages that failed")
    # the errors of creation stay: such a question has no nuggets, and none of its passages failed
    kept = {query_id: e for query_id, e in nuggets.errors.items() if not nuggets.get(query_id)}
    found: defaultdict[tuple[str, str], dict[str, Support]] = defaultdict(dict)
    for query_id, passage in jobs:
        for fact, support in by_job.get((query_id, passage), {}).items():
            found[query_id, fact][passage] = support
    usage = nuggets.usage + nugget_llm.tally.usage
    return replace(nuggets.with_supports(found), errors={**kept, **errors}, usage=usage)


assign_nuggets = synchronous(aassign_nuggets)


def _warn_of(errors: Mapping[str, str], n: int, what: str) -> None:
    if errors:
        query_id, error = next(iter(errors.items()))
        warn_caller(LabelWarning(f"{len(errors):,} of {n:,} {what}; {query_id!r}: {error}"))


Job = TypeVar("Job")

_LLM = "the LLM"


async def _run_jobs(
    description: str,
    jobs: Sequence[Job],
    do: Callable[[Job], Awaitable[None]],
    workers: int,
    show_progress: bool,
) -> dict[Job, str]:
    """Do all jobs, some at once, until the key is refused; errors by job, secrets masked."""
    check_count("workers", workers, "workers")
    errors: dict[Job, str] = {}
    limit = FailedQueries(None, len(jobs))
    with progress(description, len(jobs), 0, show_progress) as advance:

        async def attempt(job: Job) -> None:
            if (reason := limit.unasked(_LLM)) is not None:
                errors[job] = reason
            else:
                try:
                    await do(job)
                    limit.succeeded(_LLM)
                except Exception as error:  # noqa: BLE001 - recorded by job
                    errors[job] = describe_error(error)
                    limit.record(_LLM, errors[job], http_status(error))
            advance(failed=job in errors)

        await each(jobs, attempt, min(workers, len(jobs)))
    return errors
