"""Records over several lines, however their bytes arrive."""

from itertools import pairwise
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import example, given, settings, strategies as st

from fastdp.errors import DataError
from fastdp.schema.dialect import Dialect
from fastdp.tables import textblocks, textlines


def rows_in(part, columns):
    return [
        row
        for unit in part.units(columns, None)
        for batch in unit()
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]


def rows_of(texts, malformed="drop", most=12):
    """(rows, malformed records) of a file whose bytes come as these texts."""
    style = Dialect(header=["a", "b"], newlines=True, malformed=malformed)
    with (
        patch.object(textblocks, "body", lambda *_: ((text, 0) for text in texts)),
        patch.object(textblocks, "MAX_LINE", most),
    ):
        part = textlines.delimited("x.csv", style)
        return rows_in(part, ["a", "b"]), part.tally.lines


PIECES = [
    b'"',
    b",",
    b"\n",
    b"a",
    b"bcdefgh",
    b"1,2\n",
    b'"x\ny",3\n',
    b"1,23456789012345678901234567\n",
]


@settings(max_examples=30, deadline=None)
@given(
    text=st.lists(st.sampled_from(PIECES), max_size=20).map(b"".join),
    cuts=st.lists(st.integers(0, 200), max_size=12),
    malformed=st.sampled_from(["drop", "null"]),
)
@example(b"1,2\n" + b'3,"45678901234567890\n4,5\n6,7\n', [10, 20, 22, 26], "drop")
@example(b"1,2\n" + b'3,"45678901234567890\n4,5\n6,7\n', [10, 20, 22, 26], "null")
def test_records_are_the_same_wherever_the_bytes_are_cut(text, cuts, malformed):
    ends = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    parts = [text[a:b] for a, b in pairwise(ends)]
    assert b"".join(parts) == text
    assert rows_of(parts, malformed) == rows_of([text], malformed)


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 40])
def test_a_record_longer_than_may_be_ends_at_the_next_line(step):
    """It is malformed, once; what comes behind it is read."""
    text = b"1,2\n" + b'3,"' + b"x" * 30 + b"\n4,5\n" + b"6" * 14 + b"\n7,8\n9,1"
    parts = [text[at : at + step] for at in range(0, len(text), step)]
    good = [(b"1", b"2"), (b"4", b"5"), (b"7", b"8"), (b"9", b"1")]
    assert rows_of(parts) == (good, 2)
    rows, lines = rows_of(parts, "null")
    assert [row for row in rows if row != (None, None)] == good and len(rows) == 6 and lines == 2


LONG = b'1,2\n3,"x\nyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\nzz\n5,6\n7,8\n"9,1\n2,3\n4,5\n'


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "gb18030", "utf-16"])
@pytest.mark.parametrize("malformed", ["drop", "null"])
@pytest.mark.parametrize(
    "text",
    [LONG, LONG.replace(b"yyy\n", b'y"y,"\n'), LONG.replace(b'"x\n', b"x\n")],
    ids=["inside", "quotes in it", "by itself"],
)
def test_a_line_that_is_too_long_ends_its_record_wherever_blocks_end(
    tmp_path, text, malformed, encoding
):
    """A record over several lines one of which is too long: what is read, and how many records are
    counted as malformed, does not depend on how much of the file is read at a time."""
    path = tmp_path / "x.csv"
    path.write_bytes(text.decode().encode(encoding))
    style = Dialect(header=["a", "b"], newlines=True, malformed=malformed, encoding=encoding)
    seen = []
    for size in (1 << 20, 1, 2, 5, 8, 16, 30, 64):
        with patch.object(textblocks, "BLOCK", size), patch.object(textblocks, "MAX_LINE", 20):
            part = textlines.delimited(str(path), style)
            seen.append((rows_in(part, ["a", "b"]), part.tally.lines))
    assert seen == [seen[0]] * len(seen)
    assert seen[0][0][0] == (b"1", b"2")


def test_damaged_lines_are_those_of_text_files_read_line_by_line(tmp_path):
    """Numbers start at 1 with the header. Of other files, and where values may have newlines,
    none."""
    text = "a,b\n1,2\n1,2,3\n1,2\n4\n"
    for name, dialect, found in (
        ("x.csv", Dialect(), [3, 5]),
        ("x.csv", Dialect(newlines=True), []),
        ("x.dat", Dialect(), []),
        ("x.dat", Dialect(delimiter=","), [3, 5]),
        ("x.csv", Dialect(header=("a", "b")), [3, 5]),
        ("x.csv", Dialect(header=("a", "b", "c")), [1, 2, 4, 5]),
    ):
        (tmp_path / name).write_text(text)
        assert textlines.damaged_lines(str(tmp_path / name), dialect, ["a", "b"], 9) == found
    assert textlines.damaged_lines(str(tmp_path / "x.csv"), Dialect(), ["a", "b"], 1) == [3]
    (tmp_path / "x.csv").write_bytes(b"a,\xff\n1,2\n")
    with pytest.raises(DataError, match="the column names, is not utf-8"):
        textlines.delimited(str(tmp_path / "x.csv"), Dialect())


@settings(max_examples=30, deadline=None)
@given(
    texts=st.lists(
        st.none() | st.text("0123456789.,+-e a\xe9").map(str.encode) | st.binary(), max_size=8
    )
)
@example([b"1,5", b"1.234,5", b"12.03.2024", None, b"\xff,5", b",", b"1,2,3", b"1.2345"])
def test_a_decimal_comma_of_one_value_never_changes_another(texts):
    batch = pa.record_batch([pa.array(texts, pa.binary())] * 2, names=["x", "who"])
    made = textlines._with_points(batch, "who")
    assert made.column("who").to_pylist() == texts
    alone = [pa.record_batch([pa.array([text], pa.binary())], names=["x"]) for text in texts]
    assert made.column("x").to_pylist() == [
        textlines._with_points(one, None).column(0)[0].as_py() for one in alone
    ]
