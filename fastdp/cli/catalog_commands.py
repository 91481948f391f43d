"""`fastdp export` and `fastdp publish`: metadata of a run for catalogues, a run in a store."""

from pathlib import Path

from ..errors import UsageError
from .common import print_result
from .parser import command


@command("export")
def export_run(
    run: str,
    croissant: bool = False,
    datapackage: bool = False,
    openlineage: bool = False,
    out: Path | None = None,
    about: Path | None = None,
    base: str | None = None,
    time: str | None = None,
    namespace: str = "fastdp",
    as_json: bool = False,
) -> None:
    """Write metadata of a run that data catalogues read, from its statement and schema.

    Nothing private is read and no budget is spent. The file is written next to the run folder,
    never into it.
    """
    from ..catalogs.write import export

    asked = {"croissant": croissant, "datapackage": datapackage, "openlineage": openlineage}
    forms = [form for form, chosen in asked.items() if chosen]
    if not forms:
        raise UsageError("name at least one form: --croissant, --datapackage or --openlineage")
    if out is not None and len(forms) > 1:
        raise UsageError("--out names one file: give one form, or leave --out away")
    written = {
        form: export(run, form, out, about=about, base=base, time=time, namespace=namespace)
        for form in forms
    }
    files = {form: str(path) for form, path in written.items()}
    print_result(files, "\n".join(files.values()), as_json)


@command("publish")
def publish_run(run: str, to: str, as_json: bool = False) -> None:
    """Publish a run: its folder to an object store, or its rows as a Delta table.

    It appears whole or not at all: the statement is uploaded last, a table gets one transaction.
    Nothing private leaves the machine and no budget is spent. What failed or was killed is repeated
    with the same command.
    """
    from ..run.publish import publish

    place = publish(run, to)
    print_result({"to": place}, place, as_json)
