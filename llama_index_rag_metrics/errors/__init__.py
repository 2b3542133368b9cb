"""The exceptions of this package: every message is worded here, from the caller's facts."""

from llama_index_rag_metrics.errors.base import (
    RagMetricsError,
)
from llama_index_rag_metrics.errors.files import (
    FieldsUnread,
    FileFormatError,
    FormatTooNarrow,
    LinesSkipped,
    MistakenFile,
    UnknownFormat,
)
from llama_index_rag_metrics.errors.gate import (
    BaselineMismatch,
    GateFailed,
    InconclusiveGate,
)
from llama_index_rag_metrics.errors.input import (
    IdTypeMismatch,
    InvalidInput,
    MissingExtra,
    NoRetrieval,
    NothingRelevant,
    NotJudged,
    UnusableAnswer,
)
from llama_index_rag_metrics.errors.journals import (
    CacheWarning,
    JournalBusy,
    JournalDamaged,
    JournalMismatch,
    RowsDropped,
)
from llama_index_rag_metrics.errors.names import (
    DuplicateMetric,
    UnknownMetric,
    UnknownName,
    UnknownParameter,
)
from llama_index_rag_metrics.errors.runs import (
    CaptureDamaged,
    EveryQueryFailed,
    LabelWarning,
    QueryTimeout,
    RetrievalFailed,
    StrayError,
    TooManyCalls,
    WorkersFailed,
    WorkerWarning,
)
from llama_index_rag_metrics.errors.services import (
    BadAnswer,
    GenerationFailed,
    MissingKey,
    NoQuestions,
    ScorerFailed,
)

__all__ = [
    "BadAnswer",
    "BaselineMismatch",
    "CacheWarning",
    "CaptureDamaged",
    "DuplicateMetric",
    "EveryQueryFailed",
    "FieldsUnread",
    "FileFormatError",
    "FormatTooNarrow",
    "GateFailed",
    "GenerationFailed",
    "IdTypeMismatch",
    "InconclusiveGate",
    "InvalidInput",
    "JournalBusy",
    "JournalDamaged",
    "JournalMismatch",
    "LabelWarning",
    "LinesSkipped",
    "MissingExtra",
    "MissingKey",
    "MistakenFile",
    "NoQuestions",
    "NoRetrieval",
    "NotJudged",
    "NothingRelevant",
    "QueryTimeout",
    "RagMetricsError",
    "RetrievalFailed",
    "RowsDropped",
    "ScorerFailed",
    "StrayError",
    "TooManyCalls",
    "UnknownFormat",
    "UnknownMetric",
    "UnknownName",
    "UnknownParameter",
    "UnusableAnswer",
    "WorkerWarning",
    "WorkersFailed",
]
