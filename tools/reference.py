"""The reference of the Python interface as text: `python -m tools.reference` writes its pages anew.

The pages `docs/reference/api*.md` hold every public name of fastdp (`fastdp.__all__`) with its
parameters and its docstring, so that they can be read in the repository. A test compares them with
the code (tests/docs/test_reference.py); edit docstrings, not pages.
"""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastdp
from fastdp.privacy import noise

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
WIDTH = 98
GROUPS = {
    "api-runs": ("Starting a run", ("synthesize",)),
    "api-results": ("A finished run", ("Run",)),
    "api-platforms": (
        "Plans, checks and platforms",
        (
            "LinkedRun",
            "plan",
            "verify",
            "load_run",
            "scan",
            "export",
            "publish",
            "register_spark",
            "Synthesizer",
        ),
    ),
    "api-tables": (
        "Tables",
        ("read", "source", "sql", "Table", "draft", "select_keys", "Dialect", "simulate"),
    ),
    "api-schemas": ("Schemas", ("Schema", "LinkedSchema")),
    "api-models": (
        "Estimator",
        ("fit", "Model", "Measurement", "queries", "mechanisms"),
    ),
    "api-budgets": ("Budgets and noise", ("calibrate", "Ledger", "privacy")),
    "api-truth": (
        "Truth and errors",
        ("evaluate", "check", "marginals", "compiled", "errors"),
    ),
}
"""Page, its title, and the names on it in their order."""
SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.M)
MARK = "<!-- made by python -m tools.reference -->"


def first_sentence(thing: Any) -> str:
    """The first sentence of a docstring, on one line."""
    text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.:])\s", text, maxsplit=1)[0].rstrip(":")


def parameters(call: Any) -> str:
    """Names and defaults, as in a call; types stand in the docstring."""
    signature = inspect.signature(call)
    kept = [
        value.replace(annotation=inspect.Parameter.empty)
        for name, value in signature.parameters.items()
        if name not in ("self", "cls") and not name.startswith("_")
    ]
    shown = signature.replace(parameters=kept, return_annotation=inspect.Signature.empty)
    return re.sub(r"<function (\w+) at 0x\w+>", r"\1", str(shown)).replace("'", '"')


def wrapped(text: str, first: str = "", later: str = "") -> str:
    return textwrap.fill(
        " ".join(text.split()),
        WIDTH,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )


def entries(body: str) -> Iterator[str]:
    """The entries of a section of numpydoc as items of a list."""
    for block in re.split(r"\n(?=\S)", body.strip("\n")):
        head, _, text = block.partition("\n")
        name, _, kind = (word.strip() for word in head.partition(" : "))
        said = f"**`{name}`**" + (f" ({kind})" if kind else "")
        yield wrapped(f"{said}: {text}" if text.strip() else said, "- ", "  ")


def result(body: str) -> str:
    """The section on what is returned: its type, then the text."""
    kind, _, text = body.strip("\n").partition("\n")
    text = textwrap.dedent(text)
    return f"`{kind}`: {text}" if text.strip() else f"`{kind}`"


def prose(text: str) -> str:
    """Paragraphs, wrapped; lists and indented blocks stay as they are. A fenced block is indented:
    nobody runs it."""
    text = re.sub(
        r"^```\w*\n(.*?)^```$", lambda m: textwrap.indent(m[1], "    "), text, flags=re.S | re.M
    )
    out = []
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        kept = paragraph.startswith((" ", "-", ">>>", "|"))
        out.append(paragraph if kept else wrapped(paragraph))
    return "\n\n".join(out)


def docstring(thing: Any) -> str:
    """A docstring as Markdown: its sections of numpydoc become lists."""
    parts = SECTION.split(inspect.getdoc(thing) or "")
    out = [prose(parts[0])] if parts[0].strip() else []
    for title, body in zip(parts[1::2], parts[2::2]):
        listed = title != "Returns" and title != "Examples"
        text = "\n".join(entries(body)) if listed else prose(result(body))
        out.append(f"{title}:\n\n{text}")
    return "\n\n".join(out)


def code(text: str) -> str:
    """A call as an indented block, one line or several."""
    return wrapped(text, "    ", "        ")


def members(kind: type) -> Iterator[tuple[str, str, Any]]:
    """(name, how it is written, object) of the public methods and properties of a class."""
    seen = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("fastdp"):
            continue
        for name, member in vars(base).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            if isinstance(member, property | functools.cached_property):
                yield name, name, member
            elif isinstance(member, classmethod | staticmethod) or inspect.isfunction(member):
                yield name, name + parameters(getattr(kind, name)), member


def of_class(name: str, kind: type) -> str:
    made = inspect.isfunction(vars(kind).get("__init__")) or hasattr(kind, "__dataclass_fields__")
    head = [code(f"fastdp.{name}{parameters(kind)}")] if made else []
    out = [*head, docstring(kind)]
    for _, written, member in members(kind):
        text = docstring(member)
        if "\n\n" in text or text.startswith("- "):
            out.append(code(f".{written}") + "\n\n" + text)
        else:
            out.append(wrapped(f"`.{written}`: {text}", "- ", "  "))
    return "\n\n".join(out)


def of_module(name: str, module: Any) -> str:
    """Its public functions and classes, a line each."""
    out = [docstring(module)]
    if name == "privacy":
        inside = {f"noise.{word}": getattr(noise, word) for word in ("gaussian", "laplace")}
    else:
        inside = {
            word: thing
            for word, thing in (
                (w, getattr(module, w)) for w in getattr(module, "__all__", dir(module))
            )
            if not word.startswith("_")
            and (inspect.isclass(thing) or inspect.isfunction(thing))
            and thing.__module__.startswith("fastdp")
            and (name != "errors" or inspect.isclass(thing))
        }
    for word, thing in inside.items():
        call = word if inspect.isclass(thing) else word + parameters(thing)
        out.append(wrapped(f"`fastdp.{name}.{call}`: {first_sentence(thing)}", "- ", "  "))
    return "\n\n".join(out)


def entry(name: str) -> str:
    """One public name: heading, call, docstring, members."""
    thing = getattr(fastdp, name)
    if inspect.ismodule(thing):
        body = of_module(name, thing)
    elif inspect.isclass(thing):
        body = of_class(name, thing)
    else:
        body = code(f"fastdp.{name}{parameters(thing)}") + "\n\n" + docstring(thing)
    return f"## {name}\n\n{body}"


def overview() -> str:
    """The page that names everything."""
    out = [
        "# Python",
        MARK,
        wrapped(
            "These names are the public contract, with types (`py.typed`). `import fastdp` is cheap:"
            " each name is imported when it is first used."
        ),
    ]
    for page, (title, names) in GROUPS.items():
        rows = [
            f"| [{name}]({page}.md#{name.lower()}) | {first_sentence(getattr(fastdp, name))} |"
            for name in names
        ]
        out.append("\n".join([f"## {title}", "", "| name | |", "|---|---|", *rows]))
    return "\n\n".join(out) + "\n"


def pages() -> dict[str, str]:
    """The text of every page by its file name."""
    out = {"api.md": overview()}
    for page, (title, names) in GROUPS.items():
        parts = [f"# {title}", MARK, *map(entry, names)]
        out[f"{page}.md"] = "\n\n".join(part.strip("\n") for part in parts) + "\n"
    return out


def main() -> None:
    for name, text in pages().items():
        (FOLDER / name).write_text(text, "utf-8")
        print(f"{len(text.splitlines()):>4} lines {name}")


if __name__ == "__main__":
    main()
