"""What a worker tells its driver: results, errors of fastdp's own, and of others their class alone."""

import pytest

from fastdp.engines.worker import attempt
from fastdp.errors import DataError, UsageError


def failing(error):
    def work():
        raise error

    return work


@pytest.mark.parametrize(
    "error, told",
    [
        (UsageError("say it"), {"failed": ("UsageError", "say it")}),
        (DataError("and this"), {"failed": ("DataError", "and this")}),
        (ValueError("a person's row"), {"failed": ("DataError", "a partition failed (ValueError)")}),
        (OSError(28, "a person's path"), None),
        (MemoryError("a person's row"), {"memory": True}),
    ],
)
def test_errors_hold_no_rows(error, told):
    made = attempt(failing(error))
    if told is None:
        kind, text = made["failed"]
        assert (
            kind == "DataError" and text == "a partition cannot be read or written (No space left on device)"
        )
    else:
        assert made == told
    assert "person" not in str(made)
