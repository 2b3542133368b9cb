"""An agent that searches several times: every call scored, and the wasted ones named.

The language model follows a script, so that this runs anywhere; give your own LLM instead.
"""

from llama_index.core.agent.workflow import ReActAgent
from llama_index.core.llms import ChatMessage, ChatResponse, CustomLLM, LLMMetadata
from llama_index.core.tools import RetrieverTool

from llama_index_rag_metrics import RetrievalDataset, evaluate
from llama_index_rag_metrics.demo.retrievers import bm25

corpus = {
    "kiln": "The kiln fires at 1240 degrees for stoneware.",
    "keys": "Two people with a key each must be present to open the kiln.",
    "glaze": "Glazes are mixed on Tuesdays, in the room behind the wheels.",
    "rooms": "The room behind the wheels is locked after six.",
}
dataset = RetrievalDataset(
    queries={
        "q1": "Who opens the kiln, and how hot does it get?",
        "q2": "Until when can I mix glazes?",
    },
    relevance={"q1": ["keys", "kiln"], "q2": ["glaze", "rooms"]},
    corpus=corpus,
)
SEARCHES = {
    "q1": ["people with a key", "kiln degrees", "kiln degrees"],
    "q2": ["glazes mixed", "room locked after"],
}


class ScriptedLLM(CustomLLM):
    """Searches what the script says, one search a turn, and then answers."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    def chat(self, messages: list[ChatMessage], **kwargs: object) -> ChatResponse:
        asked = [query_id for query_id, text in dataset.queries.items() if text in str(messages)]
        n_done = sum(str(message.content).startswith("Observation:") for message in messages)
        searches = SEARCHES[asked[0]]
        if n_done < len(searches):
            step = f'Action: search\nAction Input: {{"input": "{searches[n_done]}"}}'
        else:
            step = "Answer: as the documents say."
        return ChatResponse(message=ChatMessage(role="assistant", content=f"Thought: …\n{step}"))

    async def achat(self, messages: list[ChatMessage], **kwargs: object) -> ChatResponse:
        return self.chat(messages)

    def complete(self, *_: object, **__: object) -> None: ...

    def stream_complete(self, *_: object, **__: object) -> None: ...


search = RetrieverTool.from_defaults(
    bm25(dataset.to_nodes(), 1), name="search", description="searches the handbook"
)
agent = ReActAgent(tools=[search], llm=ScriptedLLM(), streaming=False)

results = evaluate(agent, dataset, ["recall", "complete"], timeout=60, name="agent")
print(results)
for call in results.calls:
    verdict = f"{call.new_relevant} new" if call.new_relevant else "wasted"
    query = " ".join(call.query.split())
    print(f"{call.query_id} call {call.number}: {query!r}: {verdict}")
