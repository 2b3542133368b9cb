"""Files that can't be read, or can't hold what is to be written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llama_index_rag_metrics.errors.base import RagMetricsError
from llama_index_rag_metrics.wording import shorten


class FileFormatError(RagMetricsError, ValueError):
    """A file can't be read: the message says where, and what was expected there."""

    def __init__(self, path: str, line: int | None, expected: str, value: object = "") -> None:
        super().__init__(path, line, expected, value)
        self.path = path
        self.line = line

    def __str__(self) -> str:
        path, line, expected, value = self.args
        place = path if line is None else f"{path}, line {line}"
        is_known = not isinstance(value, str) or value  # an array has no truth, nor equals a text
        return f"{place}: expected {expected}{f', got {shorten(value)}' if is_known else ''}."


class UnknownFormat(RagMetricsError, ValueError):
    """A path or an object isn't a dataset, a run or qrels in any supported form."""

    def __init__(
        self, what: str, reason: str, understood: Sequence[str], kind: str = "a dataset"
    ) -> None:
        super().__init__(what, reason, tuple(understood), kind)

    def __str__(self) -> str:
        what, reason, understood, kind = self.args
        return f"{what} isn't {kind}: {reason}. Supported forms: {'; '.join(understood)}."


class MistakenFile(FileFormatError, UnknownFormat):
    """A file can't be read as what it was given for, and is of another kind: says what reads it."""

    def __init__(self, path: str, wanted: str, kind: str, readers: str) -> None:
        RagMetricsError.__init__(self, path, wanted, kind, readers)
        self.path = path
        self.line = None

    def __str__(self) -> str:
        path, wanted, kind, readers = self.args
        return f"{path} isn't {wanted} but {kind}. {readers}"


class FormatTooNarrow(RagMetricsError, ValueError):
    """A format can't hold everything that is to be written, and part would silently be lost."""

    def __init__(
        self,
        form: str,
        losses: Iterable[str],
        *,
        lossy: bool = True,
        wide: str = "save('….json')",
    ) -> None:
        super().__init__(form, tuple(losses))
        self.lossy = lossy
        self.wide = wide

    def __str__(self) -> str:
        form, losses = self.args
        way_out = "lossy=True leaves out what doesn't fit; " if self.lossy else ""
        return f"{form} can't hold {'; '.join(losses)}. {way_out}{self.wide} holds everything."


class FieldsUnread(UserWarning):
    """Fields or columns aren't read, though their names are nearly those of others that are."""


class LinesSkipped(UserWarning):
    """Lines that couldn't be read were left out, as `on_error="skip"` asked."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__(tuple(errors))

    def __str__(self) -> str:
        (errors,) = self.args
        more = f" And {len(errors) - 3:,} more; `.skipped` lists all." if len(errors) > 3 else ""
        return f"{len(errors):,} skipped: {' '.join(errors[:3])}{more}"
