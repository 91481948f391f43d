"""`fastdp verify` against forged and hostile folders: what it sees, and what it says it cannot
see."""

import copy
import json
import math
import os
import shutil
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st
from msgspec.structs import replace

import fastdp
from fastdp.errors import RunError
from fastdp.privacy import statement
from fastdp.privacy.accountant import Gaussian, event_from_dict
from fastdp.privacy.budget import combined_mu, epsilon_at
from fastdp.run import answers_check, folder_check, parquet_limits, statement_check
from fastdp.run.strict_json import read_json, within_floats
from fastdp.run.verify import UNPROVED, UNREAD, UNSEEN, WITHOUT_LEDGER, inspect, verify
from fastdp.schema import Schema
from tests.tiers import first

from ..audit.test_documents import damaged
from ..builders import open_ledger, statement_of
from .test_synthesize import RECIPE, small_data, small_schema
from .test_users import about_purchases

SAFE = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder of one run, one of two epsilons, and the ledger that both are in."""
    place = tmp_path_factory.mktemp("verify")
    ledger = open_ledger(place, epsilon=15.0, delta=1e-6)
    table = fastdp.read(small_data(800), small_schema())
    arguments = {"mechanism": RECIPE, "delta": 1e-6, "ledger": ledger, "dataset": "d"}
    fastdp.synthesize(table, epsilon=2.0, out=place / "run", **arguments)
    fastdp.synthesize(table, epsilon=[1.0, 3.0], out=place / "both", **arguments)
    return place, ledger, table


@pytest.fixture
def run(finished, tmp_path):
    """(a copy of the folder that a test may spoil, the ledger)"""
    return shutil.copytree(finished[0] / "run", tmp_path / "run"), finished[1]


def rehash(folder, change=lambda s: None):
    """The statement with the hashes of what the folder now holds, as a forger would write it."""
    made = statement_of(folder)
    change(made)
    statement.write(folder, made)


def true_counts(folder, table):
    """The measurements replaced by the true counts, on the grid, everything else as it was."""
    entries = json.loads((folder / "measurements.json").read_text())["measurements"]
    content = pq.read_table(folder / "measurements.pq")
    values = content["value"].to_numpy().copy()
    numbers = content["measurement"].to_numpy()
    for m in entries:
        clique = tuple(m["clique"])
        if m["query"] == "each cell" and set(clique) <= set("abc"):
            exact = fastdp.marginals(table, [clique])[clique]
            values[numbers == m["measurement"]] = np.asarray(exact, np.float64).reshape(-1)
        else:
            values[numbers == m["measurement"]] = np.rint(values[numbers == m["measurement"]])
    content = content.set_column(content.column_names.index("value"), "value", pa.array(values))
    pq.write_table(content, folder / "measurements.pq")


@pytest.mark.parametrize("rows", [1, 3, parquet_limits.BATCH_ROWS])
def test_an_honest_folder_verifies_with_and_without_its_ledger(finished, monkeypatch, rows):
    """However many rows of its files are read at once: answers and their hashes are those that were
    drawn."""
    place, ledger, _ = finished
    monkeypatch.setattr(parquet_limits, "BATCH_ROWS", rows)
    for name in ("run", "both"):
        alone = verify(place / name)
        assert alone.notes == (WITHOUT_LEDGER, UNPROVED)
        assert verify(place / name, ledger).notes == ()
    assert verify(place / "both" / "eps-3", ledger).ok


@pytest.mark.parametrize(
    "mechanism", first(3, ["mst", "cliquetree", "aim", "tworound", "usercounts"])
)
def test_honest_folders_of_other_mechanisms_verify(finished, tmp_path, mechanism):
    own = {"clip": 5} if mechanism != "usercounts" else {"noise": "laplace", "cap": 2}
    recipe = {"mechanism": mechanism, **own}
    _, _, table = finished
    ledger = open_ledger(tmp_path, epsilon=3.0, delta=1e-6)
    options = {"delta": 1e-6, "ledger": ledger, "dataset": "d"}
    fastdp.synthesize(table, recipe, 3.0, out=tmp_path / "run", **options)
    assert verify(tmp_path / "run", ledger).notes == ()


def test_true_counts_and_private_rows_are_seen_through_by_the_ledger(finished, run):
    """The attack: measurements are the true counts, rows the private ones, all hashes made anew."""
    folder, ledger = run
    true_counts(folder, finished[2])
    pq.write_table(small_data(800), folder / "synthetic.parquet")
    rehash(folder)
    problems = inspect(folder, ledger).problems
    assert any("differ from those that were drawn" in p for p in problems)
    assert any("differs from the statement that the run published" in p for p in problems)
    assert WITHOUT_LEDGER in inspect(folder).notes


def test_answers_are_compared_where_the_ledger_never_saw_the_folder(finished, tmp_path):
    """A run that ended without its statement's hash (by an earlier version, or by `ledger
    release`)."""
    _, _, table = finished
    ledger = open_ledger(tmp_path, epsilon=2.0, delta=1e-6)
    real = fastdp.privacy.ledger.Ledger.release
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fastdp.Ledger, "release", lambda self, name, published=(): real(self, name))
        options = {"delta": 1e-6, "ledger": ledger, "dataset": "d", "out": tmp_path / "run"}
        fastdp.synthesize(table, RECIPE, 2.0, **options)
    assert verify(tmp_path / "run", ledger).notes == (UNSEEN,)
    true_counts(tmp_path / "run", table)
    rehash(tmp_path / "run")
    assert any(
        "differ from those that were drawn" in p for p in inspect(tmp_path / "run", ledger).problems
    )


def replaced(folder, name, change):
    path = folder / name
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


FORGERIES = {
    "a measurement more": lambda f: replaced(
        f, "measurements.json", lambda c: c["measurements"][0].update(label="another")
    ),
    "a clique renamed": lambda f: replaced(
        f, "measurements.json", lambda c: c["measurements"][-1].update(clique=["b", "c"])
    ),
    "no description": lambda f: (f / "measurements.json").unlink(),
    "no answers": lambda f: (f / "measurements.pq").unlink(),
    "another schema": (
        lambda f: fastdp.Schema.from_domain({"a": 4, "b": 3, "c": 2}, user="u").save(
            f / "schema.json"
        )
    ),
    "null ids as users": lambda f: rehash(f, lambda s: s["unit"].update(null="own")),
    "answers in another order": lambda f: turned(f),
    "no releases": lambda f: rehash(f, no_releases),
    "one release less": lambda f: rehash(f, lambda s: s["parts"][0]["releases"].pop()),
    "a model of something else": lambda f: other_model(f),
    "a part that is not there": lambda f: rehash(f, lambda s: s.update(part=7)),
}


def turned(folder):
    content = pq.read_table(folder / "measurements.pq")
    order = np.argsort(-content["measurement"].to_numpy(), kind="stable")
    pq.write_table(content.take(pa.array(order)), folder / "measurements.pq")


def no_releases(made):
    made["parts"][0]["releases"] = []
    made["parts"][0]["spent"] = {"epsilon": 0.0, "mu": 0.0}
    made["noise"]["draws"] = 0


def other_model(folder):
    from fastdp.domain import Domain
    from fastdp.measurement import Measurement

    domain = Domain({"a": 4, "b": 3, "c": 2})
    fastdp.fit(domain, [Measurement(("b", "c"), np.ones(6), 1.0)]).save(folder / "model.fastdp")


@pytest.mark.parametrize("name", FORGERIES)
def test_what_does_not_fit_the_statement_is_seen_without_a_ledger(run, name):
    folder, _ = run
    FORGERIES[name](folder)
    rehash(folder)
    assert not inspect(folder).ok


def test_links_and_escapes_are_not_followed(finished, tmp_path):
    place = finished[0]
    both = shutil.copytree(place / "both", tmp_path / "both")
    shutil.rmtree(both / "eps-1")
    (both / "eps-1").symlink_to(place / "both" / "eps-1")
    assert not inspect(both).ok
    for name in (
        "privacy.json",
        "schema.json",
        "measurements.json",
        "measurements.pq",
        "model.fastdp",
    ):
        folder = shutil.copytree(place / "run", tmp_path / f"with {name}")
        (folder / name).unlink()
        (folder / name).symlink_to(place / "run" / name)
        with pytest.raises(RunError, match=r"plain file|link"):
            verify(folder)
    folder = shutil.copytree(place / "run", tmp_path / "escape")
    rehash(folder)
    made = statement_of(folder)
    made["files"]["../run/privacy.json"] = statement.file_hash(place / "run" / "privacy.json")
    (folder / "privacy.json").write_text(json.dumps(made))
    assert any("not in the folder" in p for p in inspect(folder).problems)


def test_folders_within_folders_end(finished, tmp_path):
    folder = shutil.copytree(finished[0] / "both", tmp_path / "x")
    deep = folder / "eps-1"
    for _ in range(300):
        deep = deep / "eps-1"
    deep.mkdir(parents=True)
    shutil.copy(folder / "privacy.json", deep / "privacy.json")
    assert not inspect(folder).ok


def test_names_that_a_terminal_would_obey_are_shown_plainly(run):
    folder, _ = run
    with open(os.fsencode(folder) + b"/\xff\x1b[2J.log", "wb"):
        pass
    (text,) = inspect(folder).problems
    assert "\x1b" not in text and text.isprintable()
    text.encode()


HOSTILE_JSON = [
    "[" * 100_000,
    '{"a": ' * 50_000,
    '{"format": 1e999}',
    '{"format": NaN}',
    '{"epsilon": ' + "9" * 4000 + "}",
    '{"a": 1, "a": 2}',
    "\x00",
    "null",
    "",
]


@pytest.mark.parametrize("text", HOSTILE_JSON, ids=range(len(HOSTILE_JSON)))
@pytest.mark.parametrize("name", first(1, ["privacy.json", "measurements.json", "schema.json"]))
def test_hostile_json_is_a_problem_and_no_traceback(run, name, text):
    folder, ledger = run
    (folder / name).write_text(text)
    with pytest.raises(RunError):
        verify(folder, ledger)


def test_bombs_are_not_unpacked(run, monkeypatch):
    folder, _ = run
    with zipfile.ZipFile(folder / "model.fastdp", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", b" " * (1 << 24))
    rehash(folder)
    assert any("model.fastdp" in p for p in inspect(folder).problems)
    rows = 1 << 22
    types = pq.read_schema(folder / "measurements.pq")
    content = pa.table(
        {field.name: np.zeros(rows, field.type.to_pandas_dtype()) for field in types}
    )
    pq.write_table(content, folder / "measurements.pq", compression="zstd")
    rehash(folder)
    read_rows = []
    monkeypatch.setattr(
        pq.ParquetFile, "iter_batches", lambda *a, **k: read_rows.append(1) or iter(())
    )
    assert any("different rows or columns" in p for p in inspect(folder).problems)
    assert not read_rows


@settings(max_examples=12, **SAFE)
@given(st.data())
def test_no_mutated_json_ends_in_a_traceback(run, data):
    """One to three places of the statement, the measurements or the schema replaced, removed or
    added: a verdict, or RunError; never another exception."""
    folder, ledger = run
    name = data.draw(
        st.sampled_from(["privacy.json", "privacy.json", "measurements.json", "schema.json"])
    )
    original = (folder / name).read_bytes()
    value = damaged(data, json.loads(original))
    try:
        (folder / name).write_bytes(json.dumps(value).encode("utf-8", "surrogatepass"))
        for book in (None, ledger):
            for text in inspect(folder, book).problems:
                text.encode()
    except RunError as error:
        str(error).encode()
    finally:
        (folder / name).write_bytes(original)


@settings(max_examples=15, **SAFE)
@given(st.sampled_from(["model.fastdp", "measurements.pq"]), st.data())
@example("model.fastdp", None)
def test_no_mutated_bytes_end_in_a_traceback(run, name, data):
    folder, ledger = run
    original, stated = ((folder / n).read_bytes() for n in (name, "privacy.json"))
    content = bytearray(original if data is not None else b"")
    for _ in range(0 if data is None else data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(0, len(content) - 1)))
        what = data.draw(st.sampled_from(["flip", "cut", "insert"]))
        if what == "cut":
            del content[at:]
        elif what == "insert":
            content[at:at] = data.draw(st.binary(min_size=1, max_size=8))
        elif content:
            content[at] ^= data.draw(st.integers(1, 255))
    try:
        (folder / name).write_bytes(bytes(content))
        rehash(folder)
        inspect(folder, ledger)
    finally:
        (folder / name).write_bytes(original)
        (folder / "privacy.json").write_bytes(stated)


OFF_THE_GRID = [lambda v: v + 2.0**-21, lambda v: math.nan, lambda v: math.inf, lambda v: 2.0**43]


@pytest.mark.parametrize(
    "column, changed", [("value", v) for v in OFF_THE_GRID] + [("standard_error", math.nan)]
)
@pytest.mark.parametrize("at", [0, -1])
def test_an_answer_off_the_grid_or_an_error_that_is_no_number_is_a_problem(
    run, column, changed, at
):
    """Answers are whole numbers of 2^-20 rows; one that is not has no hash that the ledger could
    hold."""
    folder, ledger = run
    content = pq.read_table(folder / "measurements.pq")
    numbers = content[column].to_numpy().copy()
    numbers[at] = changed(numbers[at]) if callable(changed) else changed
    where = content.column_names.index(column)
    pq.write_table(content.set_column(where, column, pa.array(numbers)), folder / "measurements.pq")
    rehash(folder)
    problems = inspect(folder, ledger).problems
    assert any("measurement" in p or "answers" in p or "errors" in p for p in problems), problems


CLAIMS = {
    "another column": lambda s: s["unit"].update(column="v"),
    "another unit": lambda s: s["unit"].update(kind="row"),
    "null ids as users": lambda s: s["unit"].update(null="own"),
    "no unit": lambda s: s.pop("unit"),
    "a part less": lambda s: s["parts"].pop(),
    "a release less": lambda s: s["parts"][0]["releases"].pop(),
    "different charge": lambda s: s["parts"][0]["event"].update(mu=0.5),
    "different charge of a release": lambda s: s["parts"][0]["releases"][0]["event"].update(mu=0.5),
    "a release without its charge": lambda s: s["parts"][0]["releases"][0].pop("event"),
    "another data set": lambda s: s["ledger"].update(dataset="other"),
    "another run": lambda s: s["ledger"].update(run="other"),
    "no ledger": lambda s: s.pop("ledger"),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_ledger_confirms_what_it_holds_and_no_other_claim(run, name):
    folder, ledger = run
    claimed = statement_of(folder)
    assert ledger.verify(claimed)["seq"] >= claimed["ledger"]["seq"]
    CLAIMS[name](claimed)
    with pytest.raises(fastdp.errors.LedgerError):
        ledger.verify(claimed)


def test_no_file_is_read_where_one_has_not_the_stated_hash(run, monkeypatch):
    """What somebody changed may be made to harm; that it was changed is all there is to say."""
    folder, ledger = run
    monkeypatch.setattr("fastdp.run.verify._content_problems", lambda *a: pytest.fail("was read"))
    with open(folder / "synthetic.parquet", "ab") as file:
        file.write(b"x")
    verdict = inspect(folder, ledger)
    assert verdict.problems == (
        "synthetic.parquet was changed: its hash differs from the stated one",
    )
    assert UNREAD in verdict.notes
    assert {UNREAD, WITHOUT_LEDGER} <= set(inspect(folder).notes)


def test_every_part_is_checked_for_constraints_whatever_lies_before_it(tmp_path, monkeypatch):
    """Links are not followed, and parts that unpack to too much are said not to have been
    checked."""
    columns = {n: {"kind": "integer", "max": 3, "null": "drop"} for n in "ab"}
    rules = [{"require": "a <= b"}, {"require": "a < 3"}]
    fastdp.Schema.from_dict({"columns": columns, "constraints": rules}).save(
        tmp_path / "schema.json"
    )
    (tmp_path / "synthetic").mkdir()
    sizes = [10, 2000, 20, 30]
    for number, size in enumerate(sizes):
        rng = np.random.default_rng(number)
        rows = pa.table({"a": np.full(size, 2), "b": np.ones(size, int), "c": rng.random(size)})
        pq.write_table(
            rows, tmp_path / "synthetic" / f"part-{number}.parquet", use_dictionary=False
        )
    (tmp_path / "elsewhere.parquet").write_bytes(
        (tmp_path / "synthetic" / "part-0.parquet").read_bytes()
    )
    (tmp_path / "synthetic" / "part-0.parquet").unlink()
    (tmp_path / "synthetic" / "part-0.parquet").symlink_to(tmp_path / "elsewhere.parquet")
    monkeypatch.setattr(parquet_limits, "MOST_PAGE", 5000)
    large, broken = folder_check.constraint_problems(tmp_path, [])
    assert large.startswith("part-1.parquet unpacks to more") and large.endswith(
        "its rows were not checked"
    )
    assert broken == "50 rows break constraint 1 (a <= b)"


@pytest.mark.parametrize("part", [True, False, -1, 2, 0.0, "0", None])
def test_a_part_is_named_by_its_number(finished, tmp_path, part):
    folder = shutil.copytree(finished[0] / "both", tmp_path / "both")
    first, second = sorted(p for p in folder.iterdir() if (p / "privacy.json").exists())
    for place in (first, second):
        assert not inspect(place).problems
        rehash(place, lambda s: s.update(part=part))
        assert any("a part that it does not contain" in text for text in inspect(place).problems)


def test_answers_without_a_part_are_a_problem(finished, tmp_path):
    """Answers and model are compared with those of the folder's own part: of none, with nothing."""
    folder = shutil.copytree(finished[0] / "both", tmp_path / "both")
    rehash(folder / "eps-1", lambda s: s.pop("part"))
    rehash(folder)
    for place in (folder, folder / "eps-1"):
        assert any("does not say of which part" in text for text in inspect(place).problems)


@pytest.fixture(scope="module")
def unlike(tmp_path_factory):
    """A folder of two epsilons of which only one has a table about users."""
    place = tmp_path_factory.mktemp("unlike") / "both"
    purchases, _, options = about_purchases()
    fastdp.synthesize(purchases, "auto", **options | {"epsilon": [0.3, 8.0]}, out=place)
    return place


def test_tables_about_users_may_differ_between_epsilons(unlike):
    """Each part's statement lists the releases of all, but only its own facts about users: those of
    other parts were compared with these, and honest runs refused."""
    listed = [
        statement_of(unlike / name)["mechanism"]["users"].get("facts", {})
        for name in ("eps-0.3", "eps-8")
    ]
    assert not listed[0] and {"first month", "sum amount", "stays"} < set(listed[1])
    for place in (unlike, unlike / "eps-0.3", unlike / "eps-8"):
        assert verify(place).ok


def facts_of(made, name):
    """The releases of the second part about this column of its table about users alone."""
    releases = made["parts"][1]["releases"]
    found = [r for r in releases if r.get("of") == "users" and r["attributes"] == [name]]
    assert found
    return found


def restate(**fields):
    """Changes releases of one column: `column` is its name, the others are fields of a release."""

    def change(made):
        for release in facts_of(made, fields["column"]):
            release.update({k: v for k, v in fields.items() if k != "column"})

    return change


def less_noise(made):
    for release in facts_of(made, "first month"):
        release["sigma"] /= 2


def no_charge(made):
    for release in facts_of(made, "first month"):
        release["event"]["mu"] /= 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (restate(column="first month", attributes=["first shop"]), "names columns"),
        (restate(column="first month", attributes=["sum shop"]), "names columns"),
        (restate(column="first month", attributes=["month", "first"]), "names columns"),
        (restate(column="first month", of="rows"), "names columns"),
        (restate(column="first month", count=13, recoded={}), "answers, but its columns have"),
        (restate(column="active month", count=28, recoded={}), "answers, but its columns have"),
        (restate(column="sum amount", count=0, recoded={}), "answers, but its columns have"),
        (less_noise, "its noise is too small"),
        (no_charge, "its noise is too small"),
    ],
)
def test_releases_of_other_epsilons_are_checked_for_their_form(unlike, tmp_path, change, said):
    """The folder of one epsilon, whose statement was forged in what it says of the other."""
    folder = shutil.copytree(unlike / "eps-0.3", tmp_path / "eps-0.3")
    rehash(folder, change)
    assert any(said in text for text in inspect(folder).problems)


def test_own_releases_are_compared_with_the_facts_that_a_statement_lists(unlike, tmp_path):
    """Where a part's own facts are left out, or of other sizes, what the schema allows is not enough."""
    folder = shutil.copytree(unlike, tmp_path / "both")

    def left_out(made):
        del made["mechanism"]["users"]["facts"]["first month"]

    def larger(made):
        facts_of(made, "stays")  # these have a size that the schema leaves open
        made["mechanism"]["users"]["facts"]["stays"] += 1

    for place in (folder, folder / "eps-8"):
        for change, said in ((left_out, "names columns"), (larger, "answers, but its columns")):
            stated = (place / "privacy.json").read_bytes()
            rehash(place, change)
            assert any(said in text for text in inspect(place).problems)
            (place / "privacy.json").write_bytes(stated)


@pytest.mark.parametrize(
    "text, said",
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "twice"),
        ("NaN", "number"),
        ("[1e999]", "too large"),
        (str(1 << 63), "too large"),
        (str(-(1 << 63) - 1), "too large"),
        ("1" * 5000, "large"),
        ("{", "not JSON"),
        (f"[{(1 << 63) - 1}, {-(1 << 63)}, 1e308, {{}}]", None),
    ],
)
def test_json_is_read_if_every_reader_reads_the_same(text, said, tmp_path):
    file = tmp_path / "statement.json"
    file.write_text(text)
    if said is None:
        assert read_json(file) == json.loads(text)
    else:
        with pytest.raises(RunError, match=said):
            read_json(file)


def test_large_whole_numbers_are_read_in_schemas_alone(tmp_path):
    """An edge of 10^22 that a run found is written as a whole number; no float holds 10^309."""
    file = tmp_path / "schema.json"
    file.write_text(str(10**22))
    assert read_json(file, within_floats) == 10**22
    for text in (str(10**309), "-" + "9" * 309, "1" * 5000):
        file.write_text(text)
        with pytest.raises(RunError, match="too large"):
            read_json(file, within_floats)


@pytest.mark.parametrize("largest", first(1, [2**63 - 1, 10.0**22]))
def test_found_bounds_beyond_64_bits_verify(tmp_path, largest):
    """A sentinel of 2^63 - 1 has the edge 2^63 after it."""
    numbers = [largest if i % 3 == 0 else type(largest)(i % 90) for i in range(600)]
    table = pa.table({"u": list(range(600)), "x": numbers})
    out = tmp_path / "run"
    fastdp.synthesize(
        table,
        domain="private",
        user="u",
        mechanism="mst",
        epsilon=20.0,
        delta=1e-4,
        out=out,
        numbers=["count of rows"],
    )
    edges = json.loads((out / "schema.json").read_text())["columns"]["x"]["edges"]
    assert max(float(e) for e in edges) >= 2.0**63, "the found bounds are too small for this test"
    assert verify(out).ok


def test_columns_stated_as_found_have_a_release_or_the_means_of_the_schema(tmp_path):
    """Of a bin that is open at its other end no mean can be asked: then the schema's stands."""
    open_ends = {"kind": "numeric", "edges": ["-inf", 0, "inf"], "means": "private", "digits": 2}
    columns = {"x": open_ends, "y": open_ends | {"edges": [0, 10, 20]}}
    schema = fastdp.Schema.from_dict({"fastdp": 1, "name": "t", "columns": columns})
    table = pa.table({"x": [1.0, -2.0] * 300, "y": [3.0, 14.5] * 300})
    out = tmp_path / "run"
    fastdp.synthesize(table, "mst", epsilon=1.0, delta=1e-6, schema=schema, out=out)
    assert verify(out).ok
    forged = statement_of(out)
    part = forged["parts"][0]
    part["releases"] = [r for r in part["releases"] if r["kind"] != "grid"]
    assert any("stated as found" in text for text in folder_check.found_problems(out, forged, None))


@pytest.mark.parametrize(
    "sizes, constraint",
    first(
        2,
        [
            ([1 << 30, 1 << 30], {"order": ["c0", "c1"]}),
            ([1 << 24, 4], {"column": "c1", "follows": "c0"}),
            ([7000] * 30, {"order": [f"c{i}" for i in range(30)]}),
            ([3] * 500, {"order": [f"c{i}" for i in range(500)]}),
        ],
    ),
)
def test_constraints_that_would_take_gigabytes_or_minutes_are_noted(
    tmp_path, monkeypatch, sizes, constraint
):
    """A few hundred bytes of schema.json, whose constraints would be compiled to masks."""
    columns = {f"c{i}": {"kind": "integer", "max": size - 1} for i, size in enumerate(sizes)}
    plain = {"fastdp": 1, "name": "t", "columns": columns}
    small = {"columns": ["c0", "c1"], "forbidden": [[0, 1]]}
    few = dict(plain, constraints=[constraint])
    (tmp_path / "schema.json").write_text(json.dumps(few))
    pq.write_table(pa.table({name: [0, 1] for name in columns}), tmp_path / "synthetic.parquet")
    monkeypatch.setattr(folder_check, "count_violations", None)
    notes = []
    assert list(folder_check.constraint_problems(tmp_path, notes)) == []
    assert len(notes) == 1 and "constraint 1 is over more codes" in notes[0]
    monkeypatch.undo()
    if max(sizes) <= 7000:  # others are checked as before, under their own numbers
        (tmp_path / "schema.json").write_text(
            json.dumps(dict(plain, constraints=[constraint, small]))
        )
        pq.write_table(
            pa.table({name: [int(name == "c1"), 1] for name in columns}),
            tmp_path / "synthetic.parquet",
        )
        (problem,) = folder_check.constraint_problems(tmp_path, [])
        assert problem.startswith("1 rows break constraint 2")


def test_releases_of_one_name_are_told_apart_by_their_noise(run):
    """The number of rows is a column of the rows' groups and of the table about users. Where both had
    as many codes, each was held for the other, and an honest run did not verify."""
    folder, _ = run
    releases = statement_of(folder)["parts"][0]["releases"]
    table = pq.read_table(folder / "measurements.pq")
    about = read_json(folder / "measurements.json")
    twice = about["measurements"][0]
    named = (twice["label"], tuple(twice["clique"]), twice["rows"])
    own = next(r for r in releases if answers_check.release_key(r) == named)
    wide = own | {"sigma": 2 * own["sigma"], "sigma_max": 2 * own.get("sigma_max", own["sigma"])}
    rows = table.filter(table["measurement"].to_numpy() == twice["measurement"])
    number = pa.array([len(about["measurements"])] * len(rows), pa.int32())
    other = rows.set_column(0, "measurement", number)
    at = other.schema.get_field_index("standard_error")
    wider = pa.array(2 * other["standard_error"].to_numpy())
    other = other.set_column(at, "standard_error", wider)
    about["measurements"].append(twice | {"measurement": number[0].as_py()})
    pq.write_table(pa.concat_tables([table, other]), folder / "measurements.pq")
    (folder / "measurements.json").write_text(json.dumps(about))
    for listed in ([*releases, wide], [wide, *releases], [wide, *releases, own | {"sigma": 1.0}]):
        assert answers_check.measurements_of(folder, listed)[1] == []
    unmeasured = [
        own | {"sigma": 1.0},
        wide,
        *releases,
    ]  # as of the table of users, which has no rows
    assert answers_check.measurements_of(folder, unmeasured)[1] == []
    forged = [r for r in releases if r != own] + [own | {"sigma": own["sigma"] / 2}, wide]
    assert "its standard errors differ" in answers_check.measurements_of(folder, forged)[1][0]


@pytest.fixture(scope="module")
def with_tables(tmp_path_factory):
    """Folders of a run with numbers and distances of users, and of one with contrasts."""
    place = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(4)
    who = np.repeat(np.arange(900), 5)
    like = rng.integers(0, 3, 900)[who]
    rows = {"who": who, "a": like, "b": (like + rng.integers(0, 2, len(who))) % 3}
    rows |= {"t": rng.integers(0, 30, len(who))}
    user = {"column": "who", "max_rows": 5}
    codes = {"a": 2, "b": 2, "t": 29}
    columns = {name: {"kind": "integer", "max": most} for name, most in codes.items()}
    schema = Schema.from_dict({"user": user | {"order": "t"}, "columns": columns})
    options = {"delta": 1e-6, "threads": 1, "progress": False}
    asked = ["sum(t)", "count of users by a"]
    fastdp.synthesize(
        pa.table(rows), schema=schema, epsilon=9.0, numbers=asked, out=place / "users", **options
    )
    bits = {f"c{i}": (rng.random(len(who)) < 0.3 + 0.2 * like).astype(int) for i in range(4)}
    columns = {name: {"kind": "integer", "max": 1} for name in bits}
    schema = Schema.from_dict({"user": user, "columns": columns})
    table = pa.table({"who": who} | bits)
    fastdp.synthesize(table, schema=schema, epsilon=9.0, out=place / "bits", **options)
    return place


def restated(folder, change):
    """The folder with the statement of a publisher who changes the releases that it lists, and whose
    every other figure follows from them."""
    made = statement_of(folder)
    (part,) = made["parts"]
    releases = change(copy.deepcopy(part["releases"]))
    cap = Gaussian(combined_mu([event_from_dict(r["event"]) for r in releases]) * (1 + 1e-9))
    asked = part["asked"] | {"epsilon": epsilon_at([cap], made["delta"])}
    again = statement.build(
        [statement.part(cap, asked, part["clip"], releases, part.get("clip_choice"))],
        made["ledger"],
        Schema.load(folder / "schema.json"),
        unit="user",
        second=made["accountant"]["second"],
        seeded=False,
        mechanism=made["mechanism"],
        notes=made["notes"],
    )
    statement.write(folder, again)
    return inspect(folder)


@pytest.mark.parametrize(
    "name, kind, of, said",
    [
        ("users", "user_vector", None, "is not a release that the statement lists"),
        ("users", "distances", None, "distances.released.pq has"),
        ("users", "distances", "users", "people.released.pq has"),
        ("bits", "contrasts", None, "contrasts.released.pq has"),
    ],
)
def test_a_statement_cannot_leave_out_what_the_folder_holds(
    with_tables, tmp_path, name, kind, of, said
):
    """All figures of the statement follow from the releases that it lists, and are smaller than those of the
    run: for vectors of numbers, distances and contrasts that had been enough."""
    folder = shutil.copytree(with_tables / name, tmp_path / name)
    before = inspect(folder)
    assert before.ok and restated(folder, lambda releases: releases).ok

    def without(releases):
        return [r for r in releases if (r["kind"], r.get("of")) != (kind, of)]

    verdict = restated(folder, without)
    assert verdict.epsilon < before.epsilon and any(said in p for p in verdict.problems)


def test_each_vector_of_a_number_is_a_release(with_tables, tmp_path):
    """Left out one at a time, or stated with a tenth of its charge and ten times its noise."""
    folder = shutil.copytree(with_tables / "users", tmp_path / "run")
    listed = statement_of(folder)["parts"][0]["releases"]
    vectors = [r["label"] for r in listed if r["kind"] == "user_vector"]
    assert len(vectors) > 3

    def cheaper(release, label):
        if release["label"] == label:
            release["event"]["mu"] /= 10
            release["sigma"] *= 10
        return release

    for label in vectors:
        said = f"the vector {label!r} is not a release that the statement lists"
        verdict = restated(folder, lambda releases: [r for r in releases if r["label"] != label])  # noqa: B023
        assert said in verdict.problems
        statement.write(folder, statement_of(with_tables / "users"))
        verdict = restated(folder, lambda releases: [cheaper(r, label) for r in releases])  # noqa: B023
        assert said in verdict.problems
        statement.write(folder, statement_of(with_tables / "users"))
    assert inspect(folder).ok


def changed_table(folder, name, change):
    path = folder / f"{name}.released.pq"
    pq.write_table(change(pq.read_table(path)), path)
    rehash(folder)
    return inspect(folder).problems


def errors_times(factor):
    def change(table):
        errors = table["standard_error"].to_numpy() * factor
        place = table.column_names.index("standard_error")
        return table.set_column(place, "standard_error", pa.array(errors, from_pandas=True))

    return change


@pytest.mark.parametrize(
    "name, table, said",
    [
        ("users", "number_vectors", "has another standard error than its release"),
        ("users", "distances", "less noise than the releases in the statement"),
        ("users", "people", "less noise than the releases in the statement"),
        ("bits", "contrasts", "less noise than the releases in the statement"),
    ],
)
def test_tables_have_the_noise_of_their_releases(with_tables, tmp_path, name, table, said):
    folder = shutil.copytree(with_tables / name, tmp_path / name)
    if table != "number_vectors":  # numbers follow from the errors of their vectors
        assert changed_table(folder, table, errors_times(1.0)) == ()
    assert any(said in p for p in changed_table(folder, table, errors_times(0.3)))


def test_vectors_that_no_number_takes_are_a_problem(with_tables, tmp_path):
    """They could be true sums. There may be as many as a file holds, and each is looked at once: compared
    with each other, 50,000 would take minutes."""
    folder = shutil.copytree(with_tables / "users", tmp_path / "run")

    def more(table):
        count = 50_000
        texts = pa.array([f"true {i}" for i in range(count)])
        numbers = pa.array(np.ones(count))
        own = pa.table({"label": texts, "value": numbers, "standard_error": numbers})
        return pa.concat_tables([table.replace_schema_metadata(), own])

    assert "no number that was asked for takes the vector 'true 0'" in changed_table(
        folder, "number_vectors", more
    )


def test_a_vector_without_a_number_is_a_problem_of_the_statement(run):
    folder, _ = run

    def more(made):
        line = dict(made["parts"][0]["releases"][-1])
        made["parts"][0]["releases"].append(line | {"kind": "user_vector", "label": "none"})

    rehash(folder, more)
    assert any("takes the vector 'none'" in p for p in inspect(folder).problems)


def test_very_many_releases_are_looked_at_once_each(monkeypatch):
    """Statements of a few megabytes. Where each release was compared with all others, or all columns were
    copied for each, or numbers of thousands of digits multiplied, they took minutes to hours."""
    many = 200_000
    release = {"label": "x", "kind": "marginal", "attributes": ["a"], "count": 1, "sigma": 2.0}
    releases = [release, release | {"sigma": 3.0}] * (many // 2)
    one = answers_check.Answered(0, "x", ("a",), 1, low=2.0, high=2.0)
    noises = [3.0, 2.0] * (many // 2)
    entries = [replace(one, low=low, high=low) for low in noises]
    key = ("x", ("a",), 1)
    answers_check._match_by_noise(entries, releases, {key: tuple(range(many))})
    assert sorted(m.release for m in entries) == list(range(many))
    assert all(releases[m.release]["sigma"] == m.low for m in entries)

    schema = Schema.from_domain({f"c{i}": 2 for i in range(4000)})
    counts = statement_check._Counts(schema, {})
    fits = {"kind": "marginal", "attributes": ["c0", "c1"], "count": 4}
    assert not any(text for _ in range(many) for text in counts.problems(fits))
    twice = fits | {"attributes": ["c0"] * 1_000_000}
    assert list(counts.problems(twice)) == ["it names a column twice"]
    finished = {"kind": "schema", "attributes": [], "count": 0}
    made = []
    monkeypatch.setattr(statement_check, "schema_bytes", lambda schema: made.append(1) or b"")
    assert not any(text for _ in range(many) for text in counts.problems(finished))
    assert made == [1]
