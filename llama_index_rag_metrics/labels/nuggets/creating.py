"""Creating nuggets: an LLM reads passages or answers, and lists what a good answer states."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from llama_index.core.storage.kvstore.types import BaseKVStore

from llama_index_rag_metrics.evaluation.asking.run_options import check_count
from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.labels.nuggets.nugget_asking import Asking, conduct
from llama_index_rag_metrics.labels.nuggets.nugget_passages import (
    PassagesLike,
    Texts,
    corpus_of,
    labelled_texts,
    texts_of,
)
from llama_index_rag_metrics.labels.nuggets.nugget_set import Nuggets
from llama_index_rag_metrics.labels.nuggets.prompts import MOST_KEPT
from llama_index_rag_metrics.rankings.nugget import Nugget, vital_first
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.runtime.amounts import WORKERS
from llama_index_rag_metrics.runtime.cache import Cache
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import BadAnswer, InvalidInput, LabelWarning
from llama_index_rag_metrics.runtime.settings_models import model_of_settings
from llama_index_rag_metrics.runtime.sync import synchronous
from llama_index_rag_metrics.runtime.wording import shorten

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

    By the steps of AutoNuggetizer (TREC 2024 RAG track: Pradeep et al., arXiv:2411.09607 and
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
    dataset = _dataset(questions)
    queries, sources = dataset.queries, _sources(dataset, passages, answers, depth)
    if llm is None:
        llm = model_of_settings("llm", "create_nuggets")
    asking = Asking(llm, Cache.of(cache), "create_nuggets")
    created: dict[str, Sequence[Nugget]] = {}

    async def create(query_id: str) -> None:
        created[query_id] = await _created(asking, queries[query_id], sources[query_id], most)

    errors = dict.fromkeys(queries.keys() - sources.keys(), "there is no passage to read")
    errors |= await conduct(
        list(sources),
        create,
        workers=workers,
        description="creating nuggets",
        show_progress=show_progress,
    )
    in_order = {query_id: errors[query_id] for query_id in queries if query_id in errors}
    if in_order:
        warn_caller(failed_warning("questions have no nuggets", in_order, len(queries)))
    by_query = {query_id: created.get(query_id, ()) for query_id in queries}
    return Nuggets(by_query, queries, in_order, asking.tally.usage)


create_nuggets = synchronous(acreate_nuggets)


def failed_warning(what: str, errors: Mapping[str, str], n: int) -> LabelWarning:
    """What is said of questions that failed."""
    query_id, error = next(iter(errors.items()))
    return LabelWarning(f"{len(errors)} of {n} {what}; {query_id!r}: {error}")


async def _created(
    asking: Asking, question: str, texts: Mapping[str, str], most: int
) -> list[Nugget]:
    facts = await asking.facts(question, texts)
    if not facts:
        read = counted(len(texts), "passage", "passages")
        raise BadAnswer("create_nuggets", f"no fact in {read} that the answer needs")
    importances = await asking.importances(question, facts)
    return vital_first(map(Nugget, facts, importances))[:most]


def _dataset(questions: RetrievalDataset | Mapping[str, str]) -> RetrievalDataset:
    if isinstance(questions, Mapping) and all(isinstance(text, str) for text in questions.values()):
        return RetrievalDataset(questions)
    return RetrievalDataset.of(questions)


def _sources(
    dataset: RetrievalDataset,
    passages: PassagesLike | None,
    answers: Mapping[str, str] | str | None,
    depth: int | None,
) -> Texts:
    """What is read for each question: the answer first."""
    check_depth(depth)
    read: dict[str, dict[str, str]] = {}
    known = _answers(dataset, answers)
    for query_id in dataset.queries:
        if known.get(query_id, "").strip():
            read[query_id] = {_ANSWER: known[query_id]}
    if passages is not None:
        query_ids = list(dataset.queries)
        texts: Texts = texts_of(passages, query_ids, depth, corpus_of(dataset))
    else:
        texts = labelled_texts(dataset) if answers is None else {}
    for query_id, of_query in texts.items():
        read.setdefault(query_id, {}).update(of_query)
    if not any(read.values()):
        remedy = "Give passages=..., answers=..., or a dataset with labels and their texts."
        asked = shorten(list(dataset.queries)[:3])
        raise InvalidInput("questions", asked, "something to read", remedy)
    return {query_id: of_query for query_id, of_query in read.items() if of_query}


def _answers(
    dataset: RetrievalDataset, answers: Mapping[str, str] | str | None
) -> Mapping[str, str]:
    if not isinstance(answers, str):
        return answers or {}
    known = {
        query_id: str(fields[answers])
        for query_id, fields in dataset.metadata.items()
        if fields.get(answers) is not None
    }
    if not known:
        keys = sorted({key for fields in dataset.metadata.values() for key in fields})
        remedy = f"It has {keys[:8]}." if keys else "It has no metadata."
        raise InvalidInput("answers", answers, "a key of the dataset's metadata", remedy)
    return known


def check_depth(depth: object) -> None:
    """Whether this says how many of a ranking are read.

    Raises:
        InvalidInput: it doesn't.
    """
    if depth is not None:
        check_count("depth", depth, "items of each ranking")
