"""Rows made elsewhere: an output that went to another process makes each block as it is made here."""

import pickle

import pyarrow as pa
import pytest

import fastdp
from bench import digests

from .runs import rows, run, schema


def made_elsewhere(output):
    twin = pickle.loads(pickle.dumps(output.shipped()))
    return pa.concat_tables([table for i in range(output.blocks) for table in twin.block_tables(i)])


@pytest.mark.parametrize(
    "mechanism", ["mst", "cliquetree", {"mechanism": "usercounts", "columns": ["a", "b"]}]
)
def test_blocks_made_elsewhere_are_the_same(mechanism, monkeypatch):
    clip = {"clip": 3} if isinstance(mechanism, str) else {}
    made = run(rows(), mechanism=mechanism, schema=schema(), **clip)
    assert made_elsewhere(made._output).equals(made.data)
    monkeypatch.setattr(type(made._output.rows), "shard_rows", 16)
    assert made._output.blocks == -(-made.data.num_rows // 256)
    assert made_elsewhere(made._output).equals(pa.concat_tables(made._output.tables()))


def test_a_model_is_the_same_in_another_process():
    made = run(rows(), mechanism="mst", schema=schema(), clip=3)
    twin = pickle.loads(pickle.dumps(made.model))
    assert isinstance(twin, fastdp.Model)
    mine, theirs = made.model.sample(100, seed=3), twin.sample(100, seed=3)
    assert all((mine[name] == theirs[name]).all() for name in mine)


@pytest.mark.slow
def test_every_mechanism_s_rows_can_be_made_elsewhere():
    for name, make in digests.RUNS.items():
        made = make()
        assert made_elsewhere(made._output).equals(made.data), name
