"""What answers about several columns say of one: noisy sums over groups of its codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from ...measurement import Measurement
from .code_compression import Compression


class Sums(Struct, frozen=True, eq=False):
    """Noisy rows of groups of one column's codes. `groups`: code -> group."""

    groups: np.ndarray
    values: np.ndarray
    variances: np.ndarray


def sums_of_columns(
    answers: Sequence[Measurement], compression: Compression
) -> dict[str, list[Sums]]:
    """What answers over compressed codes say about the codes of each column, by column. Sums over the
    same groups are averaged by precision; the finest groups come first."""
    parts: dict[tuple[str, bytes], list[Sums]] = {}
    for m in answers:
        shape = compression.domain.shape(m.clique) if m.query is None else m.query.bins
        values = m.values.reshape(shape)
        variances = np.broadcast_to(m.variances, m.values.shape).reshape(shape)
        for axis, a in enumerate(m.clique):
            codes = compression.code_map(a)
            if m.query is not None and m.query.maps[axis] is not None:
                codes = m.query.maps[axis][codes]
            others = tuple(i for i in range(len(shape)) if i != axis)
            own = Sums(codes, values.sum(axis=others), variances.sum(axis=others))
            parts.setdefault((a, codes.tobytes()), []).append(own)
    out: dict[str, list[Sums]] = {}
    for (a, _), same in parts.items():
        precision = np.sum([1 / s.variances for s in same], axis=0)
        values = np.sum([s.values / s.variances for s in same], axis=0) / precision
        out.setdefault(a, []).append(Sums(same[0].groups, values, 1 / precision))
    return {a: sorted(sums, key=lambda s: -s.values.size) for a, sums in out.items()}


def with_sums_of_groups(one: Measurement, sums: Sequence[Sums]) -> Measurement:
    """A 1-way with noisy sums over groups of its codes: the least squares of both. A group's codes
    share the change of its sum by their variances. They then have errors in common, which are left
    out: coarser groups count a little too much."""
    if not sums:
        return one
    values = one.values
    variances = np.broadcast_to(one.variances, values.shape)
    for s in sums:
        size = s.values.size
        gain = 1 / (np.bincount(s.groups, variances, size) + s.variances)
        change = gain * (s.values - np.bincount(s.groups, values, size))
        values = values + variances * change[s.groups]
        variances = variances * (1 - variances * gain[s.groups])
    return Measurement(one.clique, values, np.sqrt(variances), label=one.label)
