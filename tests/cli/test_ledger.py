"""`fastdp ledger`, `fastdp verify --ledger`, and promises that protect next to nothing."""

import json

import pytest

import fastdp
from fastdp.privacy.accountant import Gaussian
from fastdp.privacy.unit import Unit

from .test_app import SYNTH, fastdp_cli, place  # noqa: F401

USERS = Unit("user", "u")


def test_the_ledger_from_open_to_release(place):  # noqa: F811
    cli = lambda *words, **options: fastdp_cli(*words, cwd=place, **options)  # noqa: E731
    cli("ledger", "open", "c.db", "people", "-e", "12", "-d", "1e-6", "--unit", "user:u")
    cli(*SYNTH, "--ledger", "c.db", "--out", "kept", "-q")
    shown = cli("ledger", "show", "c.db").stdout
    assert "protects: one user (column 'u', rows without an id left out)" in shown
    for text in ("UTC", "adagrid", str(place / "kept"), "finished", "Epsilons of runs do not add up"):
        assert text in shown
    assert "Note" not in cli("verify", "kept", "--ledger", "c.db").stdout
    assert "forged consistently" in cli("verify", "kept").stdout

    run = fastdp.Ledger(place / "c.db").reserve("people", "abandoned", [Gaussian(0.5)], unit=USERS)
    run.enter(0, 0, "q", "s", [Gaussian(0.3)], draws=1)
    before = json.loads(cli("ledger", "show", "c.db", "--json").stdout)["people"]["left"]["mu"]
    assert "is over" in cli("ledger", "release", "c.db", "aban").stdout
    after = json.loads(cli("ledger", "show", "c.db", "--json").stdout)["people"]["left"]["mu"]
    assert after**2 - before**2 == pytest.approx(0.5**2 - 0.3**2)
    assert "over already" in cli("ledger", "release", "c.db", "abandoned").stdout
    assert cli("ledger", "release", "c.db", "nothing", check=False).returncode == 2

    other = cli("ledger", "open", "c.db", "rows", "-e", "9", "-d", "1e-6", "--unit", "row")
    assert other.returncode == 0
    refused = cli(*SYNTH, "--ledger", "c.db", "--dataset", "rows", "--out", "no", check=False)
    assert refused.returncode == 6 and "different units" in refused.stderr
    assert not (place / "no").exists()


@pytest.mark.parametrize(
    "changes,text",
    [(("-e", "1e9"), "protects next to nothing"), (("-d", "0.1"), "far below 1 / number of people")],
)
def test_promises_that_protect_nothing_need_a_yes(place, changes, text):  # noqa: F811
    asked = [*SYNTH, *changes, "--out", "weak"]
    refused = fastdp_cli(*asked, cwd=place, check=False)
    assert refused.returncode == 2 and text in refused.stderr and "--yes" in refused.stderr
    opened = fastdp_cli(
        "ledger", "open", "w.db", "d", "-e", "1", "-d", "1e-6", *changes, cwd=place, check=False
    )
    assert opened.returncode == 2 and "--yes" in opened.stderr
    after = fastdp_cli(*asked, "--yes", "-q", cwd=place, check=False)
    if changes[0] == "-e":  # the sampler's own distance, times e^1e9, is no promise at all
        assert after.returncode == 7 and "ask for an epsilon of at most" in after.stderr
    else:
        assert after.returncode == 0 and "warning" in after.stderr
        notes = json.loads((place / "weak" / "privacy.json").read_text())["notes"]
        assert any("delta 0.1 is above" in note for note in notes)
