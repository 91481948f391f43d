"""Where an interrupted run stands: what is charged and kept, what is given back, and what is
removed."""

import numpy as np
import pytest

from fastdp.errors import RunError
from fastdp.privacy.accountant import Gaussian
from fastdp.privacy.unit import Unit
from fastdp.run.folder import STATE_VERSION, RunFolder
from fastdp.run.status import RunStatus
from tests.builders import open_ledger

EVENTS = [Gaussian(0.1), Gaussian(0.2)]


@pytest.fixture
def ledger(tmp_path):
    return open_ledger(tmp_path, "people", epsilon=2.0, delta=1e-6)


@pytest.fixture
def folder(tmp_path):
    out = RunFolder(tmp_path / "new" / "deep" / "out").open()
    out.settle_arguments({"epsilon": 1.0}, {"run": "r"})
    yield out
    out.close()


def standing(folder, ledger):
    out = RunStatus()
    out.folder = folder
    out.reserved(ledger, "r", "epsilon 1 of people")
    return out


def charged(ledger, entered, answered):
    charge = ledger.reserve("people", "r", EVENTS, "plan", unit=Unit("row"))
    for n in range(entered):
        charge.enter(0, n, f"question {n}", f"step {n}", [Gaussian(0.01)], draws=1)
        if n < answered:
            charge.store(0, n, [np.arange(2)])


@pytest.mark.parametrize("entered", [0, 1])
def test_giving_up_returns_a_charge_that_no_step_entered_and_removes_what_is_half_written(
    folder, ledger, entered
):
    charged(ledger, entered, entered)
    staging = folder.staging()
    (staging / "half").write_text("written")
    standing(folder, ledger).give_up()
    assert not staging.exists()
    spent = ledger.spent("people")["mu"]
    if entered:
        assert spent > 0.2 and (folder.private / "state.json").exists(), "kept for --resume"
    else:
        assert spent == 0 and not folder.private.exists() and not folder.out.parent.parent.exists()


def test_runs_that_are_resumed_or_published_are_left_alone(tmp_path, folder, ledger):
    charged(ledger, 0, 0)
    folder.close()
    again = RunFolder(folder.out, resume=True).open()
    standing(again, ledger).give_up()
    assert (again.private / "state.json").exists() and ledger.spent("people")["mu"] > 0
    again.close()
    charged(ledger, 0, 0)
    seen = standing(folder, ledger)
    folder.staging()
    folder.publish()
    seen.published = True
    seen.give_up()
    assert folder.out.exists() and folder.private.exists() and ledger.spent("people")["mu"] > 0
    assert "the run was finished" in seen.text("AGAIN", "RESUME")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", f'{{"version": {STATE_VERSION + 1}}}', "\udcff"]
)
def test_a_state_that_cannot_be_read_is_refused_and_the_lock_let_go(folder, content):
    folder.close()
    path = folder.private / "state.json"
    whole = path.read_bytes()
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(RunError, match=r"start again|another version"):
        RunFolder(folder.out, resume=True).open()
    path.write_bytes(whole)
    RunFolder(folder.out, resume=True).open().close()
