"""Runs the scenes of worlds and compares their pairs."""

import itertools
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from . import (
    combined as combined,
    decisions as decisions,
    doors as doors,
    identities as identities,
)  # worlds register themselves
from .compare import Figures, compare
from .recorder import Recorder
from .worlds import WORLDS, Scene, World


def played(scene: Scene, data, folder: Path, first: Recorder | None, seed: int) -> Recorder:
    """One recorded run of a scene, in an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    record = Recorder(first, seed, scene.on_disk)
    with record.recording():
        record.released |= scene.run(data, folder) or {}
    for path in sorted((folder / "out").rglob("*")):
        if path.is_file():
            record.released[str(path.relative_to(folder))] = path.read_bytes()
    return record


def audit_scene(scene: Scene, seed: int, figures: Figures) -> list[str]:
    """What contradicts the guarantee in the pairs of a scene."""
    found = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        first = played(scene, scene.data, folder, None, seed)
        for number, other in enumerate(scene.neighbours):
            second = played(scene, other, folder, first, seed)
            found += [f"neighbour {number}: {t}" for t in compare(first, second, figures)]
    return found


def audit_world(one: World | str, pairs: int, seed: int = 0, figures: Figures | None = None):
    """(what contradicts the guarantee in so many pairs of a world, figures)."""
    figures = Figures() if figures is None else figures
    return list(itertools.chain(*audit_scenes(one, pairs, seed, figures))), figures


def audit_scenes(one: World | str, pairs: int, seed: int, figures: Figures) -> Iterator[list[str]]:
    """What contradicts the guarantee in each scene in turn, until there were so many pairs."""
    one = WORLDS[one] if isinstance(one, str) else one
    number = 0
    begun = figures.pairs
    while figures.pairs - begun < pairs:
        rng = np.random.default_rng([seed, number, *one.name.encode()])
        scene = one.make(rng)
        scene.neighbours = scene.neighbours[: pairs - (figures.pairs - begun)]
        yield [f"scene {number}, {text}" for text in audit_scene(scene, number, figures)]
        number += 1


def timed(name: str, pairs: int | None, seed: int) -> tuple[list[str], Figures, float]:
    """(what was found, figures, seconds of a processor) for one world and one seed."""
    begun = time.process_time()
    found, figures = audit_world(name, pairs or WORLDS[name].pairs, seed)
    return [f"seed {seed}, {text}" for text in found], figures, time.process_time() - begun
