"""Mechanisms that merge rare codes release which codes were merged, and only where any were."""

import numpy as np
import pytest

import fastdp
from fastdp.domain import Domain
from fastdp.mechanisms.aim import AIM
from fastdp.mechanisms.base import Job
from fastdp.mechanisms.cliquetree import CliqueTree
from fastdp.mechanisms.mst import MST

from .growing import RowsSession


@pytest.mark.parametrize("config", [AIM(rounds=6), MST(), CliqueTree()], ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("crowded", [True, False])
def test_a_table_of_codes_is_released_where_the_model_has_fewer(config, crowded):
    """Columns of 40 codes of which 3 occur, or of 3 codes."""
    rng = np.random.default_rng(3)
    first = rng.integers(0, 3, 3000)
    rows = np.stack([first, (first + (rng.random(3000) < 0.1)) % 3, rng.integers(0, 3, 3000)], 1)
    domain = Domain(dict.fromkeys("abc", 40 if crowded else 3))
    session = RowsSession(domain, dict(zip("abc", rows.T)), mu=1.0)

    def fit(domain, measurements, **options):
        return fastdp.fit(domain, measurements, threads=1, **options)

    outcome = config.run(session, Job(schema=session.schema, epsilon=1.0, fit=fit, threads=1))
    merged = dict(outcome.model.domain) != dict(domain)
    assert merged == crowded == ("codes" in outcome.tables)
    if merged:
        codes = outcome.tables["codes"]
        assert sum(outcome.model.domain.values()) < 120 and len(codes) > 0
