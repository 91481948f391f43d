"""Messages between a driver and its partitions: JSON, and arrays of numbers as they are in memory.

A message is a length (8 bytes), JSON in which an array is a reference, and the arrays one after the other.
Nothing in it can run code where it is read.
"""

from __future__ import annotations

import dataclasses
import io
import json
import struct
from typing import IO, Any

import numpy as np

from .. import errors, userkeys
from ..errors import DataError
from ..tables.spool import SpoolLost
from .partitioned import Answer, MarginalRequest, Request, UserRequest

_ARRAY = "array"
_KEYS = (userkeys.RowsPerUser, userkeys.MostCommon, userkeys.Groups, userkeys.Agreement)
_VIEWS = (userkeys.UserTable, userkeys.RowGroups)


def send(file: IO[bytes], value: Any) -> None:
    """Writes lists, texts, numbers, 1-D arrays, and dictionaries whose keys are chosen by this package (a key
    chosen by a user could be mistaken for the mark of an array)."""
    arrays: list[np.ndarray] = []

    def plain(item: Any) -> Any:
        if isinstance(item, np.ndarray):
            arrays.append(np.ascontiguousarray(item))
            return {_ARRAY: [item.dtype.str, len(item)]}
        if isinstance(item, dict):
            return {name: plain(inner) for name, inner in item.items()}
        return [plain(inner) for inner in item] if isinstance(item, list | tuple) else item

    head = json.dumps(plain(value)).encode()
    file.write(struct.pack("<q", len(head)) + head)
    for array in arrays:
        file.write(array.data)
    file.flush()


def packed(value: Any) -> bytes:
    """A message as bytes."""
    file = io.BytesIO()
    send(file, value)
    return file.getvalue()


def unpacked(content: bytes) -> Any:
    """The message of bytes that `packed` made."""
    return receive(io.BytesIO(content))


def receive(file: IO[bytes]) -> Any:
    """The next message; EOFError where the other side is gone."""
    (length,) = struct.unpack("<q", _exactly(file, 8))
    head = json.loads(_exactly(file, length))

    def whole(item: Any) -> Any:
        if isinstance(item, dict) and set(item) == {_ARRAY}:
            kind, size = item[_ARRAY]
            dtype = np.dtype(kind)
            return np.frombuffer(_exactly(file, size * dtype.itemsize), dtype)
        if isinstance(item, dict):
            return {name: whole(inner) for name, inner in item.items()}
        return [whole(inner) for inner in item] if isinstance(item, list) else item

    return whole(head)


def _exactly(file: IO[bytes], size: int) -> bytes:
    content = file.read(size)
    if len(content) != size:
        raise EOFError
    return content


def of_request(request: Request) -> dict[str, Any]:
    """A request as a message."""
    if isinstance(request, MarginalRequest):
        view = None if request.view is None else _described(request.view)
        plain = {"cliques": request.cliques, "clip": request.clip, "recode": list(request.recode.items())}
        return plain | {"view": view}
    return {"key": _described(request.key), "cap": request.cap}


def to_request(message: dict[str, Any]) -> Request:
    """The request of a message."""
    if "cliques" in message:
        cliques = tuple(tuple(clique) for clique in message["cliques"])
        view = None if message["view"] is None else _rebuilt(message["view"], _VIEWS)
        return MarginalRequest(cliques, message["clip"], dict(message["recode"]), view)
    return UserRequest(_rebuilt(message["key"], _KEYS), message["cap"])


def _described(item: Any) -> dict[str, Any]:
    """A user key or a view by the name of its class and its fields."""
    return {
        "kind": type(item).__name__,
        "fields": {field.name: getattr(item, field.name) for field in dataclasses.fields(item)},
    }


def _rebuilt(message: dict[str, Any], kinds: tuple[type, ...]) -> Any:
    """The item that `_described` described; its class must be one of `kinds`."""
    fields = {name: tuple(v) if isinstance(v, list) else v for name, v in message["fields"].items()}
    return {kind.__name__: kind for kind in kinds}[message["kind"]](**fields)


def of_answer(answer: Answer) -> dict[str, Any]:
    """An answer as a message."""
    return {"partition": answer.partition, "digest": answer.digest, "tables": answer.tables}


def to_answer(message: dict[str, Any]) -> Answer:
    """The answer of a message."""
    tables = [(cells, sums) for cells, sums in message["tables"]]
    return Answer(message["partition"], message["digest"], tables)


def to_error(name: str, text: str) -> Exception:
    """The fastdp error of this class name and text, which was raised in the process of a partition."""
    kind = SpoolLost if name == SpoolLost.__name__ else getattr(errors, name, DataError)
    return kind(text) if isinstance(kind, type) and issubclass(kind, errors.FastdpError) else DataError(text)
