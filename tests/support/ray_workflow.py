"""A workflow for Ray's workers.

Its annotations are types, not text: those of a step that are text are beyond the oldest core.
"""

from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step

from support.ray_retrievers import Factory, Noting


class LooksTwice(Workflow):
    """Retrieves for the question `n`, and then for `n + 1`."""

    def __init__(self, factory: Factory) -> None:
        super().__init__()
        self.retriever = Noting(factory)

    @step
    async def look(self, ev: StartEvent) -> StopEvent:
        await self.retriever.aretrieve(ev.query)
        await self.retriever.aretrieve(f"what is {int(ev.query.split()[-1]) + 1}")
        return StopEvent(result="done")
