"""The command that prints the privacy statement of a run in a form for readers, registries or reviewers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import emit

statement_app = typer.Typer()


@statement_app.command(epilog="Example:\n\n\b\n  fastdp statement run --as registry > entry.yaml")
def statement(
    folder: Annotated[Path, typer.Argument(help="A run folder.")],
    form: Annotated[
        str,
        typer.Option(
            "--as",
            help="text: a page for people; registry: an entry of the Differential Privacy Deployments "
            "Registry; sp800-226: answers to the questions of NIST SP 800-226; json: privacy.json as it is.",
        ),
    ] = "text",
) -> None:
    """A run's privacy statement in the form that a reader, a registry or a reviewer asks for.

    It repeats what privacy.json says; `fastdp verify` checks it.
    """
    from ..privacy.forms import as_form
    from ..run.result import load_run

    privacy = load_run(folder).privacy
    if form == "json":
        emit(privacy)
        return
    shown = as_form(privacy, form)
    typer.echo(shown) if isinstance(shown, str) else emit(shown)
