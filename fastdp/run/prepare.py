"""What a run checks and reads before it touches private data: public data, sizes, limits of a resumed run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import RunError, UsageError
from ..mechanisms.parts.sizes import check_size
from ..mechanisms.parts.zeros import Zeros, check_possible
from .folder import RunFolder
from .publicread import read_public
from .work import Work

if TYPE_CHECKING:
    from ..public.archetypes.store import Saved
    from ..public.data import PublicTable


def prepare(work: Work, public: Any) -> PublicTable | Saved | None:
    """Reads the public data and raises every error that can be found without the private data."""
    public_data = None
    if public is not None:
        with work.reporter.stage("read", "reading and encoding"):
            public_data = _public(work, public)
    for config in work.configs:
        if work.delta == 0 and not config.pure:
            raise UsageError(f"{config.name} adds Gaussian noise and needs a delta above 0")
        config.ready(work.schema, public_data)
        if work.schema.user is not None and config.deals_ids:
            if public_data is None and config.ids.source == "public":
                raise UsageError("ids from public data need public=; give it, or set the recipe's ids.source")
            if public_data is not None and config.ids.source in ("auto", "public"):
                public_data.check_habits()
        domain, fixed = work.schema.modelled, Zeros.of(work.schema).cliques
        check_size(config.largest_model(domain, public_data, fixed), domain, config.fit_limit)
    check_possible(work.schema)
    return public_data


def _public(work: Work, public: Any) -> PublicTable | Saved:
    from ..public.archetypes.store import Saved, is_folder
    from ..public.data import PublicTable

    if is_folder(public):
        return Saved(public)
    return PublicTable(read_public(public, work.schema, work.relabel, threads=work.threads))


def keep_limits(work: Work, folder: RunFolder) -> None:
    """RunError where a limit was changed that decided the question of a step that was entered."""
    before, charge = folder.limits_before, work.standing.charge()
    for i, (config, limits) in enumerate(zip(work.configs, work.limits(), strict=True)):
        fixed = [
            label
            for part, label in (() if charge is None else charge.steps)
            if part == i and (config.max_cells_steps is None or label in config.max_cells_steps)
        ]
        used = before[i] if i < len(before) else {}
        changed = [name for name in limits if limits[name] != used.get(name)]
        if changed and fixed:
            raise RunError(
                f"--resume: {', '.join(changed)} differs from the run in {folder.private}, whose step "
                f"{fixed[0]!r} is charged and may have been chosen by it; that run used {used}"
            )
    folder.keep_limits(work.limits())
