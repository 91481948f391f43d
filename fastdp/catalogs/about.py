"""What only the publisher of a data set knows: title, licence, contact, where it is published."""

from __future__ import annotations

import datetime
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from .._util.invalid import explain_invalid
from ..errors import UsageError


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The publisher's words about a data set. All are optional; none comes from private data.

    `date`: of publication, as YYYY-MM-DD. `license`: an SPDX name such as "CC-BY-4.0", or an
    address. `url`: the page that describes the data set. `base`: the address of the run folder
    where readers find its files; without it, files are named relative to the metadata.
    """

    title: str | None = None
    description: str | None = None
    license: str | None = None
    url: str | None = None
    base: str | None = None
    creator: str | None = None
    contact: str | None = None
    date: str | None = None
    version: str | None = None
    keywords: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.date is not None:
            try:
                datetime.date.fromisoformat(self.date)
            except ValueError:
                raise UsageError(
                    f"about, key 'date': expected a date such as 2026-03-31, got {self.date!r}"
                ) from None
        for key in ("url", "base"):
            address = getattr(self, key)
            if address is not None and "://" not in address:
                raise UsageError(
                    f"about, key {key!r}: expected an address such as https://example.org/data, "
                    f"got {address!r}"
                )


def read_about(about: About | Mapping[str, Any] | str | os.PathLike[str] | None) -> About:
    """What the publisher says: a TOML file with the fields of `About`, a mapping, or an `About`
    unchanged. None: nothing is known."""
    if isinstance(about, About):
        return about
    if about is None:
        return About()
    if isinstance(about, Mapping):
        return _converted(dict(about), "about")
    path = about
    try:
        plain = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"about: file {path}: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"about: file {path}: not valid TOML ({error})") from None
    return _converted(plain, f"about: file {path}")


def _converted(plain: dict[str, Any], where: str) -> About:
    if isinstance(plain.get("date"), datetime.date):  # TOML and Python have dates of their own
        plain["date"] = plain["date"].isoformat()[:10]
    try:
        return msgspec.convert(plain, About)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {explain_invalid(error, About)}") from None
