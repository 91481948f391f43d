"""What a run checks and reads before it touches private data: public data, sizes, limits of a
resumed run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..domain import Domain
from ..errors import PrivacyError, RunError, UsageError
from ..measurement import SCALE
from ..mechanisms.base import Config
from ..mechanisms.limits.model_size import check_size
from ..mechanisms.limits.structural_zeros import StructuralZeros, check_possible
from ..mechanisms.shared.histogram_noise import HistogramNoise
from ..mechanisms.with_users import check_users, users_cost
from ..privacy.calibrate import mu_of_method
from ..privacy.clip import MAX_CHOSEN, PRIVATE, resolve as resolve_clip
from ..privacy.scale import MAX_SCALE
from ..release.affordable import TINY
from ..release.domaincosts import DomainCosts
from ..release.keyselect import remaining_delta
from ..schema import Schema
from .folder import RunFolder
from .previous_release import read_previous
from .public_data import read_public
from .source_checks import check_source
from .spec import RunSpec

if TYPE_CHECKING:
    from ..public.data import PublicTable


SMALLER_QUERIES = 64.0
"""Queries of planned marginals have rows with coefficients below 1, whose noise is larger: by 64
for grids of up to 12 columns."""


def prepare(spec: RunSpec) -> PublicTable | None:
    """Reads the public data and raises every error that can be found without the private data."""
    public = None
    if spec.options.public is not None:
        from ..public.data import PublicTable

        with spec.reporter.stage("read", "reading and encoding"):
            moved = spec.configs[0].public_relabel
            threads = spec.options.threads
            table = read_public(spec.options.public, spec.schema, moved, threads=threads)
            public = PublicTable(table)
    for config in spec.configs:
        _check_config(spec, config)
        config.ready(spec.schema, public)
        if public is not None and _deals(spec, config) and config.ids.source in ("auto", "public"):
            public.check_habits()
        domain = spec.schema.modelled
        fixed = StructuralZeros.of(spec.schema).cliques
        check_size(config.largest_model(domain, public, fixed), domain, config.fit_limit)
    check_possible(spec.schema)
    check_planned_noise(spec, spec.schema)
    return public


def prepare_previous(spec: RunSpec) -> PublicTable | None:
    """Reads the last release, where the run has one for a prior, and raises if the model could then
    be too large."""
    previous = read_previous(spec.previous, spec.schema, spec.options.threads)
    domain = spec.schema.modelled
    fixed = StructuralZeros.of(spec.schema).cliques
    for config in spec.configs if previous is not None else ():
        check_size(config.largest_model(domain, previous, fixed), domain, config.fit_limit)
    return previous


def check_planned_noise(spec: RunSpec, schema: Schema) -> None:
    """Raise PrivacyError, before anything is charged, if a planned measurement needs more noise
    than the sampler draws exactly. `schema`: the spec's, or stand-ins for private domains."""
    public = spec.options.public is not None
    costs = DomainCosts.of(spec.asked, spec.delta)
    for epsilon, config in zip(spec.epsilons, spec.configs):
        left = remaining_delta(spec.delta, costs.keys_delta) if costs.keys_delta else spec.delta
        method = "laplace" if config.pure else config.calibration
        outline = config.planned(schema, public=public)
        cost = users_cost(config, schema, public)
        whole = mu_of_method(epsilon, left, method) * math.sqrt((1 - costs.share) * (1 - cost))
        clip = 1 if config.unit == "event" else resolve_clip(config.clip, schema)
        clip = min(clip, MAX_CHOSEN) if config.clip == PRIVATE else clip
        for line in outline.measurements:
            noise = clip * SCALE / (max(whole, TINY) * math.sqrt(max(line.share, TINY)))
            if line.cap is not None:
                rate = epsilon if config.pure else max(whole, TINY)
                grid = 1 if config.pure else SCALE
                noise = (
                    HistogramNoise(config.pure, line.cap, rate).std(max(line.share, TINY)) * grid
                )
            if not noise * SMALLER_QUERIES <= MAX_SCALE:
                what = line.note or ", ".join(line.clique)
                raise PrivacyError(
                    f"{config.name} at epsilon {epsilon:g}: the noise of {what} would be larger"
                    " than fastdp draws exactly; choose a smaller clip, a larger epsilon, or a"
                    " recipe with fewer or larger shares. Nothing was charged"
                )


def check_ahead(spec: RunSpec) -> None:
    """Raise the errors of `prepare` that hold for any domain that the run may find. A column whose
    domain is not found yet counts as one code, the fewest it can have."""
    likely = spec.schema.stand_in()
    public = spec.options.public
    if public is not None and public.encoded is not None:
        raise UsageError(
            "public=: the run finds its schema, so give the public source itself, not a table that "
            "was read with another schema"
        )
    if public is not None:
        check_source(public, likely)
    owner = {name: getattr(likely.columns[name], "of", None) or name for name in likely.modelled}
    sizes = {
        name: 1 if owner[name] in spec.schema.pending else likely.domain[name] for name in owner
    }
    domain = Domain(sizes)
    for config in spec.configs:
        _check_config(spec, config)
        if public is None:
            config.ready(likely, None)
        check_size(config.largest_model(domain, None, ()), domain, config.fit_limit)
    check_planned_noise(spec, likely)


def _check_config(spec: RunSpec, config: Config) -> None:
    if spec.delta == 0 and not config.pure:
        raise UsageError(f"delta must be above 0: {config.name} adds Gaussian noise")
    if _deals(spec, config) and config.ids.source == "public" and spec.options.public is None:
        raise UsageError(
            "ids from public data need public=; give it, or set ids.source in the recipe"
        )
    check_users(config, spec.schema)


def _deals(spec: RunSpec, config: Config) -> bool:
    return spec.schema.user is not None and config.deals_ids


def check_limits(spec: RunSpec, folder: RunFolder) -> None:
    """Raise RunError if a limit was changed that decided the question of a step that was
    entered."""
    before = folder.limits_before
    charge = spec.status.charge()
    for i, (config, limits) in enumerate(zip(spec.configs, spec.limits(), strict=True)):
        fixed = [
            label
            for part, label in (() if charge is None else charge.steps)
            if part == i
            and (config.traits.max_cells_steps is None or label in config.traits.max_cells_steps)
        ]
        used = before[i] if i < len(before) else {}
        changed = [name for name in limits if limits[name] != used.get(name)]
        if changed and fixed:
            raise RunError(
                f"resume=True: {', '.join(changed)} differs from the run in {folder.private}. Its"
                f" step {fixed[0]!r} is already charged and may depend on the earlier choice; that"
                f" run used {used}"
            )
    folder.keep(limits=spec.limits())
