"""Workflows that search, for tests.

Their annotations are types, not text: those of a step that are text are beyond the oldest core.
"""

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step


class SearchOnce(Workflow):
    """Retrieves for the question, and answers."""

    def __init__(self, retriever: BaseRetriever) -> None:
        super().__init__()
        self.retriever = retriever

    @step
    async def search(self, ev: StartEvent) -> StopEvent:
        await self.retriever.aretrieve(ev.query)
        return StopEvent(result="an answer")


class Searching(Workflow):
    """A workflow whose class can be asked for ids alone, too."""

    @step
    async def answer(self, ev: StartEvent) -> StopEvent:
        return StopEvent(result=str(ev))

    def look(self, question: str) -> list[str]:
        return [question]

    async def search(self, question: str) -> list[str]:
        return [question]
