"""Assigning nuggets: an LLM says which passages support which nuggets."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from llama_index.core.storage.kvstore.types import BaseKVStore

from llama_index_rag_metrics.labels.nuggets.creating import check_depth, failed_warning
from llama_index_rag_metrics.labels.nuggets.nugget_asking import Asking, conduct
from llama_index_rag_metrics.labels.nuggets.nugget_passages import PassagesLike, texts_of
from llama_index_rag_metrics.labels.nuggets.nugget_set import Nuggets
from llama_index_rag_metrics.rankings.nugget import Nugget, Support
from llama_index_rag_metrics.report.numbers import counted
from llama_index_rag_metrics.runtime.amounts import WORKERS
from llama_index_rag_metrics.runtime.cache import Cache
from llama_index_rag_metrics.runtime.callers import warn_caller
from llama_index_rag_metrics.runtime.errors import InvalidInput
from llama_index_rag_metrics.runtime.settings_models import model_of_settings
from llama_index_rag_metrics.runtime.sync import synchronous

if TYPE_CHECKING:
    from llama_index.core.llms import LLM


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

    By AutoNuggetizer's rubric (Pradeep et al., arXiv:2411.09607 and 2504.15068): a passage, and up
    to 10 nuggets at once. Of a passage that doesn't fit into the LLM's context window every piece
    is read, and the best counts. `aassign_nuggets` is awaited; `assign_nuggets` isn't.

    Args:
        nuggets: the nuggets. What they say of a passage already stays, and isn't asked for.
        passages: a run with texts, several, or query id to {passage id: text}. To compare systems,
            give the runs of all of them.
        llm: any LLM of LlamaIndex, called in threads; by default `Settings.llm`.
        corpus: document id to text, for runs without texts.
        depth: how many of each ranking are looked at, best first; None: all.
        cache, show_progress: as of `create_nuggets`.
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
    check_depth(depth)
    if llm is None:
        llm = model_of_settings("llm", "assign_nuggets")
    asking = Asking(llm, Cache.of(cache), "assign_nuggets")
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
        supports = await asking.supports(question, facts, text)
        by_job[job] = dict(zip(facts, supports, strict=True))

    jobs = [(query_id, passage) for query_id in texts for passage in texts[query_id]]
    failed = await conduct(
        jobs,
        assign,
        workers=workers,
        description="assigning nuggets",
        show_progress=show_progress,
    )
    errors = _by_question(failed)
    if errors:
        warn_caller(failed_warning("questions have passages that failed", errors, len(texts)))
    # the errors of creation stay: such a question has no nuggets, and none of its passages failed
    kept = {query_id: e for query_id, e in nuggets.errors.items() if not nuggets.get(query_id)}
    return replace(
        nuggets,
        by_query=_with_supports(nuggets, jobs, by_job),
        errors={**kept, **errors},
        usage=nuggets.usage + asking.tally.usage,
    )


assign_nuggets = synchronous(aassign_nuggets)


def _with_supports(
    nuggets: Nuggets,
    jobs: Iterable[tuple[str, str]],
    by_job: Mapping[tuple[str, str], Mapping[str, Support]],
) -> dict[str, list[Nugget]]:
    """The nuggets with what was found, passages in the order in which they were given."""
    supports: dict[tuple[str, str], dict[str, Support]] = defaultdict(dict)
    for query_id, passage in jobs:
        for fact, support in by_job.get((query_id, passage), {}).items():
            supports[query_id, fact][passage] = support
    return {
        query_id: [
            replace(nugget, supports={**nugget.supports, **supports[query_id, nugget.text]})
            for nugget in of_query
        ]
        for query_id, of_query in nuggets.items()
    }


def _by_question(failed: Mapping[tuple[str, str], str]) -> dict[str, str]:
    """Of each question, how many passages failed, and how the first did."""
    passages: dict[str, list[str]] = defaultdict(list)
    for (query_id, passage), error in failed.items():
        passages[query_id].append(f"{passage!r}: {error}")
    return {
        query_id: f"{counted(len(errors), 'passage', 'passages')} failed; {errors[0]}"
        for query_id, errors in passages.items()
    }
