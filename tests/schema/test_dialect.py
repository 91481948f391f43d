"""Dialects: declared in a schema, in Python and on the command line; what cannot be read line by
line is refused."""

import pytest

import fastdp
from fastdp.errors import SchemaError
from fastdp.schema.dialect import LINE_ENCODINGS, Dialect, byte_table

PLAIN = {"columns": {"a": {"kind": "integer", "max": 9}}, "user": "who"}
FULL = {
    "delimiter": ";",
    "quote": "'",
    "escape": "\\",
    "encoding": "cp1252",
    "null": ["", "NA"],
    "header": ["who", "a"],
    "newlines": True,
    "malformed": "null",
    "decimal": ",",
}


def test_a_dialect_survives_files_and_changes_no_code(tmp_path):
    schema = fastdp.Schema.from_dict({**PLAIN, "dialect": FULL})
    for name in ("s.toml", "s.json"):
        schema.save(tmp_path / name)
        assert fastdp.Schema.load(tmp_path / name).dialect == schema.dialect == Dialect(**FULL)
    assert schema.select(["a"]).dialect == schema.dialect
    assert schema.dialect.to_plain() == FULL
    plain, declared = (
        fastdp.Schema.from_dict({**PLAIN, **more}) for more in ({}, {"dialect": FULL})
    )
    assert plain.digest() == declared.digest() and plain.dialect == Dialect()
    assert "dialect" not in plain.to_dict() and plain.with_dialect(None) is plain
    assert plain.with_dialect({"delimiter": "|"}).dialect.delimiter == "|"


def test_what_is_left_open_is_decided_by_the_name():
    assert Dialect().named("x.csv").delimiter == "," and Dialect().named("x.csv").quote == '"'
    assert Dialect().named("x.TSV").delimiter == "\t" and Dialect().named("x.tsv").quote == ""
    assert Dialect(quote='"').named("x.tsv").quote == '"'
    assert Dialect(delimiter=";").named("x.tsv").delimiter == ";"


@pytest.mark.parametrize(
    "wrong, field",
    [
        ({"delimiter": ",,"}, "delimiter"),
        ({"delimiter": "é"}, "delimiter"),
        ({"quote": "\r"}, "quote"),
        ({"quote": ",", "delimiter": ","}, "quote"),
        ({"quote": '"', "escape": '"'}, "escape"),
        ({"encoding": "klingon"}, "encoding"),
        ({"encoding": "iso2022_jp"}, "encoding"),
        ({"null": "NA"}, "null"),
        ({"header": []}, "header"),
        ({"malformed": "stop"}, "malformed"),
        ({"delimeter": ";"}, "delimeter"),
        ({"decimal": ";"}, "decimal"),
    ],
)
def test_mistakes_name_the_field(wrong, field):
    with pytest.raises(SchemaError, match=f"dialect, field '{field}'"):
        fastdp.Schema.from_dict({**PLAIN, "dialect": wrong})


def test_a_dialect_in_one_line():
    assert Dialect.from_text('delimiter = ";", null = ["NA"], newlines = true') == Dialect(
        ";", null=("NA",), newlines=True
    )
    for wrong in ("delimiter = ;", "x", 'delimiter = ";" }\n[a'):
        with pytest.raises(SchemaError):
            Dialect.from_text(wrong)


def test_a_line_feed_ends_a_line_in_every_encoding_that_is_read_by_lines():
    """No character but LF has the byte 0x0A in it, and LF is that byte: checked for every
    character."""
    everything = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    for encoding in LINE_ENCODINGS:
        coded = "".join(everything).encode(encoding, "ignore")
        assert coded.count(b"\n") == 1 and "\n".encode(encoding) == b"\n", encoding
    for encoding in ("latin-1", "cp1252", "ascii", "iso8859-15", "koi8-r", "mac-roman"):
        table = byte_table(Dialect(encoding=encoding).encoding)
        assert table is not None and table.index("\n") == 10 and table.count("\n") == 1
    assert byte_table("cp037") is None and byte_table("utf-16") is None
