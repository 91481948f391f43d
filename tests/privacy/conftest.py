import pytest

from fastdp.privacy.ledger import Ledger


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


@pytest.fixture
def ledger(path):
    opened = Ledger(path)
    opened.open("trips", epsilon=1.0, delta=1e-5)
    return opened
