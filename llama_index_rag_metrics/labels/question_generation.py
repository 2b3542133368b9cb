"""Questions written by an LLM about every node, as a dataset."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import NAMESPACE_OID, uuid5

from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.prompts import PromptTemplate
from llama_index.core.schema import BaseNode, MetadataMode
from pydantic import BaseModel, Field

from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset
from llama_index_rag_metrics.runtime.cache import Cache, cache_key
from llama_index_rag_metrics.runtime.containers import picked
from llama_index_rag_metrics.runtime.errors import InvalidInput, ScorerFailed, check_integer
from llama_index_rag_metrics.runtime.masking import describe_error, join_first, register_secrets_of
from llama_index_rag_metrics.runtime.models import ask_llm, model_of_settings, without_reasoning
from llama_index_rag_metrics.runtime.progress import ProgressBar
from llama_index_rag_metrics.runtime.retries import attempts, http_status
from llama_index_rag_metrics.runtime.sync import WORKERS, each, in_thread, synchronous

if TYPE_CHECKING:
    from llama_index.core.llms import LLM
    from llama_index.core.prompts import BasePromptTemplate

logger = logging.getLogger(__name__)

DEFAULT_PROMPT = """\
Here is a passage of a document:

<passage>
{context_str}
</passage>

Write {num_questions_per_chunk} different questions that this passage answers by itself. Let each
be about another part of it. Name what you ask about, so that someone who hasn't seen the passage
understands the question, and never mention "the passage" or "the text". Write in the language of
the passage. Put each question on a line of its own, end it with a question mark, and write nothing
else.
"""

_FIRST_PAUSE = 0.25  # seconds before the second attempt on a node, doubled for each further one
_NUMBER = re.compile(r"^[\s>#*_•–—-]*(?:[(（]?\d{1,3}[.)）、:：](?!\d)\s*)?[\s*_]*")
# "I'm sorry, I can't. Another one?", but not "What did Dr. Li say?" or "What is made of ink etc.?"
_SENTENCE_BEFORE = re.compile(r"[^\W\d_]{5}[.!]\s|(?<![\w'’])[a-z][\w'’]{2,}[.!]\s+[A-Z]|[。！]")
_FIRST_OF_LIST = re.compile(r"^\W*1\W", re.MULTILINE)
_NOTES = {
    "fewer": "{count:,} of {asked:,} nodes gave fewer than {wanted} questions",
    "refused": "{count:,} lines weren't taken as questions: {examples}",
    "beyond": "{count:,} questions beyond the {wanted} asked for: {examples}",
    "empty": "{count:,} of {nodes:,} nodes have no text, so nothing was asked about them",
    "failed": "{count:,} of {asked:,} nodes failed: {examples}",
}
_NO_QUESTION = (
    "no questions about {n} nodes with text: {notes}. A question is a line that ends in a question "
    "mark; a prompt of your own (qa_generate_prompt_tmpl) has to ask for that."
)


class Questions(BaseModel):
    """Questions that a passage answers by itself."""

    questions: list[str] = Field(description="The questions; none if the passage answers none.")


async def agenerate_question_context_pairs(
    nodes: Sequence[BaseNode],
    llm: LLM | None = None,
    qa_generate_prompt_tmpl: str | BasePromptTemplate = DEFAULT_PROMPT,
    num_questions_per_chunk: int = 2,
    retry_limit: int = 3,
    *,
    workers: int = WORKERS,
    show_progress: bool = False,
    cache: Cache | str | os.PathLike[str] | None = None,
) -> RetrievalDataset:
    """Let an LLM write questions about nodes, for a dataset in which each node answers its own.

    An LLM that calls functions returns a list (`structured_predict`), another one lines. A question
    is what ends in a question mark, without its number.

    Args:
        nodes: the nodes; their ids become the document ids of the dataset.
        llm: any LLM of LlamaIndex; by default `Settings.llm`.
        qa_generate_prompt_tmpl: the prompt, with {context_str} and {num_questions_per_chunk}.
        num_questions_per_chunk: how many questions to ask for, and to keep at most, for each node.
        retry_limit: how often a node is tried; one on which the LLM keeps failing is left out.
        workers: how many nodes are asked about at once.
        show_progress: show a progress bar on standard error.
        cache: a file that keeps every answer, or a `Cache`; what it has isn't asked again.

    Returns:
        A dataset with stable query ids; a question about several nodes has all of them as relevant.
        The notes count nodes without text, that failed or gave fewer questions, and what of the
        answers wasn't taken.

    Raises:
        InvalidInput: an argument can't be used.
        ScorerFailed: every node failed, or the answers hold no question at all.

    Examples:
        >>> from llama_index.core.llms import CompletionResponse, MockLLM
        >>> from llama_index.core.schema import TextNode
        >>> class Questioner(MockLLM):
        ...     def complete(self, prompt, formatted=False, **options):
        ...         return CompletionResponse(text="1. Which moon has geysers?")
        >>> nodes = [TextNode(id_="d1", text="Enceladus has geysers.")]
        >>> dataset = generate_question_context_pairs(nodes, Questioner())
        >>> list(dataset.queries.values()), list(dataset.relevance.values())
        (['Which moon has geysers?'], [Relevance(['d1'])])
    """
    check_integer("num_questions_per_chunk", num_questions_per_chunk)
    check_integer("retry_limit", retry_limit)
    check_integer("workers", workers)
    if llm is None:
        llm = model_of_settings("llm", "generate_question_context_pairs")
    if not isinstance(llm, BaseLLM):
        raise InvalidInput("llm", llm, "an LLM of LlamaIndex")
    corpus = _corpus(nodes)
    prompts: dict[str, str] = {}
    for node_id, text in corpus.items():
        if text.strip():
            prompts[node_id] = _prompt(qa_generate_prompt_tmpl, num_questions_per_chunk, text)
    answers: dict[str, str] = {}
    failures: dict[str, str] = {}
    model = f"{llm.class_name()} {llm.metadata.model_name}"
    retried = attempts(retry_limit, _FIRST_PAUSE, _may_pass)
    name, store = "generating questions", Cache.of(cache)
    with store, ProgressBar(desc=name, total=len(prompts), disable=not show_progress) as bar:

        async def attempt(node_id: str) -> None:
            prompt = prompts[node_id]

            async def ask(_: list[int]) -> list[str]:
                return [await retried(in_thread, _answer, llm, prompt)]

            try:
                key = cache_key("questions", model, text=prompt)
                answers[node_id] = (await store.fetch([key], ask))[0]
            except Exception as error:  # noqa: BLE001 - recorded by node
                failures[node_id] = describe_error(error)
            bar.update()

        await each(list(prompts), attempt, min(workers, len(prompts)))
    return _dataset(corpus, picked(answers, prompts), failures, num_questions_per_chunk)


generate_question_context_pairs = synchronous(agenerate_question_context_pairs)


def _may_pass(error: BaseException) -> bool:
    return http_status(error) not in (401, 403)


def _answer(llm: LLM, prompt: str) -> str:
    """Return the answer of an LLM; of one that calls functions its questions, a line each."""
    if llm.metadata.is_function_calling_model:
        register_secrets_of(llm)
        with suppress(ValueError, LookupError, TypeError, AttributeError):  # it called none
            template = PromptTemplate("{text}")
            questions = llm.structured_predict(Questions, template, text=prompt).questions
            return "\n".join(" ".join(question.split()) for question in questions)
    return ask_llm(llm, prompt)


def parse(answer: str) -> tuple[list[str], list[str]]:
    """Return the lines that are questions, once and without numbers; and others but headings."""
    questions: dict[str, str] = {}
    refused: list[str] = []
    for line in without_reasoning(answer).splitlines():
        bare = _NUMBER.sub("", line).rstrip(" \t*_")
        if not any(map(str.isalpha, line)):
            continue
        if bare.endswith(("?", "？", "؟")) and not _SENTENCE_BEFORE.search(bare):
            questions.setdefault(_normal_form(bare), bare)
        elif not bare.endswith((":", "：")):
            refused.append(line.strip())
    return list(questions.values()), refused


def _normal_form(question: str) -> str:
    words = " ".join(question.casefold().split())
    return words.rstrip("?？ ") or words


def _dataset(
    corpus: Mapping[str, str],
    answers: Mapping[str, str],
    failures: Mapping[str, str],
    n_wanted: int,
) -> RetrievalDataset:
    queries: dict[str, str] = {}
    labels: dict[str, list[str]] = {}
    id_of: dict[str, str] = {}
    lacking: dict[str, list[str]] = {name: [] for name in _NOTES}
    lacking["empty"] = [node_id for node_id, text in corpus.items() if not text.strip()]
    lacking["failed"] = [f"{node_id!r} ({error})" for node_id, error in failures.items()]
    for node_id, answer in answers.items():
        questions, refusals = parse(answer)
        is_alone = len(questions) == 1 and not _FIRST_OF_LIST.search(answer)
        if is_alone and n_wanted > 1 and refusals:  # the question may be part of a refusal
            questions, refusals = [], refusals + questions
        if len(questions) < n_wanted:
            lacking["fewer"].append(node_id)
        for name, lines in {"refused": refusals, "beyond": questions[n_wanted:]}.items():
            lacking[name] += [f"{node_id!r}: {line!r}" for line in lines]
        for question in questions[:n_wanted]:
            new_id = str(uuid5(NAMESPACE_OID, f"{node_id}\n{question}"))
            query_id = id_of.setdefault(_normal_form(question), new_id)
            queries.setdefault(query_id, question)
            labels.setdefault(query_id, []).append(node_id)
    n_asked = len(answers) + len(failures)
    notes = list(_notes(lacking, asked=n_asked, nodes=len(corpus), wanted=n_wanted))
    if not queries:
        reason = _NO_QUESTION.format(n=n_asked, notes="; ".join(notes))
        raise ScorerFailed("generate_question_context_pairs", reason)
    for note in notes:
        logger.warning("generate_question_context_pairs: %s", note)
    return RetrievalDataset(queries, labels, corpus, notes=notes)


def _notes(lacking: Mapping[str, Sequence[str]], **totals: int) -> Iterator[str]:
    for name, parts in lacking.items():
        if parts:
            yield _NOTES[name].format(count=len(parts), examples=join_first(parts), **totals)


def _corpus(nodes: Sequence[BaseNode]) -> dict[str, str]:
    are_nodes = isinstance(nodes, Sequence) and all(isinstance(node, BaseNode) for node in nodes)
    if not nodes or not are_nodes:
        remedy = "Of an index, index.docstore.docs or vector_store.get_nodes(None) has them."
        raise InvalidInput("nodes", nodes, "at least one node of LlamaIndex's, in a list", remedy)
    corpus: dict[str, str] = {}
    for node in nodes:
        text = node.get_content(metadata_mode=MetadataMode.NONE)
        if corpus.setdefault(node.node_id, text) != text:
            sentence = f"nodes have the id {node.node_id!r} twice, with different texts."
            raise InvalidInput("nodes", node.node_id, sentence=sentence)
    return corpus


def _prompt(template: str | BasePromptTemplate, number: int, text: str) -> str:
    expected = "a prompt with {context_str}, and no other braces but {num_questions_per_chunk}"
    try:
        prompt = template.format(context_str=text, num_questions_per_chunk=number)
    except (KeyError, IndexError, ValueError):
        prompt = ""
    if text not in prompt:
        raise InvalidInput("qa_generate_prompt_tmpl", template, expected)
    return prompt
