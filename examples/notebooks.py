"""Runs the notebooks of this folder and keeps what they print and draw, or writes them as pages; no
Jupyter.

    python examples/notebooks.py                  run all; outputs are kept in the .ipynb files
    python examples/notebooks.py --pages FOLDER   one page of Markdown for each, with its pictures

In Jupyter the same files open and run as any notebook.
"""

from __future__ import annotations

import argparse
import ast
import base64
import contextlib
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
NOTEBOOKS = sorted(HERE.glob("*.ipynb"))
DOTS = 80
"""Resolution of pictures, in dots per inch."""


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def shown(value: Any) -> dict[str, list[str]]:
    """What a notebook shows of a cell's last value: text, and HTML where it has some."""
    data = {"text/plain": lines(repr(value))}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = lines(value._repr_html_())
    return data


def pictures() -> list[dict]:
    """Open figures as outputs; they are closed."""
    import matplotlib.pyplot as plt

    made = []
    for number in plt.get_fignums():
        picture = io.BytesIO()
        figure = plt.figure(number)
        figure.savefig(picture, format="png", dpi=DOTS, bbox_inches="tight")
        plt.close(figure)
        data = {
            "image/png": base64.b64encode(picture.getvalue()).decode(),
            "text/plain": ["<Figure>"],
        }
        made.append({"output_type": "display_data", "data": data, "metadata": {}})
    return made


def run_cell(source: str, names: dict[str, Any], number: int) -> list[dict]:
    """Outputs of one cell: what it prints, its pictures, and its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    outputs: list[dict] = []
    if printed.getvalue():
        outputs.append(
            {"output_type": "stream", "name": "stdout", "text": lines(printed.getvalue())}
        )
    outputs += pictures()
    if value is not None:
        outputs.append(
            {
                "output_type": "execute_result",
                "data": shown(value),
                "metadata": {},
                "execution_count": number,
            }
        )
    return outputs


def run(notebook: dict) -> None:
    """Runs all cells in a folder of their own and replaces their outputs."""
    import matplotlib

    matplotlib.use("Agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
            for number, cell in enumerate(code, 1):
                cell["outputs"] = run_cell("".join(cell["source"]), names, number)
                cell["execution_count"] = number
        finally:
            os.chdir(before)


def page(notebook: dict, name: str, folder: Path) -> str:
    """The notebook as Markdown; its pictures are written to the folder."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if output["output_type"] == "stream":
                parts.append("```text\n" + "".join(output["text"]).rstrip("\n") + "\n```")
            elif "image/png" in data:
                picture = f"{name}-{sum('![](' in part for part in parts) + 1}.png"
                (folder / picture).write_bytes(base64.b64decode(data["image/png"]))
                parts.append(f"![]({picture})")
            elif "text/html" in data:
                # The site styles tables itself.
                html = "".join(data["text/html"]).replace(' border="1" class="dataframe"', "")
                parts.append("\n".join(line for line in html.splitlines() if line.strip()))
            else:
                parts.append("```text\n" + "".join(data["text/plain"]) + "\n```")
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--pages", type=Path, metavar="FOLDER")
    folder = parser.parse_args().pages
    for path in NOTEBOOKS:
        notebook = json.loads(path.read_text("utf-8"))
        if folder is None:
            run(notebook)
            path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")
        else:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{path.stem}.md").write_text(page(notebook, path.stem, folder), "utf-8")


if __name__ == "__main__":
    main()
