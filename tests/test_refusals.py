"""Arguments that cannot be meant are refused with a sentence that names them, before anything is charged or
written; limits are inclusive."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp import errors
from fastdp.domain import Domain
from fastdp.engines import spark
from fastdp.engines.partitioned import Answer, Sums
from fastdp.errors import (
    DataError,
    LedgerError,
    MeasurementError,
    PrivacyError,
    RunError,
    SchemaError,
    UsageError,
)
from fastdp.estimate.total import estimate_total
from fastdp.mechanisms import recipe
from fastdp.mechanisms.adagrid import AdaGrid
from fastdp.mechanisms.base import whole_total
from fastdp.privacy import accountant, calibrate, crosscheck, forms, gdp
from fastdp.public.archetypes.options import MAX_ARCHETYPES, Options
from fastdp.release import keyselect, noiseplan, reserve
from fastdp.run import folder, publicfit, released
from fastdp.tables import bound, columns, split
from fastdp.tables.table import Table, code_dtype
from fastdp.userkeys import RowsPerUser

SCHEMA = fastdp.Schema.from_domain({"a": 3, "b": 2})


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return Table.from_codes(SCHEMA, {"a": rng.integers(0, 3, 500), "b": rng.integers(0, 2, 500)})


@pytest.fixture(scope="module")
def run(table):
    return fastdp.synthesize(table, "mst", 2.0, 1e-6, seed=1, sample_seed=1)


@pytest.mark.parametrize("argument", ["resume", "report", "diagnose"])
def test_what_belongs_to_a_folder_needs_one(table, argument):
    with pytest.raises(UsageError, match="out="):
        fastdp.synthesize(table, "mst", 2.0, 1e-6, **{argument: True})


def test_a_run_without_rows_or_folder_says_so(run):
    with pytest.raises(RunError, match="neither written nor kept"):
        _ = replace(run, _output=None).data
    with pytest.raises(UsageError, match="in memory"):
        fastdp.verify(run)


def test_a_seeded_run_is_no_deployment(run):
    with pytest.raises(UsageError, match="known seed"):
        forms.registry(run.privacy)
    assert forms.registry(run.privacy | {"private": True})


@pytest.mark.parametrize("reference", [None, "a.db", 7])
def test_a_statement_without_a_ledger_is_not_in_one(tmp_path, run, reference):
    ledger = fastdp.Ledger(tmp_path / "b.db")
    ledger.open("people", epsilon=1.0, delta=1e-6)
    with pytest.raises(LedgerError, match="names no ledger"):
        ledger.verify(run.privacy | {"ledger": reference})


def test_a_column_of_lists_has_no_domain():
    with pytest.raises(UsageError, match="has no domain"):
        columns.asked_of(pa.table({"a": [[1], [2]]}), None)


@pytest.mark.parametrize("value", [True, False, "x", None, -1.0, float("nan"), float("inf")])
def test_a_number_of_privacy_is_a_finite_number(value):
    with pytest.raises(UsageError, match="mu"):
        gdp.nonnegative("mu", value)


def test_a_histogram_needs_edges():
    with pytest.raises(UsageError, match="at least one"):
        RowsPerUser(())


@pytest.mark.parametrize(
    "check, most",
    [(split.check_partitions, 512), (spark.check_partitions, 2**15), (bound.check_clip, 2**43 - 1)],
)
def test_limits_are_inclusive(check, most):
    assert check(1) == 1 and check(most) == most
    for value in (0, most + 1):
        with pytest.raises(UsageError):
            check(value)


@pytest.mark.parametrize("cells", [[5], [0, 5], [-1], [-1, 2], [2, 2], [3, 1], [0, 1, 2, 3, 4, 5]])
def test_a_partition_names_each_cell_of_the_request_at_most_once(cells):
    sums = Sums("q", 1, [5])
    with pytest.raises(DataError):
        sums.add(Answer(0, "q", [(np.array(cells), np.ones(len(cells), np.int64))]))
    whole = Sums("q", 1, [5])
    whole.add(Answer(0, "q", [(np.arange(5), np.arange(5))]))
    assert whole.whole()[0].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("answer", [-50.0, 0.0, 0.2, 1.0])
def test_a_total_is_at_least_one_row(answer):
    seen = [fastdp.Measurement(("a",), np.array([answer, 0.0]), 1.0)]
    assert estimate_total(Domain({"a": 2}), seen) == (1.0, pytest.approx(2**0.5))


@pytest.mark.parametrize("epsilon, iterations", [(1.0, 600), (10.0, 3696), (0.5, 428)])
def test_published_iterations(epsilon, iterations):
    assert AdaGrid(stop="published").stopping(epsilon)["iters"] == iterations


class NoEvent:
    epsilon = mu = 0.1


@pytest.mark.parametrize(
    "call",
    [
        lambda: accountant.mu_of(NoEvent()),
        lambda: gdp.epsilon_of(1e-301, 1e-6),
        lambda: gdp.epsilon_of(1e300, 1e-6),
        lambda: gdp.epsilon_of(0.5, 0.0),
        lambda: gdp.epsilon_of(0.5, 1.0),
        lambda: gdp.epsilon_of(0.5, 1e-301),
        lambda: gdp.mu_from(1e30, 1e-6),
        lambda: calibrate.rho_from_mu(1e200),
        lambda: calibrate.rho_from_mu(1e-200),
        lambda: noiseplan.positive(0.0, "mu"),
        lambda: noiseplan.positive(math.inf, "mu"),
        lambda: noiseplan.positive(math.nan, "mu"),
    ],
)
def test_numbers_of_privacy_outside_the_range_of_its_arithmetic_are_refused(call):
    with pytest.raises(UsageError):
        call()


def test_the_second_accountant_knows_its_events():
    with pytest.raises(PrivacyError, match="not a privacy event: NoEvent"):
        crosscheck.evaluate([NoEvent()], 1e-6)


@pytest.mark.parametrize("clique", [("a", ""), ("a", 3), ("a", "a"), (None,)])
def test_attributes_of_a_measurement_are_different_names(clique):
    with pytest.raises(MeasurementError, match="measurement of"):
        fastdp.Measurement(clique, np.zeros(4), 1.0)


@pytest.mark.parametrize("name", ["", 3, None])
def test_attributes_of_a_domain_are_names(name):
    with pytest.raises(SchemaError, match="non-empty strings"):
        Domain({name: 3})


def test_codes_are_whole_numbers_in_as_few_bytes_as_hold_them(tmp_path):
    for size, width in ((1, 1), (256, 1), (257, 2), (65_536, 2), (65_537, 4), (2**32, 4)):
        assert code_dtype(size).itemsize == width
    with pytest.raises(UsageError, match=r"at most 2\^32"):
        code_dtype(2**32 + 1)
    for wrong in (np.zeros(3), np.zeros((3, 1), int), np.array(["a", "b", "c"])):
        with pytest.raises(DataError, match="1-D integer array"):
            Table.from_codes(SCHEMA, {"a": wrong, "b": np.zeros(3, int)})
    with_users = fastdp.Schema.from_domain({"a": 3}, user="who")
    with pytest.raises(DataError, match="give its ids"):
        Table.from_codes(with_users, {"a": np.zeros(3, int)})
    with pytest.raises(DataError, match="no user column"):
        Table.from_codes(SCHEMA, {"a": np.zeros(3, int), "b": np.zeros(3, int)}, user=[1, 2, 3])


def test_sources_without_rows_to_read(tmp_path):
    with pytest.raises(UsageError, match="list of sources is empty"):
        fastdp.read([], SCHEMA)
    (tmp_path / "folder" / ".hidden").mkdir(parents=True)
    (tmp_path / "folder" / ".hidden" / "x.csv").write_text("a,b\n0,0\n")
    with pytest.raises(DataError, match="holds no files"):
        fastdp.read(tmp_path / "folder", SCHEMA)


def test_keys_are_not_taken_with_known_noise_from_a_ledger(tmp_path):
    column = {"kind": "categorical", "dtype": "int32", "values": [0, 1]}
    schema = fastdp.Schema.from_dict({"name": "x", "columns": {"a": column}, "user": {"column": "who"}})
    ledger = fastdp.Ledger(tmp_path / "b.db")
    with pytest.raises(UsageError, match="seed fixes the noise"):
        fastdp.select_keys(
            pa.table({"who": [1], "a": [0]}), schema, "a", epsilon=1.0, delta=1e-6, ledger=ledger, seed=1
        )
    with pytest.raises(PrivacyError, match="Nothing was read or drawn"):
        keyselect.check_draws(80.0, 1e-12)
    assert keyselect.check_draws(1.0, 1e-6) is None


@pytest.mark.parametrize(
    "asks", [[], [(1.0, 1e-6, "user"), (2.0, 1e-7, "user")], [(1.0, 1e-6, "user"), (2.0, 1e-6, "event")]]
)
def test_a_reservation_has_one_delta_and_one_unit(asks):
    requests = [reserve.BudgetRequest(epsilon=e, delta=d, clip=1, unit=u) for e, d, u in asks]
    with pytest.raises(UsageError, match="at least one epsilon, and one delta and unit"):
        reserve.reserve(SCHEMA, requests)


def test_a_run_folder_has_a_name_and_rows_are_counted_from_0(run):
    with pytest.raises(UsageError, match="must name a folder"):
        folder.RunFolder("/")
    with pytest.raises(UsageError, match="rows must be >= 0"):
        run.sample(-1)
    assert run.sample(0).num_rows == 0


def test_json_of_a_released_folder_is_small_plain_and_utf8(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    path.write_bytes(b'"\xff"')
    with pytest.raises(RunError, match="not UTF-8"):
        released.read_json(path)
    path.write_text('"' + "x" * 62 + '"')
    for most, taken in ((64, True), (63, False)):
        monkeypatch.setattr(released, "MOST_JSON", most)
        if taken:
            assert released.read_json(path) == "x" * 62
        else:
            with pytest.raises(RunError, match="a run writes no such file"):
                released.read_json(path)


def test_options_of_archetypes_have_features_and_a_number_within_limits():
    with pytest.raises(ValueError, match="at least one column"):
        Options(features=())
    for number in (0, MAX_ARCHETYPES + 1):
        with pytest.raises(ValueError, match="archetypes must lie in"):
            Options(features=("a",), archetypes=number)
    for number in (1, MAX_ARCHETYPES, "auto"):
        assert Options(features=("a",), archetypes=number).archetypes == number
    with pytest.raises(UsageError, match="name fewer"):
        Options(features=("a", "b")).resolve(Domain({"a": 1 << 20, "b": 1 << 20}))
    assert [publicfit._number(text) for text in ("auto", "7", 3)] == ["auto", 7, 3]
    with pytest.raises(UsageError, match="a whole number or auto"):
        publicfit._number("many")


def test_rows_to_make_are_counted_from_0():
    assert [whole_total(t, r) for t, r in ((7.6, None), (-3.0, None), (7.6, 0), (7.6, 5))] == [8, 0, 0, 5]
    with pytest.raises(UsageError, match="rows must be >= 0"):
        whole_total(7.6, -1)


def test_files_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "r.toml").write_bytes(b"mechanism = '\xff'")
    for name in ("r.toml", "absent.toml"):
        with pytest.raises(UsageError, match="cannot be read"):
            recipe.load(str(tmp_path / name))
    (tmp_path / "run").mkdir()
    for content in (None, b"{", b"\xff"):
        if content is not None:
            (tmp_path / "run" / "privacy.json").write_bytes(content)
        with pytest.raises(RunError, match=r"privacy\.json is missing or broken"):
            fastdp.load_run(tmp_path / "run")
    (tmp_path / "x.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(UsageError, match="name no columns beforehand"):
        columns.asked_of(str(tmp_path / "x.jsonl"), None)


def test_ids_of_several_types_are_refused():
    schema = fastdp.Schema.from_domain({"a": 3}, user="who")
    with pytest.raises(DataError, match="not of one type"):
        Table.from_codes(schema, {"a": np.zeros(2, int)}, user=np.array([1, "x"], object))


def test_a_column_that_is_never_empty_has_no_code_for_that():
    kinds = [pa.field("a", pa.float64(), nullable=False), pa.field("b", pa.float64())]
    asked = columns.asked_of(pa.table([[1.0], [2.0]], schema=pa.schema(kinds)), None)
    plain = asked.to_dict()["columns"]
    assert plain["a"]["null"] == "drop" and plain["b"].get("null") != "drop"


def test_every_kind_of_error_has_the_exit_code_of_the_manual():
    """docs/cli.md, by the number; kinds of errors are told apart by it."""
    kinds = (
        (errors.UsageError, 2, "wrong argument"),
        (errors.SchemaError, 3, "malformed schema"),
        (errors.DataError, 4, "data cannot be read as the schema asks"),
        (errors.BudgetError, 5, "budget does not cover the run"),
        (errors.LedgerError, 6, "ledger missing, locked or tampered with"),
        (errors.PrivacyError, 7, "a check of the guarantee failed"),
        (errors.ModelTooLargeError, 8, "the model would be too large"),
        (errors.RunError, 10, "run folder cannot be written, resumed or verified"),
        (errors.StoppedEarly, 11, "stopped after the first answers"),
        (errors.Cancelled, 130, "interrupted"),
    )
    manual = (Path(__file__).parents[1] / "docs" / "cli.md").read_text("utf-8")
    for kind, code, words in kinds:
        assert kind.exit_code == code
        assert f"| {code} | {words}" in manual or f"| {code}, 143 | {words}" in manual
    every = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, errors.FastdpError)]
    codes = [kind.exit_code for kind in every]
    assert len(codes) == len(set(codes)) and errors.MeasurementError.exit_code == 9


def test_arrays_of_a_measurement_cannot_be_written():
    values, sigma = np.ones(3), np.full(3, 2.0)
    made = fastdp.Measurement(("a",), values, sigma)
    values[0], sigma[0] = 7.0, 9.0
    assert made.values.tolist() == [1.0] * 3 and made.sigma.tolist() == [2.0] * 3
    for array in (made.values, made.sigma):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5.0
