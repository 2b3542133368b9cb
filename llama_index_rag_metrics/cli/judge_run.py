"""What `judge` does with a run: grades by an LLM."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llama_index.core.llms import LLM

from llama_index_rag_metrics.cache import Cache
from llama_index_rag_metrics.cli.retriever_factories import broken, imported
from llama_index_rag_metrics.dataset import RetrievalDataset
from llama_index_rag_metrics.errors import InvalidInput, LabelWarning
from llama_index_rag_metrics.relevance import Relevance
from llama_index_rag_metrics.run import Ranking, Run
from llama_index_rag_metrics.text_metrics import LLMRelevancy

if TYPE_CHECKING:
    from collections.abc import Mapping


def llm_of(spec: str) -> LLM:
    """The LLM that a factory makes.

    Raises:
        InvalidInput: there is no such factory, or it makes something else.
    """
    found: Any = imported(spec, "--llm")
    if not isinstance(found, LLM) and callable(found):
        try:
            found = found()
        except Exception as error:
            raise broken("--llm", spec, "a factory that works without arguments", error) from error
    if not isinstance(found, LLM):
        raise InvalidInput("--llm", type(found).__name__, "what makes an LLM of LlamaIndex")
    return found


def judged(
    run: Run,
    llm: LLM,
    dataset: RetrievalDataset | None,
    *,
    depth: int,
    cache: Path | None,
    workers: int,
) -> tuple[dict[str, Relevance], list[str]]:
    """The LLM's grades of what was retrieved, and what is to be said of those it didn't give.

    Args:
        run: what was retrieved.
        llm: grades.
        dataset: the questions, and the documents of a run without texts; None: the run has both.
        depth: how many of each ranking are graded.
        cache: the file that keeps grades.
        workers: how many queries are graded at once.

    Raises:
        InvalidInput: the questions or the texts aren't known, or nothing could be graded.
    """
    queries = run.queries if dataset is None else {**run.queries, **dataset.queries}
    known = {query_id: text for query_id, text in queries.items() if query_id in run}
    if not known:
        remedy = "--questions DATASET has their texts."
        raise InvalidInput("RUN", run.name, "rankings of questions whose texts are known", remedy)
    corpus = {} if dataset is None else dataset.corpus
    with_texts = run.replaced({one: _with_texts(one, run[one], corpus) for one in known})
    judge = LLMRelevancy.model_validate({"llm": llm, "k": depth})
    judge = judge.prepare(dataset or RetrievalDataset(queries=known), Cache.of(cache))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LabelWarning)
        grades = judge.grade(known, with_texts, workers=workers)
    said = [str(one.message) for one in caught if issubclass(one.category, LabelWarning)]
    if not grades:
        raise InvalidInput("--llm", llm.metadata.model_name, "an LLM that grades", " ".join(said))
    if unknown := len(run) - len(known):
        said.append(f"the texts of {unknown} of {len(run)} queries aren't known; they are left out")
    return grades, said


def _with_texts(query_id: str, ranking: Ranking, corpus: Mapping[str, str]) -> Ranking:
    if ranking.texts is not None or not ranking.ids:
        return ranking
    if lacking := [one for one in ranking.ids if one not in corpus]:
        remedy = "--questions DATASET with a corpus has them."
        where = f"texts of what was retrieved for {query_id!r}"
        raise InvalidInput(where, lacking[0], "the text of every document", remedy)
    return replace(ranking, texts=[corpus[one] for one in ranking.ids])
