"""Object stores: addresses, and the file systems of pyarrow behind them.

Credentials come from where the libraries look for them: the environment, profiles, instance roles.
Error texts name the address without the part that can hold a key.
"""

from __future__ import annotations

import re
from typing import Any

from ..errors import DataError
from .files import scheme_of

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss")
_CODE = re.compile(r"AWS Error ([A-Z_]+)")


def is_store(given: Any) -> bool:
    """Whether it is an address in an object store that fastdp reads and writes."""
    return isinstance(given, str) and scheme_of(given) in SCHEMES and "://" in given


def shown(address: str) -> str:
    """The address without keys: neither `KEY:SECRET@` nor what follows a question mark."""
    scheme, _, rest = address.strip().partition("://")
    return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"


def opened(address: str) -> tuple[Any, str]:
    """(file system, path in it). DataError if pyarrow cannot open it."""
    from pyarrow import ArrowException, fs

    try:
        return fs.FileSystem.from_uri(address.strip())
    except (ArrowException, OSError, ValueError) as error:
        raise refused(address, error) from None


def refused(address: str, error: BaseException) -> DataError:
    """The error to raise in place of one of a store; it passes on the store's code alone."""
    code = _CODE.search(str(error))
    why = code[1] if code is not None else type(error).__name__
    return DataError(
        f"{shown(address)}: the store refused it or could not be reached ({why}); check the address,"
        " the region and the credentials"
    )
