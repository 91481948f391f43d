"""What the command line asks of Spark, on a session that only writes down (Spark itself: tests/spark)."""

import os
import sys
from types import ModuleType, SimpleNamespace

import pytest

from fastdp.engines import sparksource
from fastdp.errors import DataError, UsageError


@pytest.mark.parametrize(
    "sources, kind",
    [
        (["a.parquet"], "parquet"),
        (["folder/"], "parquet"),
        (["s3://b/x/*", "y.PARQUET"], "parquet"),
        (["a.orc", "B.ORC/"], "orc"),
        (["table:trips"], "table"),
        (["a.parquet", "b.orc"], None),
        (["table:a", "table:b"], None),
        (["table:a", "b.parquet"], None),
        ([], None),
        *(([f"a{end}"], None) for end in sparksource.TEXT),
        (["a.CSV/*"], None),
    ],
)
def test_formats(sources, kind):
    if kind is None:
        with pytest.raises(UsageError, match="--engine spark reads"):
            sparksource.format_of(sources)
    else:
        assert sparksource.format_of(sources) == kind


class Builder:
    """As pyspark's: every call is noted, and gives the builder again."""

    def __init__(self, notes, fails):
        self.notes, self.fails = notes, fails

    def __getattr__(self, name):
        def call(*arguments):
            self.notes.append((name, *arguments))
            return self

        return call

    def getOrCreate(self):
        if self.fails:
            raise RuntimeError("rows of people")
        notes = self.notes
        read = SimpleNamespace(
            format=lambda kind: SimpleNamespace(
                load=lambda paths: notes.append(("load", kind, paths)) or "frame"
            )
        )
        return SimpleNamespace(
            table=lambda name: notes.append(("table", name)) or "frame",
            read=read,
            stop=lambda: notes.append(("stop",)),
        )


@pytest.fixture
def pyspark(monkeypatch):
    notes = []
    sql = ModuleType("pyspark.sql")
    sql.SparkSession = SimpleNamespace(builder=Builder(notes, False))
    monkeypatch.setitem(sys.modules, "pyspark", ModuleType("pyspark"))
    monkeypatch.setitem(sys.modules, "pyspark.sql", sql)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    return sql, notes


@pytest.mark.parametrize("master", [None, "local[2]", "spark://h:7077", "sc://h"])
def test_a_session_of_the_master_asked_for_ends_with_the_block(pyspark, master):
    _, notes = pyspark
    with sparksource.opened(["table:trips"], master) as frame:
        assert frame == "frame" and ("stop",) not in notes
    assert notes[-2:] == [("table", "trips"), ("stop",)]
    assert [n[1] for n in notes if n[0] == "master"] == (
        [master] if master in ("local[2]", "spark://h:7077") else []
    )
    assert [n[1] for n in notes if n[0] == "remote"] == (["sc://h"] if master == "sc://h" else [])
    assert any(n[0] == "config" for n in notes) == (master != "sc://h")
    assert ("PYSPARK_PYTHON" in os.environ) == (master == "local[2]")
    os.environ.pop("PYSPARK_PYTHON", None)


def test_files_are_read_in_their_format_and_the_session_ends_after_an_error(pyspark):
    _, notes = pyspark
    with pytest.raises(KeyError), sparksource.opened(["a.orc", "b.orc"], None):
        raise KeyError
    assert notes[-2:] == [("load", "orc", ["a.orc", "b.orc"]), ("stop",)]


def test_no_session_and_no_package_are_told_in_sentences(pyspark, monkeypatch):
    sql, notes = pyspark
    sql.SparkSession = SimpleNamespace(builder=Builder(notes, True))
    with pytest.raises(DataError, match=r"no Spark session could be had \(RuntimeError\)") as caught:
        with sparksource.opened(["a.parquet"], None):
            pass
    assert "people" not in str(caught.value)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(UsageError, match=r"install fastdp\[spark\]"), sparksource.opened(["a.parquet"], None):
        pass
