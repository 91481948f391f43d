"""One versioned file for arrays and a manifest: a plain zip of `manifest.json` and `.npy` members,
no pickle.

Equal content gives equal bytes: members are stored uncompressed, in sorted order, with a fixed
date. The manifest lists each array's member, type, shape and SHA-256. A reader trusts nothing.
Before it returns a number, it checks the directory's sizes against the file's, every header against
its member's size, and every digest. It never allocates more than the file is long.

The digests find damage, not forgery: whoever can write the file can write them too.
"""

import hashlib
import io
import json
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._util.files import as_path, replacing
from ..errors import DataError, RunError

FORMAT = "fastdp-model"
VERSION = 1
_MANIFEST = "manifest.json"
_MOST_MANIFEST = 64 << 20
_DATE = (1980, 1, 1, 0, 0, 0)
_KINDS = "biuf"
BROKEN = (
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    OverflowError,
    LookupError,
    AttributeError,
    TypeError,
    zipfile.BadZipFile,
    struct.error,
    zlib.error,
)
"""What Python's zip and array readers raise on damaged files; UnicodeDecodeError is a
ValueError, NotImplementedError a RuntimeError."""


def save(
    path: str | os.PathLike, arrays: Mapping[str, np.ndarray], manifest: Mapping[str, Any]
) -> None:
    """Write arrays (by name; bool, integer or float) and a JSON manifest. The file appears whole or
    not at all."""
    path = as_path(path, "a model file")
    entries = {}
    members = []
    for name, array in sorted(arrays.items()):
        member = f"{name}.npy"
        array = np.asarray(array)
        array = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        data = _npy(array)
        about = {"member": member, "dtype": array.dtype.str, "shape": list(array.shape)}
        entries[name] = about | {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        members.append((member, data))
    head = {"format": FORMAT, "version": VERSION, "arrays": entries, "manifest": dict(manifest)}
    text = json.dumps(head, sort_keys=True, allow_nan=False, ensure_ascii=False, indent=1)
    _write(path, [(_MANIFEST, text.encode()), *members])


def load(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the manifest of a file written by `save`."""
    path = as_path(path, "a model file")
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            size = os.fstat(file.fileno()).st_size
            infos = _directory(path, archive, size)
            head = _head(path, archive, infos)
            arrays = {
                name: _array(path, archive, infos, name, e) for name, e in head["arrays"].items()
            }
    except DataError:
        raise
    except BROKEN as error:
        reason = getattr(error, "strerror", None) or "damaged or not a model file"
        raise DataError(
            f"{path}: cannot be read as a model ({reason}); restore the file"
        ) from error
    extra = set(infos) - {_MANIFEST} - {entry["member"] for entry in head["arrays"].values()}
    if extra:
        raise DataError(f"{path}: contains members that its manifest does not list")
    return arrays, head["manifest"]


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def _write(path: Path, members: list[tuple[str, bytes]]) -> None:
    """The members in one uncompressed archive, whole or not at all."""
    try:
        with replacing(path) as aside, zipfile.ZipFile(aside, "w", zipfile.ZIP_STORED) as archive:
            for name, data in members:
                info = zipfile.ZipInfo(name, _DATE)
                info.external_attr = 0o644 << 16
                info.create_system = 3
                archive.writestr(info, data)
    except OSError as error:
        raise RunError(
            f"{path}: cannot be written ({error.strerror}); check the folder and the disk space"
        ) from error


def _directory(path: Path, archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    infos: dict[str, zipfile.ZipInfo] = {}
    total = 0
    for info in archive.infolist():
        stored = info.compress_type == zipfile.ZIP_STORED and info.compress_size == info.file_size
        total += info.file_size
        if not stored or info.filename in infos or total > size:
            raise DataError(f"{path}: its list of members does not match what fastdp writes")
        infos[info.filename] = info
    return infos


def _head(
    path: Path, archive: zipfile.ZipFile, infos: Mapping[str, zipfile.ZipInfo]
) -> dict[str, Any]:
    """The manifest; DataError if the file is not a model that this fastdp reads."""
    if _MANIFEST not in infos or infos[_MANIFEST].file_size > _MOST_MANIFEST:
        raise DataError(f"{path}: not a fastdp model (it has no manifest)")
    try:
        head = json.loads(archive.read(_MANIFEST))
    except (ValueError, RecursionError):
        raise DataError(f"{path}: its manifest is not JSON") from None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise DataError(f"{path}: not a fastdp model")
    if head.get("version") != VERSION:
        version = head.get("version")
        raise DataError(
            f"{path}: this fastdp reads format version {VERSION}, the file has {version!r}; "
            "open it with the fastdp that wrote it"
        )
    if not isinstance(head.get("arrays"), dict) or not isinstance(head.get("manifest"), dict):
        raise DataError(f"{path}: its manifest has no list of arrays")
    return head


def _array(
    path: Path,
    archive: zipfile.ZipFile,
    infos: Mapping[str, zipfile.ZipInfo],
    name: str,
    entry: Any,
) -> np.ndarray:
    """One array of the file, checked against the manifest; DataError if it is missing or damaged."""
    where = f"{path}, array {name!r}"
    if (
        not isinstance(entry, dict)
        or entry.get("member") != f"{name}.npy"
        or entry["member"] not in infos
    ):
        raise DataError(f"{where}: the manifest lists it, but the file does not contain it")
    info = infos[entry["member"]]
    if info.file_size != entry.get("bytes"):
        raise DataError(f"{where}: its size differs from the manifest's")
    data = archive.read(info)
    if hashlib.sha256(data).hexdigest() != entry.get("sha256"):
        raise DataError(
            f"{where}: its SHA-256 differs from the manifest's; the file is damaged, restore it"
        )
    buffer = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(buffer)
        if version != (1, 0):
            raise ValueError("another .npy version")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(buffer)
    except ValueError:
        raise DataError(f"{where}: not a .npy member") from None
    if dtype.hasobject or dtype.kind not in _KINDS or fortran:
        raise DataError(f"{where}: fastdp does not write arrays of type {dtype} or of this order")
    if dtype.str != entry.get("dtype") or list(shape) != entry.get("shape"):
        raise DataError(f"{where}: its header differs from the manifest")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(data) - buffer.tell():
        raise DataError(f"{where}: its header states a different size than the member has")
    flat = np.frombuffer(data, dtype, offset=buffer.tell()).reshape(shape)
    return flat.astype(dtype.newbyteorder("="))
