"""Messages between a driver and its partitions: MessagePack, arrays of numbers as they are in
memory.

Nothing in a message can run code where it is read.
"""

import dataclasses
from typing import Any

import msgspec
import numpy as np

from .. import errors
from ..errors import DataError
from ..user_views import VIEWS
from ..userkeys import KEYS
from .partitioned import Answer, MarginalRequest, NumberRequest, Request, UserRequest

_ARRAY = 1
"""The extension type of an array in a message."""
_KIND = 8
"""Bytes at the start of an array that name its dtype."""


def packed(value: Any) -> bytes:
    """Lists, texts, numbers, dictionaries and 1-D arrays as bytes."""
    return msgspec.msgpack.encode(value, enc_hook=_plain)


def unpacked(content: bytes) -> Any:
    """The message of bytes that `packed` made."""
    return msgspec.msgpack.decode(content, ext_hook=_array)


def _plain(array: np.ndarray) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(_ARRAY, array.dtype.str.encode().ljust(_KIND) + array.tobytes())


def _array(code: int, content: memoryview) -> np.ndarray:
    """Copied where its place in the message is not aligned: kernels read whole words."""
    array = np.frombuffer(content, bytes(content[:_KIND]).decode().strip(), offset=_KIND)
    return np.require(array, requirements="A")


def of_request(request: Request) -> dict[str, Any]:
    """A request as a message."""
    if isinstance(request, MarginalRequest):
        view = None if request.view is None else _described(request.view)
        plain = {
            "cliques": request.cliques,
            "clip": request.clip,
            "recode": list(request.recode.items()),
        }
        return plain | {"view": view}
    if isinstance(request, NumberRequest):
        return {"number": request.plain, "size": request.size}
    return {"key": _described(request.key), "cap": request.cap}


def to_request(message: dict[str, Any]) -> Request:
    """The request of a message."""
    if "cliques" in message:
        cliques = tuple(tuple(clique) for clique in message["cliques"])
        view = None if message["view"] is None else _rebuilt(message["view"], VIEWS)
        return MarginalRequest(cliques, message["clip"], dict(message["recode"]), view)
    if "number" in message:
        return NumberRequest(message["number"], message["size"])
    return UserRequest(_rebuilt(message["key"], KEYS), message["cap"])


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
    """The fastdp error of this class name and text, which was raised in the process of a
    partition."""
    if name == "MemoryError":
        return MemoryError(
            "not enough memory for a partition; set more partitions, so that each needs less"
        )
    kind = getattr(errors, name, DataError)
    if isinstance(kind, type) and issubclass(kind, errors.FastdpError):
        return kind(text)
    return DataError(text)
