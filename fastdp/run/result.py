"""A finished run: its statement, measurements, model and rows, in memory or in a run folder."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._util.files import synthetic_path
from .._util.lazy import pa, pl
from ..errors import FastdpError, RunError, UsageError, is_whole
from ..measurement import Measurement
from ..model.graphical_model import Model
from ..schema import Schema
from .matching_rows import stored_rows
from .output import Output
from .run_files import reading_folder, write_page, write_rows

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.dataset as pads

    from ..answers.answered import Answer
    from ..answers.concentration import TopShare
    from ..answers.facts import Facts
    from ..answers.people_facts import PeopleFacts
    from ..answers.verdict import Verdict
    from ..ondemand.classifier import ModelClassifier
    from ..ondemand.row_law import RowLaw
    from ..ondemand.stored_law import StoredLaw


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run. Everything in it may be released, except `timings`, which depend on the data.

    Attributes
    ----------
    privacy : dict
        The statement (`privacy.json`): epsilon, delta, unit, every release with its noise.
    measurements : sequence of Measurement
        The noisy answers with their standard errors, in rows.
    model : Model or None
        The fitted model the rows were drawn from, where the mechanism has one.
    schema : Schema
    out : Path or None
        The run folder.
    timings : dict of str to float
        Seconds of each stage; not for release.
    tables : mapping of str to pyarrow.Table
        Further results of the mechanism.
    """

    privacy: dict
    measurements: Sequence[Measurement]
    model: Model | None
    schema: Schema
    out: Path | None = None
    timings: dict[str, float] = field(default_factory=dict)
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    _output: Output | None = None

    @cached_property
    def data(self) -> pa.Table:
        """All synthetic rows, in memory; `dataset` and `reader` do not hold them all at once."""
        with reading_folder(self.out):
            return self.reader().read_all()

    @property
    def numbers(self) -> pa.Table | None:
        """The numbers that were asked for before the run (`numbers=`), with 95 % intervals; None if
        none were.

        Columns: number (as asked), one for each `by` name (null where it does not apply), estimate,
        low, high; of sums also the sum with each user counted up to `cap`: capped, capped_low,
        capped_high; mu (what the number cost) and note. See docs/guide/press-numbers.md.
        """
        return self.tables.get("numbers")

    @cached_property
    def verdict(self) -> Verdict:
        """What the run is good for and what it is not for, from what it released. `print` shows it;
        `good_for`, `not_for` and `figures` are its sentences, `warn` says that most columns show
        little."""
        from ..answers.released_precision import released_precision
        from ..answers.verdict import judge

        with reading_folder(self.out):
            known = released_precision(self._facts, self.privacy, self.tables, self.measurements)
            return judge(known)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Notes of the statement, then what was left out, lost or not measured."""
        from ..answers.losses import losses

        with reading_folder(self.out):
            makes = self.privacy.get("mechanism", {}).get("name") in _makers_of_users()
            said = [sentence for _, sentence in losses(self._facts, self.privacy, makes)]
        return (*self.privacy.get("notes", ()), *said)

    @property
    def dataset(self) -> pads.Dataset:
        """The rows of a run that was written with `out=`, as a lazy dataset of its files."""
        import pyarrow.dataset as pads

        if self.out is None:
            raise RunError("this run was not written to a folder (out=); its rows are in run.data")
        with reading_folder(self.out):
            return pads.dataset(synthetic_path(self.out), format="parquet")

    @property
    def _made(self) -> Output:
        if self._output is None:
            raise RunError("the rows of this run were neither written nor kept in memory")
        return self._output

    def reader(self) -> pa.RecordBatchReader:
        """The synthetic rows as an Arrow stream, shard by shard; nothing is kept."""

        if self.out is not None:
            return self.dataset.scanner().to_reader()
        schema = self._made.arrow_schema()
        batches = (batch for table in self._made.tables() for batch in table.to_batches())
        return pa.RecordBatchReader.from_batches(schema, batches)

    def answer(
        self,
        of: str = "count",
        by: Sequence[str] | str = (),
        where: Mapping[str, Any] | None = None,
        level: float = 0.95,
        *,
        simultaneous: bool = False,
        minus: Mapping[str, Any] | None = None,
        over: Mapping[str, Any] | None = None,
        population: bool = False,
        basis: str | None = None,
    ) -> Answer:
        """A number per group of the true table's rows, with an interval; it costs no budget.

        Parameters
        ----------
        of : str
            "count", "share" (of all rows), "mean(COLUMN)" or "sum(COLUMN)". "count of users", "share of
            users" and "mean(FACT) of users" are about the facts that the run released of its users:
            `rows`, `first(COLUMN)`, `last(COLUMN)`, `active(COLUMN)`, `sum(COLUMN)`,
            `distinct(COLUMN)`, and constant columns; `by` and `where` name such facts too.
        by : str or sequence of str
            The columns whose values make the groups; none: all rows together. A time that is counted in
            parts may be named itself or as "month(COLUMN)": also year, quarter, weekday, date, hour.
        where : mapping, optional
            The rows that count: column to a value, a list of values, or a range (low, high), low <= value <
            high.
        level : float
            The probability with which each interval holds the true number.
        simultaneous : bool
            All intervals of the answer together hold with this probability (Bonferroni).
        minus : mapping, optional
            One value for each column of `by`: every number is then the difference from that group's.
        over : mapping, optional
            The same, for the ratio to that group's number.
        population : bool
            Intervals for the population that the users of the table (rows, without a user column) were
            drawn from: `error` includes `sampling`.
        basis : "bound", optional
            Intervals of means and sums that hold wherever rows lie inside their bins. They are wide. The
            default is an approximate interval, by how rows of other groups lie in the bins.

        Returns
        -------
        Answer
            A `pyarrow.Table` (`table`; its methods work on the answer too) with `notes`; `print`
            shows it, and a notebook draws it. Its columns: The columns of `by` (values, not codes),
            `estimate`, `error` (standard error), `low`, `high`, `basis` and the parts of the error:
            `noise`, `clipping` and `model` are standard errors. The interval is the estimate plus
            and minus z times `error`; of clipping the larger side is given, and the other end is
            closer. `basis` is "measured" (exact), "bound" (exact, widened by `bins`), "approximate"
            (`bins` is a standard error of where rows lie inside bins, and part of `error`), "model"
            (approximate) or "unknown": then there is no interval, and `note` says why. A number
            that was asked for before the run (`numbers`) takes the answer's place, or is combined with
            it where both have Gaussian noise alone. Where an
            answer is too wide to print, `note` says which number to ask for.
        """
        from .answering import answer_of

        return answer_of(
            self,
            of,
            by,
            where,
            level,
            simultaneous=simultaneous,
            minus=minus,
            over=over,
            population=population,
            basis=basis,
        )

    def top_share(self, column: str, part: float = 0.1, level: float = 0.95) -> TopShare:
        """The part of a column's total that the largest users have; it costs no budget.

        Parameters
        ----------
        column : str
            A column whose sum per user the run released: one of `amounts` of the schema's `[user]`.
        part : float
            The part of the users who count as the largest: 0.1 for the top 10 %.
        level : float
            The probability with which an interval holds the true share, rows counted as the middle of
            their bins.

        Returns
        -------
        TopShare
            `estimate`, `low` and `high`, as parts of 1; `least` and `most`: the interval that holds
            wherever inside the bins of the released histogram users lie.
        """
        from .answering import top_share_of

        return top_share_of(self, column, part, level)

    @property
    def _mu(self) -> float | None:
        """mu of all the run; None where its noise is not Gaussian."""
        events = [part["event"].get("mu") for part in self.privacy.get("parts") or ()]
        return math.sqrt(sum(mu * mu for mu in events)) if events and all(events) else None

    @cached_property
    def _people_facts(self) -> PeopleFacts:
        from ..answers.people_facts import people_facts

        return people_facts(self.privacy, self.schema, self.measurements, self.tables)

    @cached_property
    def _facts(self) -> Facts:
        from ..answers.facts import Facts

        return Facts.of(self.privacy, self.schema, self.measurements, self.tables, self.model)

    def sample(
        self,
        n: int,
        seed: int | None = None,
        where: Mapping[str, Any] | None = None,
        *,
        weights: Mapping[str, Any] | None = None,
    ) -> pa.Table:
        """`n` further synthetic rows, as a `pyarrow.Table`: post-processing, it costs no budget.

        Parameters
        ----------
        n : int
        seed : int, optional
            Fixes the rows; None: other rows each time.
        where : mapping, optional
            Only such rows: a column to a value, a list of values, a range (low, high) with low <=
            value < high, or None for null. They are drawn from the model given the conditions,
            however rare they are.
        weights : mapping, optional
            A balanced design: a column to its values with the share of rows that each is to have,
            to a list of values with equal shares, or to "equal" (all its values). A key may be a
            range (low, high). Several columns are crossed.

        Returns
        -------
        pyarrow.Table
            A run without a model of its rows gives some of its own rows instead, each at most once.
        """
        if not is_whole(n, 0):
            raise UsageError(f"n must be a whole number >= 0, got {n!r}")
        from .on_demand import sampled, seed_of

        own = seed_of(seed)
        if self._output is not None and not where and not weights:
            return pa.concat_tables(self._output.again(n, own).tables())
        with reading_folder(self.out):
            if self.model is not None:
                return sampled(self, n, own, where, weights)
            if weights:
                raise UsageError("weights need a run with a model of its rows; this one has none")
            parts = (pa.Table.from_batches([batch]) for batch in self.reader())
            return stored_rows(parts, n, where or {}, own)

    def complete(
        self,
        frame: Any,
        seed: int | None = None,
        *,
        nulls: str = "fill",
        threads: int | None = None,
    ) -> pa.Table:
        """Whole rows from partial ones, as a `pyarrow.Table`: post-processing, it costs no budget.

        Parameters
        ----------
        frame : frame, path or anything that `fastdp.read` takes
            Some of the columns, in any order. Row i of the result has the values of row i.
        seed : int, optional
            Fixes what is drawn; None: other rows each time.
        nulls : {"fill", "draw", "keep"}
            A null of the frame becomes a value ("fill"), a value or null as the model has them
            ("draw"), or is itself the value ("keep"). Columns that the frame does not have are
            drawn with nulls.
        threads : int, optional
            The result does not depend on it.

        Returns
        -------
        pyarrow.Table
            All columns. What the frame does not have is drawn from the distribution of the run's
            synthetic rows given what it has. Constraints of the schema hold. The result is about
            the rows of the
            frame: if these are private, it is private too (docs/guide/rows-on-demand.md).
        """
        from .on_demand import completed_frame

        with reading_folder(self.out):
            return completed_frame(self, frame, seed, nulls, threads)

    def predict(self, frame: Any, target: str, *, threads: int | None = None) -> pa.Table:
        """The probability of every value of a column given others, under the run's model. The
        table has a column TARGET=VALUE for each value. Columns that the frame lacks, and nulls, are
        not used. It costs no budget."""
        from ..ondemand.classifier import as_table

        made = self.classifier(target, threads=threads)
        return as_table(made.predict_proba(frame), made.classes_, target)

    def classifier(self, target: str, *, threads: int | None = None) -> ModelClassifier:
        """A classifier of a column with scikit-learn's interface: `predict_proba`, `predict`,
        `classes_`. It is the run's model itself and needs no training."""
        from .on_demand import classifier_of

        with reading_folder(self.out):
            return classifier_of(self, target, threads)

    @cached_property
    def _user_sizes(self) -> np.ndarray:
        from .on_demand import user_sizes

        return user_sizes(self)

    @cached_property
    def _written_schema(self) -> Schema:
        """The schema by which rows are written: with means of bins that the released counts show."""
        from .placed_means import with_placed_means

        return with_placed_means(self.schema, self.measurements, self.tables)

    @cached_property
    def _law(self) -> RowLaw:
        from .on_demand import law_of

        return law_of(self._written_schema, self.model, self.privacy)

    @cached_property
    def _stored_law(self) -> StoredLaw:
        from .on_demand import stored_law_of

        return stored_law_of(self)

    def to_arrow(self) -> pa.Table:
        """All synthetic rows as one `pyarrow.Table`: `data`."""
        return self.data

    def to_polars(self) -> pl.DataFrame:
        """All synthetic rows as a `polars.DataFrame`."""

        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def to_pandas(self) -> pd.DataFrame:
        """All synthetic rows as a `pandas.DataFrame` (needs pandas)."""
        return self.to_arrow().to_pandas()

    def to_spark(self, spark: Any) -> Any:
        """The synthetic rows as a Spark DataFrame, made by the executors from the model.

        Parameters
        ----------
        spark : pyspark.sql.SparkSession
            Classic or Connect; its executors must have this build of fastdp. Partition i holds the rows of
            block i (16 shards), in their order; a task that runs again makes the same rows. A run that was
            loaded from its folder is read from that folder, which the executors must be able to read.

        Returns
        -------
        pyspark.sql.DataFrame
            A column of a type that Spark does not have gets the next larger type.
        """
        from .spark_output import frame

        if self._output is None and self.out is not None:
            return spark.read.parquet(str(synthetic_path(self.out).absolute()))
        return frame(spark, self._made)

    def page(self, path: str | os.PathLike[str], about: Any = None) -> None:
        """Write the page that may be published, from the run's folder alone.

        Parameters
        ----------
        path : path
            Where the HTML page is written; it loads nothing from the network. Next to the run folder
            it links the rows.
        about : About, mapping or path of a TOML file, optional
            What the head of the page says: title, description, license, contact, creator, date, url,
            version, and `base`, the address where the folder is published.
        """
        write_page(self.out, path, about)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the synthetic rows to one file, whole or not at all: .parquet, .csv, .arrow or
        .feather."""
        with self.reader() as reader:
            write_rows(reader, path)

    @property
    def _rows(self) -> int | None:
        """How many synthetic rows there are, without making them."""
        if self._output is not None:
            return self._output.rows.total
        return None if self.out is None else self.dataset.count_rows()

    def _repr_html_(self) -> str:
        """For notebooks: what is promised, how the rows were made, and which columns go
        together."""
        from ..report.notebook import run_html

        with reading_folder(self.out):
            return run_html(self, self._rows)

    def __arrow_c_stream__(self, requested_schema=None):
        return self.reader().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        where = f", out={str(self.out)!r}" if self.out else ""
        epsilon, delta = self.privacy.get("epsilon", 0.0), self.privacy.get("delta", 0.0)
        seeded = " not private (seed)" if self.privacy.get("private") is False else ""
        promise = f"epsilon={epsilon:.6g} delta={delta:.6g}{seeded}{where}"
        try:
            headline = self.verdict.headline
        except FastdpError:  # of a damaged folder; `verify` says what is wrong
            headline = ""
        return f"<fastdp.Run {promise}>" + (f"\n{headline}" if headline else "")


def _makers_of_users() -> tuple[str, ...]:
    """Mechanisms that make whole users instead of dealing rows to them."""
    from ..mechanisms.registry import names_where

    return tuple(names_where(lambda traits: traits.makes_users))
