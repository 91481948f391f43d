"""Columns of texts of which a run finds the kind too."""

from __future__ import annotations

from typing import ClassVar

from ..entry import ANY
from ..kind_registry import kind
from .categorical import Categorical


@kind(ANY, internal=True)
class AnyKind(Categorical):
    """The kind of a column while it is not found; the finished column is of another one."""

    options: ClassVar[tuple[str, ...]] = ()
    kept_options: ClassVar[tuple[str, ...]] = ()
    private_options: ClassVar[tuple[str, ...]] = ("keys_per_user", "bins")
