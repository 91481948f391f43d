"""The model of a table about users, whichever mechanism makes it."""

from typing import Protocol

from ...release.gateway import Session
from ..base import Job, Outcome


class TableModel(Protocol):
    """Measures a table and models it; its rows can be drawn again and again (`ModelRows`)."""

    def run(self, session: Session, job: Job) -> Outcome: ...
