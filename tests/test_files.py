"""What is written beside its place and renamed: the old content or the new, never a part, and no
litter."""

import os

import pytest

from fastdp._util.files import replacing, sync_tree, write_atomic


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_a_file_or_folder_takes_its_name_whole_when_the_block_ends(tmp_path):
    path = tmp_path / "a.txt"
    with replacing(path) as aside:
        aside.write_text("new")
        assert aside.parent == tmp_path and not path.exists()
    assert path.read_text() == "new" and names(tmp_path) == ["a.txt"]
    with replacing(tmp_path / "made") as aside:
        (aside / "below").mkdir(parents=True)
        (aside / "below" / "x").write_bytes(b"1")
    assert (tmp_path / "made" / "below" / "x").read_bytes() == b"1" and names(tmp_path) == [
        "a.txt",
        "made",
    ]


@pytest.mark.parametrize("folder", [False, True])
def test_a_block_that_fails_leaves_what_was_there(tmp_path, folder):
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(ValueError, match="stop"), replacing(path) as aside:
        if folder:
            aside.mkdir()
            (aside / "part").write_text("new")
        else:
            aside.write_text("new")
        raise ValueError("stop")
    assert path.read_text() == "old" and names(tmp_path) == ["a"]


def test_everything_is_on_the_disk_before_the_name_changes(tmp_path, monkeypatch):
    """fsync of the file, then the rename, then fsync of the folder: another order could lose both
    contents."""
    done = []
    fsync = os.fsync
    rename = os.replace

    def spy(handle):
        done.append(os.path.basename(os.readlink(f"/proc/self/fd/{handle}")).split(".tmp-")[0])
        fsync(handle)

    monkeypatch.setattr(os, "fsync", spy)
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append("rename"), rename(a, b)))
    write_atomic(tmp_path / "head", b"1", mode=0o600)
    assert done == ["head", "rename", tmp_path.name]
    assert (tmp_path / "head").stat().st_mode & 0o777 == 0o600


def test_every_file_of_a_folder_is_flushed(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(b"1")
    (tmp_path / "y").write_bytes(b"2")
    count = []
    monkeypatch.setattr(os, "fsync", count.append)
    sync_tree(tmp_path)
    assert len(count) == 4
