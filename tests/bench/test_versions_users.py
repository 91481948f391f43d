"""Two versions side by side, on tables with users: what a version gives is scored against the truth,
and a version that fails says so without an error of its own."""

import argparse

import numpy as np

from bench import users, versions_users


def standing_in(monkeypatch, rows):
    """Versions that give these rows, or fail where there are none."""

    class Version:
        def __init__(self, root, program):
            self.root = root

        def rows(self, want):
            made = rows[self.root]
            if made is None:
                return {"failed": "planted", "seconds": 1.0}
            np.savez(want["target"], **{f"x_{name}": codes for name, codes in made.items()})
            return {"seconds": 1.0}

        def close(self):
            pass

    monkeypatch.setattr(versions_users, "Version", Version)


def test_true_rows_have_no_errors_and_shuffled_users_do(monkeypatch):
    """The true rows are far from nothing in every measure. With users dealt at random, what the rows of
    one user say together is lost, and pairs of columns are not."""
    truth = users.load("tiny", None)
    values = users.inputs("tiny", truth, "order")[1]
    order = np.random.default_rng(0).permutation(len(truth["user"]))
    standing_in(
        monkeypatch,
        {"true": values, "dealt": values | {"user": values["user"][order]}, "none": None},
    )
    roots = {name: name for name in ("true", "dealt", "none")}
    options = argparse.Namespace(
        tables=["tiny"], epsilon=[1.0], seeds=1, first_seed=0, jobs=1, minutes=1
    )
    true, dealt, failed = versions_users.compared(roots, options)
    assert set(true["errors"].values()) == {0.0}
    assert dealt["errors"]["rows"] == 0.0 and dealt["errors"]["same"] > 0.05
    assert failed["failed"] == "planted" and "errors" not in failed
