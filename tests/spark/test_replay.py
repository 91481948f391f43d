"""The replay audit on Spark: neighbouring tables, counted in the executors, cannot be told apart
beyond the charge. One small scene: every step of a run is a job of Spark."""

import warnings

import numpy as np

from ..audit.replay import hostile, worlds
from ..audit.replay.audit import audit_world

PAIRS = 2


def test_neighbours_cannot_be_told_apart_beyond_the_charge(spark):
    """The rows of a user lie in several partitions of the frame; noise is drawn in the driver."""

    def make(rng: np.random.Generator) -> worlds.Scene:
        recipe = {"mechanism": "mst", "clip": 3}
        inner = worlds.synthesize(
            hostile.schema(rng, "ng"), mechanism=recipe, epsilon=3.0, partitions=2
        )
        base = hostile.made(rng, (np.arange(40) // 4).tolist(), wild=0.05)

        def run(data, folder):
            warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)  # py4j's own
            frame = spark.createDataFrame(data.select(["u", "n", "g"])).repartition(3)
            return inner(frame, folder)

        return worlds.Scene(base, hostile.neighbours(rng, base, PAIRS), run)

    found, figures = audit_world(worlds.World("spark", PAIRS, make), PAIRS)
    print("\n".join(figures.lines()))
    assert not found, "\n".join(found[:10])
    assert figures.finished == figures.pairs == PAIRS and figures.steps >= 3 * PAIRS
    assert figures.largest["marginals"] > 0.95, "a user who uses up the charge takes part"
