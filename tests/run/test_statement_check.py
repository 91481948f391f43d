"""Every value of a statement is proved by `verify` without a ledger, or is on the list of what is
not."""

import copy
import json
import shutil

import pyarrow as pa
import pytest

import fastdp
from fastdp.privacy import recompute
from fastdp.privacy.accountant import event_from_dict
from fastdp.privacy.budget import mu2
from fastdp.privacy.clip import DOMAIN_KINDS
from fastdp.run.folder_check import found_problems, guarded, schema_problems
from fastdp.run.statement_check import recomputed_problems
from fastdp.run.verify import OTHER_BUILD, UNPROVED, inspect

from ..builders import open_ledger, statement_of
from .test_synthesize import small_data, small_schema

WORD = {
    "accountant.second",
    "ledger.id",
    "ledger.dataset",
    "ledger.run",
    "ledger.seq",
    "ledger.hash",
    "versions.fastdp",
    "versions.build",
    "versions.python",
    "versions.numpy",
    "versions.machine",
    "notes",
    "notes.#",
    "public_data",
    "schema.found.asked",
    *(f"schema.found.missing.{name}.#" for name in ("a", "b", "c", "k")),
    "schema.found.missing",
}
"""The statement's own word: needs the ledger, the program or the asked schema. `mechanism` is too.
"""
ELSEWHERE = {
    "parts.#.releases.#.label",
    "parts.#.releases.#.attributes.#",
    "parts.#.clip_choice.users.#",
}
"""Compared with the measurements, not here."""
UPWARDS = {
    "parts.#.releases.#.sigma",
    "parts.#.releases.#.sigma_max",
    "parts.#.releases.#.threshold",
    "parts.#.releases.#.cap",
    "parts.#.clip_choice.noise.#",
    "parts.#.releases.#.count",
    "parts.#.releases.#.sensitivity",
    "parts.#.releases.#.candidates",
    *(f"parts.#.releases.#.recoded.{name}" for name in ("a", "b", "c", "k")),
}
"""May be stated larger: more noise than the charges need, a selection by a score that changes more,
one value more that stands for all others, or more merged codes where a query is asked (of other marginals
the answers tell how many)."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A run that found its domain and clip, in a ledger; and a seeded one of a large epsilon
    without."""
    place = tmp_path_factory.mktemp("recomputed")
    ledger = open_ledger(place, epsilon=9.0, delta=1e-5, keys=1e-6)
    rows = small_data(800).append_column("k", pa.array(["abcdefg"[i % 5] for i in range(800)]))
    private = {"domain": "private", "user": "u", "ledger": ledger, "dataset": "d"}
    fastdp.synthesize(rows, "cliquetree", 4.0, 1e-6, out=place / "private", **private)
    plain = {"mechanism": {"mechanism": "mst", "clip": 5}, "epsilon": 30.0, "seed": 1}
    fastdp.synthesize(rows, **plain, delta=1e-6, schema=small_schema(), out=place / "seeded")
    return place, ledger


def forged(source, target, change):
    """A copy of a folder whose statement somebody changed."""
    folder = shutil.copytree(source, target, dirs_exist_ok=True)
    stated = statement_of(folder)
    change(stated)
    (folder / "privacy.json").write_text(json.dumps(stated))
    return inspect(folder)


def leaves(value, path=()):
    inside = ()
    if isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list):
        inside = enumerate(value)
    if not inside or not value:
        yield path, value
    for key, item in inside:
        yield from leaves(item, (*path, key))


def changed(value):
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [-value if value else 1, value + 1 if isinstance(value, int) else value * 1.01 + 1]
    return [value + "x"] if isinstance(value, str) else [["x"], {"x": 1}]


def problems(folder, stated):
    """Those that need no measurements, which take longer to compare."""
    found = recompute.problems(stated)
    for check in (recomputed_problems, schema_problems, lambda f, s: found_problems(f, s, None)):
        found += guarded("it", lambda: check(folder, stated)) if not found else []  # noqa: B023
    return found


@pytest.mark.parametrize("name", ["private", "seeded"])
def test_every_value_is_proved_or_said_not_to_be(folders, name):
    folder = folders[0] / name
    times = {}
    stated = statement_of(folder)
    assert problems(folder, stated) == []
    for path, value in leaves(stated):
        pattern = ".".join("#" if isinstance(step, int) else step for step in path)
        times[pattern] = times.get(pattern, 0) + 1
        if path[0] in ("mechanism", "files") or pattern in WORD | ELSEWHERE or times[pattern] > 3:
            continue
        for new in changed(value):
            larger = pattern in UPWARDS and new > value
            forged = copy.deepcopy(stated)
            target = forged
            for step in path[:-1]:
                target = target[step]
            target[path[-1]] = new
            assert larger or problems(folder, forged), (pattern, value, new)


def first(stated, kind):
    return next(r for p in stated["parts"] for r in p["releases"] if r["kind"] == kind)


def spent_on_domains(stated):
    part = stated["parts"][stated["schema"]["found"]["part"]]
    events = [event_from_dict(r["event"]) for r in part["releases"] if r["kind"] in DOMAIN_KINDS]
    return mu2(events) / mu2([event_from_dict(part["event"])])


FORGERIES = {  # of more than one value; the test above changes each alone
    "fewer draws": lambda s: (s["noise"].update(draws=1), first(s, "keys").update(draws=1)),
    "another run's ledger": lambda s: s["ledger"].update(counts_other_runs=False),
    "a ledger for all, said to be for one": lambda s: s["ledger"].update(
        counts_other_runs=False, dataset="this run"
    ),
    "a budget that it exceeds": lambda s: s["ledger"].update(
        budget={"epsilon": 1.0, "delta": 1e-6, "mu": 0.2372}
    ),
    "many keys": lambda s: first(s, "keys").update(count=first(s, "keys")["count"] + 2),
    "a smaller share": lambda s: s["schema"]["found"].update(share=0.9 * spent_on_domains(s)),
    "fewer warnings": lambda s: s.update(not_protected=[]),
    "a field of one's own": lambda s: s.update(certified=True),
    "a field less": lambda s: s.pop("noise"),
    "no parts": lambda s: s.update(parts=[]),
    "no list of parts": lambda s: s.update(parts="none"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_statement_forged_alone_is_seen_without_the_ledger(folders, tmp_path, name):
    assert forged(folders[0] / "private", tmp_path / "run", FORGERIES[name]).problems


@pytest.mark.parametrize("which", [0, 1, 2])
def test_the_warnings_that_follow_from_a_statement_cannot_be_dropped(folders, tmp_path, which):
    """That epsilon is large, that no ledger was used, that a seed fixed the noise."""
    notes = statement_of(folders[0] / "seeded")["notes"]
    assert len(notes) == 4  # the first: what happens to rows without a user id
    seen = forged(folders[0] / "seeded", tmp_path / "run", lambda s: s["notes"].pop(1 + which))
    assert any("notes must end with" in text for text in seen.problems)


def test_a_run_alone_cannot_claim_to_count_others(folders, tmp_path):
    for dataset in ("this run", "trips"):

        def claim(stated, dataset=dataset):
            stated["ledger"].update(counts_other_runs=True, dataset=dataset)
            stated["notes"] = [n for n in stated["notes"] if "no ledger" not in n]

        seen = forged(folders[0] / "seeded", tmp_path / "run", claim)
        assert any("counts_other_runs" in text for text in seen.problems)


def test_what_is_not_proved_is_said(folders, tmp_path):
    """Without the ledger always; texts of another build are not compared, and that is said with a
    ledger too."""
    place, ledger = folders
    assert UNPROVED in inspect(place / "private").notes
    assert inspect(place / "private", ledger).notes == ()

    def other(stated):
        stated["versions"]["build"] = "0" * 64
        stated["unit"]["adjacency"] = "add or remove a user"

    seen = forged(place / "private", tmp_path / "run", other)
    assert not seen.problems and OTHER_BUILD in seen.notes
    seen = forged(
        tmp_path / "run", tmp_path / "less", lambda s: s["noise"].update(adds_to_delta=0.0)
    )
    assert seen.problems
