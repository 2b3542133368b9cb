"""A worker: an actor that builds its retriever once, and asks what it is told to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from llama_index.core.evaluation.retrieval.metrics_base import BaseRetrievalMetric
from llama_index.core.postprocessor.types import BaseNodePostprocessor

from llama_index_rag_metrics.distributed.ray.sharing import SharedStore, unpack
from llama_index_rag_metrics.evaluation.asking.query import Asked, Computed, Question, prepare
from llama_index_rag_metrics.evaluation.identity import RetrieverIdentity, identify_retriever
from llama_index_rag_metrics.evaluation.retrieved.places import Places
from llama_index_rag_metrics.evaluation.retrievers.pipeline import Pipeline
from llama_index_rag_metrics.evaluation.sessions.session_asker import asker_of
from llama_index_rag_metrics.evaluation.source import Source, as_retriever
from llama_index_rag_metrics.rankings.fusion import Combine
from llama_index_rag_metrics.rankings.matching import MatchOn
from llama_index_rag_metrics.rankings.run import Ranking
from llama_index_rag_metrics.rankings.tokens import TokenCounter
from llama_index_rag_metrics.runtime.cache import Cache
from llama_index_rag_metrics.runtime.masking import describe_error
from llama_index_rag_metrics.runtime.sync import in_thread

if TYPE_CHECKING:
    from llama_index_rag_metrics.files.retrieval_dataset import RetrievalDataset


@dataclass(frozen=True)
class Job:
    """What every worker needs to know.

    Attributes:
        metrics: metrics of single queries, with their texts.
        dataset: what the metrics may read; None where there are none.
        labels: every expected id.
        with_nodes: whether the driver needs the nodes themselves.
    """

    retriever_factory: Callable[[], Source]
    similarity_top_k: int
    postprocessors: Sequence[BaseNodePostprocessor]
    match_on: MatchOn
    metrics: Sequence[BaseRetrievalMetric]
    dataset: RetrievalDataset | None
    labels: frozenset[str]
    concurrency: int
    use_async: bool | None
    mode: str
    timeout: float | None = None
    counter: TokenCounter | None = None
    places: Places | None = None
    with_nodes: bool = False
    combine: Combine | None = None
    max_calls: int | None = None


class Built(NamedTuple):
    """The identity of a retriever that a worker built, or the error."""

    retriever_id: str | RetrieverIdentity = ""
    error: str | None = None


class Worker:
    """Asks queries on a cluster, as `LocalAsker` does in one process.

    `owner` is the worker's name at the store's keeper.
    """

    def __init__(self, keeper: Any, limiter_actor: Any, owner: str) -> None:
        self._store = SharedStore(keeper, owner)
        self._limiter_actor = limiter_actor

    async def build(self, packed: bytes) -> Built:
        """Build the retriever of a packed job; an error is part of the answer."""
        try:
            job: Job = unpack(packed, self._limiter_actor)
            source = await in_thread(job.retriever_factory)
            retriever = as_retriever(source, job.similarity_top_k)
            metrics = list(job.metrics)
            if job.dataset is not None:
                metrics = await prepare(metrics, job.dataset, Cache(self._store))
            self._asker = asker_of(
                Pipeline(
                    retriever, job.postprocessors, job.concurrency, job.use_async, job.timeout
                ),
                job.match_on,
                metrics,
                job.mode,
                job.counter,
                job.places,
                combine=job.combine,
                max_calls=job.max_calls,
            )
        except Exception as error:  # noqa: BLE001 - any factory, any error: the driver decides
            return Built(error=describe_error(error))
        self._labels, self._with_nodes = job.labels, job.with_nodes
        return Built(self._asker.identity(identify_retriever(retriever)))

    async def ask(self, query: str) -> Asked:
        """Retrieve for a query; of the names only those that are labels are returned."""
        asked = await self._asker.ask(query)
        names = {name: None for name in asked.names if name[1] in self._labels}
        return Asked(
            asked.ranking,
            list(names),
            refusal=asked.refusal,
            notes=[*asked.notes, *self._asker.uncounted_notes],
            status=asked.status,
            nodes=asked.nodes if self._with_nodes else (),
        )

    async def compute(
        self, question: Question, ranking: Ranking, without: Collection[str] = ()
    ) -> Computed:
        """Compute the metrics of a ranking, `without` some."""
        return await self._asker.compute(question, ranking, without)
