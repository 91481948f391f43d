import io
import json
import os
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp

import fastdp
from fastdp.errors import DataError, RunError
from fastdp.model import array_file

ARRAYS = {
    "potentials-0": np.arange(12.0).reshape(3, 4),
    "masks": np.array([True, False]),
    "codes": np.arange(300, dtype=np.uint16),
    "scalar": np.float32(2.5),
    "empty": np.zeros((0, 7)),
}
MANIFEST = {"domain": {"a": 3, "ü": 4}, "loss": 1.5, "list": [1, None, "x"]}


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {i.filename: archive.read(i) for i in archive.infolist()}


def rewrite(path, parts, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def edit_manifest(path, change):
    parts = members(path)
    head = json.loads(parts["manifest.json"])
    change(head)
    parts["manifest.json"] = json.dumps(head).encode()
    rewrite(path, parts)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.fastdp"
    array_file.save(path, ARRAYS, MANIFEST)
    return path


@settings(max_examples=20, deadline=None)
@given(
    array=hnp.arrays(
        dtype=hnp.integer_dtypes()
        | hnp.unsigned_integer_dtypes()
        | hnp.floating_dtypes(sizes=(32, 64)),
        shape=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
    )
)
def test_arrays_and_the_manifest_come_back(tmp_path_factory, array):
    path = tmp_path_factory.mktemp("store") / "m"
    arrays = ARRAYS | {"a": array}
    array_file.save(path, arrays, MANIFEST)
    again, manifest = array_file.load(path)
    assert manifest == MANIFEST and set(again) == set(arrays)
    for name, array in arrays.items():
        back = again[name]
        want = np.asarray(array)
        assert back.shape == want.shape and back.dtype == want.dtype.newbyteorder("=")
        assert back.tobytes() == want.astype(back.dtype).tobytes()  # NaN and -0.0 too
        assert back.flags.writeable and back.flags.c_contiguous


def test_equal_content_gives_equal_bytes(tmp_path):
    for i, order in enumerate((1, -1)):
        arrays = dict(list(ARRAYS.items())[::order])
        array_file.save(tmp_path / str(i), arrays, dict(list(MANIFEST.items())[::order]))
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()


def test_what_is_no_whole_file_is_an_error(saved, tmp_path):
    whole = saved.read_bytes()
    for length in (*range(0, len(whole), 97), len(whole) - 1):
        saved.write_bytes(whole[:length])
        with pytest.raises(DataError):
            array_file.load(saved)
    with pytest.raises(DataError, match="No such file"):
        array_file.load(tmp_path / "none")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(DataError, match="not a model file"):
        array_file.load(tmp_path / "text")


def test_any_flipped_byte_is_an_error_or_harmless(saved):
    whole = saved.read_bytes()
    for at in range(0, len(whole), 13):
        broken = bytearray(whole)
        broken[at] ^= 0xFF
        saved.write_bytes(broken)
        try:
            arrays, _ = array_file.load(saved)
        except DataError:
            continue
        assert all(np.array_equal(arrays[k], ARRAYS[k]) for k in ARRAYS)


def test_data_changed_with_a_valid_zip_checksum(saved):
    parts = members(saved)
    data = bytearray(parts["potentials-0.npy"])
    data[-1] ^= 1
    rewrite(saved, {**parts, "potentials-0.npy": bytes(data)})
    with pytest.raises(DataError, match="SHA-256"):
        array_file.load(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.update(format="zip"),
        lambda h: h.update(version=99),
        lambda h: h.update(arrays=[]),
        lambda h: h.update(manifest=None),
        lambda h: h["arrays"].update(more={"member": "more.npy"}),
        lambda h: h["arrays"].update(more=3),
        lambda h: h["arrays"].pop("codes"),
        lambda h: h["arrays"]["codes"].update(shape=[299]),
        lambda h: h["arrays"]["codes"].update(dtype="<f8"),
        lambda h: h["arrays"]["codes"].update(bytes=5),
        lambda h: h["arrays"]["codes"].update(member=["codes.npy"]),
    ],
)
def test_wrong_manifests_are_a_data_error(saved, change):
    edit_manifest(saved, change)
    with pytest.raises(DataError):
        array_file.load(saved)


def replace_array(path, name, data):
    import hashlib

    parts = members(path)
    head = json.loads(parts["manifest.json"])
    head["arrays"][name].update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    parts |= {"manifest.json": json.dumps(head).encode(), f"{name}.npy": data}
    rewrite(path, parts)


def npy(shape, dtype="<f8", payload=b"\0" * 96):
    buffer = io.BytesIO()
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue() + payload


@pytest.mark.parametrize("shape", [(1 << 40, 4), (1 << 62, 1 << 62), (3, 3), (13,), (-3, -4)])
def test_a_header_cannot_promise_more_than_its_member(saved, shape):
    replace_array(saved, "potentials-0", npy(shape))
    edit_manifest(saved, lambda h: h["arrays"]["potentials-0"].update(shape=list(shape)))
    with pytest.raises(DataError, match="states a different size"):
        array_file.load(saved)


def test_members_that_are_no_plain_arrays_are_refused(saved):
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    replace_array(saved, "potentials-0", buffer.getvalue())
    with pytest.raises(DataError, match="type object"):
        array_file.load(saved)
    replace_array(saved, "potentials-0", b"not an array")
    with pytest.raises(DataError, match=r"not a \.npy"):
        array_file.load(saved)
    array_file.save(saved, {"zeros": np.zeros(100_000)}, {})
    rewrite(saved, members(saved), zipfile.ZIP_DEFLATED)
    with pytest.raises(DataError, match="list of members"):
        array_file.load(saved)


def test_what_cannot_be_saved(tmp_path):
    with pytest.raises(RunError, match="cannot be written"):
        array_file.save(tmp_path / "none" / "m", {}, {})
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(RunError, match="No space"):
        array_file.save(saved, {"a": np.zeros(3)}, {})
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_damaged_files_raise_errors_of_fastdp_only(tmp_path):
    """A few thousand random changes of bytes; each either loads or is a FastdpError."""
    path = tmp_path / "m.fastdp"
    answers = [fastdp.Measurement(("a",), np.array([3.0, 5.0]), 1.0)]
    fastdp.fit({"a": 2, "b": 3}, answers).save(path)
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(2000):
        data = bytearray(good)
        for at in rng.integers(0, len(data), rng.integers(1, 6)):
            data[at] = rng.integers(0, 256)
        if rng.random() < 0.1:
            data = data[: rng.integers(0, len(data))]
        path.write_bytes(data)
        try:
            fastdp.Model.load(path)
        except fastdp.errors.FastdpError:
            pass


def test_names_and_numbers_that_python_cannot_read_are_errors_of_fastdp(saved):
    """A member's name that is not UTF-8, and whole numbers beyond floats in the manifest."""
    data = bytearray(saved.read_bytes())
    entry = data.rfind(b"PK\x01\x02")
    data[entry + 9] |= 8  # the flag of names in UTF-8
    data[entry + 46] = 0xFF
    kept = saved.read_bytes()
    saved.write_bytes(data)
    with pytest.raises(DataError):
        fastdp.Model.load(saved)
    for number in (10**400, 1 << 70):
        saved.write_bytes(kept)
        edit_manifest(saved, lambda h, n=number: h.update(manifest=beyond(h["manifest"], n)))
        with pytest.raises(DataError):
            fastdp.Model.load(saved)


def beyond(plain, number):
    """A document whose numbers are all this one."""
    if isinstance(plain, dict):
        return {name: beyond(value, number) for name, value in plain.items()}
    if isinstance(plain, list):
        return [beyond(value, number) for value in plain]
    return plain if isinstance(plain, str | bool | None) else number
