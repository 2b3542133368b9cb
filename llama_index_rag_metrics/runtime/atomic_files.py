"""Writing files, each whole or not at all, whoever else writes it at the same time; and JSON."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date, time
from hashlib import sha256
from pathlib import Path
from typing import Any

from .errors import InvalidInput

_SURROGATE = re.compile("[\ud800-\udfff]")


def short_hash(text: str, digits: int = 12) -> str:
    """The first hexadecimal digits of a text's hash, the same in every process."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


def jsonable(value: Any, *path: object, strict: bool = True) -> Any:
    """The value as JSON holds it, the rest as it is, or an error at `path`, if `strict`."""
    is_number = type(value) is float and math.isfinite(value)
    if is_number or value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, Mapping):
        members = {}
        for key, member in value.items():
            if strict and isinstance(key, tuple):
                raise _refusal(key, (*path, key))
            name = key if isinstance(key, tuple) else jsonable(key, *path, key, strict=strict)
            members[name] = jsonable(member, *path, key, strict=strict)
        return members
    import numpy as np  # the command's help does without

    if isinstance(value, np.ndarray):
        items = list(value) if value.ndim else value[()]
        return jsonable(items, *path, strict=strict)
    if isinstance(value, (list, tuple)):
        return [jsonable(member, *path, index, strict=strict) for index, member in enumerate(value)]
    plain = _plain(value)
    if strict and plain is value:
        raise _refusal(value, path)
    return plain


def _plain(value: Any) -> Any:
    import numpy as np

    if type(value).__name__ in ("NAType", "NaTType"):  # pandas', which may not be installed
        return None
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(value)
    if isinstance(value, (float, np.floating)) and not math.isinf(value):
        return None if math.isnan(value) else float(value)
    if isinstance(value, (np.bool_, np.integer)) and not isinstance(value, np.timedelta64):
        return value.item()
    return value


def _refusal(value: object, path: tuple[object, ...]) -> InvalidInput:
    argument, *keys = path or ("value",)
    location = str(argument) + "".join(map("[{!r}]".format, keys))
    remedy = "Make it a text or a number, or leave it out."
    return InvalidInput(location, value, "what JSON can hold", remedy)


def json_text(value: Any, *, ascii_only: bool = False, **options: Any) -> str:
    """JSON as legible as UTF-8 allows: half a surrogate pair is escaped."""
    text = json.dumps(value, ensure_ascii=ascii_only, **{"allow_nan": False} | options)
    return json_text(value, ascii_only=True, **options) if is_broken(text) else text


def is_broken(text: str) -> bool:
    """Whether the text has half a surrogate pair, which UTF-8 can't hold."""
    return _SURROGATE.search(text) is not None


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Where to write a file that takes the place of an older one once it is whole on disk."""
    if is_stream(path):
        with naming_errors(path, path):
            yield path
        return
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "expected a file, not a folder", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".partial-{secrets.token_hex(8)}{path.suffix}")
    try:
        with naming_errors(path, partial):
            mode = None
            if path.is_file() and not path.is_symlink():
                mode = stat.S_IMODE(path.stat().st_mode)
            # a new file, through no link that somebody may have laid there
            partial.touch(0o666 if mode is None else mode | stat.S_IWUSR, exist_ok=False)
            yield partial
            _to_disk(partial)
            if mode is not None:
                partial.chmod(mode)
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    with suppress(OSError):  # Windows, and some network disks, don't synchronise folders
        _to_disk(path.parent, os.O_RDONLY)


def write_text(path: str | Path, text: str) -> Path:
    """Write a text as UTF-8, with its line ends as they are; see `whole_file`."""
    target = Path(path)
    with whole_file(target) as partial:
        partial.write_bytes(text.encode())
    return target


def open_private(path: str | Path, flags: int) -> int:
    """Open a file that only its owner may read and write, made where there is none; no link."""
    path = Path(path)
    if path.is_symlink():  # also where the system has no O_NOFOLLOW
        raise OSError(errno.ELOOP, "it is a link, which isn't followed", str(path))
    descriptor = os.open(path, flags | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    if os.fstat(descriptor).st_size == 0:
        path.chmod(0o600)
    return descriptor


def is_stream(path: Path) -> bool:
    """Whether what is written to a path goes to a device, a pipe or a process's own stream."""
    folder = path.absolute().parent
    if folder in (Path("/dev"), Path("/dev/fd")) or folder.is_relative_to("/proc"):
        return True
    return path.exists() and not path.is_file() and not path.is_dir()


def _to_disk(path: Path, flags: int = os.O_RDWR) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def naming_errors(path: Path, partial: Path | None = None) -> Iterator[None]:
    """Let errors of the operating system name the file that the user knows, or any at all."""
    try:
        yield
    except OSError as error:
        if error.filename not in (None, partial, str(partial)):
            raise
        raise OSError(error.errno or errno.EIO, error.strerror or str(error), str(path)) from error
