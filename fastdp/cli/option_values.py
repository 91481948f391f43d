"""Values of options that runs and plans share, from their texts on the command line."""

from typing import Any

from ..errors import UsageError


def clip_of(text: str | None) -> int | str | None:
    """The clip as a number if the text is one, such as `150`; any other text unchanged, for the
    recipe to parse."""
    return int(text) if text is not None and text.isdecimal() else text


def values_of(texts: list[str] | None) -> dict[str, str] | None:
    """`state=states.txt` and the like as files by column; None if there are none."""
    if texts is None:
        return None
    files: dict[str, str] = {}
    for text in texts:
        column, equals, file = text.partition("=")
        if not (column and equals and file):
            raise UsageError(f"--values: expected COLUMN=FILE, got {text!r}")
        if column in files:
            raise UsageError(f"--values: {column!r} is given twice")
        files[column] = file
    return files


def important_of(texts: list[str] | None, numbers: list[str] | None) -> dict[str, Any] | None:
    """`age=3`, `age,income=5`, `users=2` and the like as the run's `important`; None if there are
    none. Without a weight, `important.STATED`."""
    from ..important import STATED

    if texts is None:
        return None
    columns: dict[str, float] = {}
    questions: dict[str, float] = {}
    pairs: list[dict[str, Any]] = []
    whole: dict[str, Any] = {}
    for text in texts:
        what, weight = text, STATED
        if text not in (numbers or ()) and "=" in text:
            what, _, stated = text.rpartition("=")
            try:
                weight = float(stated)
            except ValueError:
                raise UsageError(
                    f"--important: expected WHAT=WEIGHT with a number, got {text!r}"
                ) from None
        what = what.strip()
        known = {**columns, **questions, **whole, **{",".join(p["columns"]): 0 for p in pairs}}
        if what in known:
            raise UsageError(f"--important: {what!r} is given twice")
        if what in (numbers or ()):
            questions[what] = weight
        elif what in ("users", "numbers"):
            whole[what] = weight
        elif what.count(",") == 1:
            pairs.append({"columns": [name.strip() for name in what.split(",")], "weight": weight})
        else:
            columns[what] = weight
    if questions and "numbers" in whole:
        raise UsageError("--important: give a weight of all numbers, or of some of them")
    named = {"columns": columns, "pairs": pairs, "numbers": questions}
    return {key: value for key, value in named.items() if value} | whole


def epsilons(text: str) -> list[float]:
    """`1` or `1,10` as numbers; UsageError otherwise."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(
            f"--epsilon: expected a number, or several separated by commas, got {text!r}"
        ) from None
