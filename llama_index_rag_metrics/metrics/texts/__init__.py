"""The metrics of texts: how well what was retrieved fits the query, without any labels."""

from . import cohere_rerank, llm_relevancy, rerank, semantic, text_metric
from .cohere_rerank import *
from .llm_relevancy import *
from .rerank import *
from .semantic import *
from .text_metric import *

__all__: list[str] = []
__all__ += cohere_rerank.__all__
__all__ += llm_relevancy.__all__
__all__ += rerank.__all__
__all__ += semantic.__all__
__all__ += text_metric.__all__
