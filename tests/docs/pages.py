"""Runs the code blocks of a page in their order, in one folder and with one set of names.

A comment before a block says what cannot be read off the block itself: `<!-- not run: REASON -->`,
`<!-- file: NAME -->` (the block is also kept as that file), `<!-- in a new folder -->` (what
earlier blocks made is gone). A module that a page writes (`Write **FILE**:`) can be imported by later
blocks. What stands under a command is a part of what it prints, up to numbers.
"""

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import fastdp
from fastdp.cli import app
from fastdp.mechanisms.limits.structural_zeros import check_possible

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"((?:^<!--[^>]*-->\n+)*)^```(\w*)\n(.*?)^```", re.S | re.M)
WRITES = re.compile(r"^Write \*\*([^*]+)\.py\*\*:\n\n\Z", re.M)
INSTALL = ("make", "python", "pip", "docker", "conda", "git")
"""First words of commands that make or change an installation. They are not run here."""
SCHEMA_KEYS = {
    "fastdp",
    "name",
    "provenance",
    "user",
    "unit",
    "dialect",
    "columns",
    "outputs",
    "constraints",
}


@dataclass(frozen=True)
class Block:
    """One fenced block: its kind is the word after the fence, its notes are the comments before
    it. `module`: the one that it is written as."""

    line: int
    kind: str
    body: str
    notes: tuple[str, ...]
    module: str | None = None

    def note(self, name: str) -> str | None:
        """The text after `name:` in a note, or "" for a note that is `name` alone; None if there is
        none."""
        for note in self.notes:
            word, _, text = note.partition(":")
            if word.strip() == name:
                return text.strip()
        return None


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text("utf-8")
    for match in FENCE.finditer(text):
        notes = tuple(re.findall(r"<!--\s*(.*?)\s*-->", match[1], re.S))
        line = text.count("\n", 0, match.start(2)) + 1
        writes = WRITES.search(text[: match.start()])
        module = writes[1].replace("/", ".") if writes else None
        yield Block(line, match[2], match[3], notes, module)


def shape(text: str) -> str:
    """The text with every number replaced: noise and clocks change them from run to run."""
    return re.sub(r"\s+", " ", re.sub(r"[\d,.]*\d", "#", text)).strip()


def missing(shown: list[str], printed: str) -> list[str]:
    """Lines shown in a page that were not printed, up to numbers."""
    lines = {shape(line) for line in printed.splitlines()}
    return [line for line in shown if line.strip() and shape(line) not in lines]


class Runner:
    """Runs blocks in the current folder. `columns`: columns that fragments of schemas on the page
    are about; `fewer`: texts replaced before a block is run, such as a million rows by a few
    thousand."""

    def __init__(
        self, names: dict[str, Any], columns: dict[str, Any], fewer: dict[str, str]
    ) -> None:
        self.names = {"fastdp": fastdp, "__name__": "page", **names}
        self.columns = columns
        self.fewer = fewer
        self.recipe: dict[str, Any] = {}
        self.printed = ""

    def run(self, block: Block) -> None:
        body = block.body
        for text, other in self.fewer.items():
            body = body.replace(text, other)
        if name := block.note("file"):
            Path(name).write_text(body, "utf-8")
        getattr(self, block.kind)(body)
        if block.module:
            written = ModuleType(block.module)
            vars(written).update(self.names)
            sys.modules[block.module] = written

    def python(self, body: str) -> None:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(body, "block", "exec"), self.names)
        self.printed = printed.getvalue()

    def text(self, body: str) -> None:
        """What the Python block before it prints."""
        assert missing(body.splitlines(), self.printed) == [], self.printed

    def json(self, body: str) -> None:
        plain = json.loads(body)
        if "columns" in plain:
            fastdp.Schema.from_dict(plain)

    def toml(self, body: str) -> None:
        """A recipe, a schema, or a part of either: completed by the page's last recipe, or by
        `columns`."""
        plain = tomllib.loads(body)
        if "tables" in plain:
            fastdp.LinkedSchema.from_dict(plain)
            return
        if set(plain) <= SCHEMA_KEYS:
            columns = plain.get("columns") or self.columns
            check_possible(fastdp.Schema.from_dict({**plain, "columns": columns}))
            return
        self.recipe = plain if "mechanism" in plain else {**self.recipe, **plain}
        schema = (
            None if "schema" in self.recipe else fastdp.Schema.from_dict({"columns": self.columns})
        )
        assert fastdp.plan(schema, self.recipe, 1.0, 1e-6, rows=10_000, users=1_000)

    def console(self, body: str) -> None:
        joined = body.replace("\\\n", " ")
        for part in re.split(r"^\$ ", joined, flags=re.M)[1:]:
            command, *shown = part.rstrip("\n").split("\n")
            printed = self._command(command)
            assert missing(shown, printed) == [], printed

    def _command(self, command: str) -> str:
        code = re.search(r"# exit code (\d+)", command)
        words = shlex.split(command, comments=True)
        given = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
        words = words[len(given) :]
        if words[0] in INSTALL:
            return ""
        if words[0] != "fastdp":
            return subprocess.run(
                command, shell=True, check=True, capture_output=True, text=True
            ).stdout
        target = words[words.index(">") + 1] if ">" in words else None
        words = words[1 : words.index(">")] if target else words[1:]
        printed = io.StringIO()
        told = io.StringIO()
        before = dict(os.environ)
        os.environ.update(given, COLUMNS="160")
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(told):
                app.main(words)
            status = 0
        except SystemExit as end:
            status = end.code or 0
        finally:
            os.environ.clear()
            os.environ.update(before)
        assert status == (int(code[1]) if code else 0), f"{command}: {told.getvalue()}"
        if target:
            Path(target).write_text(printed.getvalue(), "utf-8")
        return printed.getvalue()
