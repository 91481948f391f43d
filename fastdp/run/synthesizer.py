"""`Synthesizer`: `synthesize` behind the interface of a scikit-learn estimator.

Nothing of scikit-learn is imported. `fit` is one run, charged once; `sample` draws from what the
run released and costs nothing.
"""

import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Self

from .._util.lazy import pl
from ..errors import UsageError
from ..privacy.ledger import Ledger
from ..schema import Schema
from ..schema.linked_schema import is_linked
from .output import spawned_seeds
from .result import Run
from .synthesize import synthesize


@dataclass(eq=False, repr=False)
class Synthesizer:
    """An estimator whose `fit` learns a private model of a table and whose `sample` draws rows
    like it.

    Parameters
    ----------
    mechanism : str, path or mapping
        As in `fastdp.synthesize`; "auto" suits any table.
    epsilon, delta : float
        The guarantee per person. epsilon is required; delta should be far below 1 / number of people.
    schema : Schema, path or built-in name
        What the columns hold, from public knowledge.
    domain, user, values, clip, public, ledger, dataset, memory, threads
        As in `fastdp.synthesize`. Without a schema, `domain="private"` finds values and bounds in the run,
        and `user` names the column of user ids.
    random_state : int, optional
        Fixes the rows that `sample` draws. The noise is never fixed by it.

    Attributes
    ----------
    run_ : fastdp.Run
        What `fit` released: statement, measurements, model.
    feature_names_in_ : list of str
    n_features_in_ : int
    """

    mechanism: str | os.PathLike[str] | Mapping[str, Any] = "auto"
    epsilon: float | None = None
    delta: float = 1e-9
    _: KW_ONLY
    schema: Schema | str | os.PathLike[str] | None = None
    domain: str | None = None
    user: str | None = None
    values: Mapping[str, Any] | None = None
    clip: int | str | None = None
    public: Any = None
    ledger: Ledger | str | os.PathLike[str] | None = None
    dataset: str | None = None
    memory: int | None = None
    threads: int | None = None
    random_state: int | None = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, by name, as they were given."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; UsageError for one that does not exist."""
        for name, value in params.items():
            if name not in (known := self.get_params()):
                raise UsageError(f"there is no parameter {name!r}; choose from {', '.join(known)}")
            setattr(self, name, value)
        return self

    def fit(self, X: Any, y: None = None) -> Self:
        """One private run on the rows of X: any source that `fastdp.read` takes. Charged each time.

        y must be None: a target is a column of X like any other.
        """
        if y is not None:
            raise UsageError("y must be None: put the target into X as a column")
        if isinstance(X, Mapping) or is_linked(self.schema):
            raise UsageError(
                "a Synthesizer makes one table; linked tables are made by fastdp.synthesize"
            )
        options = self.get_params()
        seed = options.pop("random_state")
        self.run_: Run = synthesize(X, sample_seed=seed, **options)
        self.feature_names_in_ = list(self.run_.schema.domain)
        self.n_features_in_ = len(self.feature_names_in_)
        self._frame = _frame_of(X)
        self._drawn = 0
        return self

    def sample(self, n: int | None = None, where: Mapping[str, Any] | None = None) -> Any:
        """n synthetic rows (default: as many as the run estimated), further ones with each call;
        with `where` only rows that match it, as of `Run.sample`.

        A frame of the kind that `fit` was given: pandas, polars, else `pyarrow.Table`.
        """
        if not hasattr(self, "run_"):
            raise UsageError("call fit(X) before sample(n)")
        if n is None:
            if where:
                raise UsageError("where needs a number of rows: sample(n, where=...)")
            table = self.run_.to_arrow()
        else:
            seed = None
            if self.random_state is not None:
                (seed,) = spawned_seeds(self.random_state, 1, (self._drawn,))
            table = self.run_.sample(n, seed, where)
            self._drawn += 1
        if self._frame == "pandas":
            return table.to_pandas()
        return pl.from_arrow(table) if self._frame == "polars" else table

    def __repr__(self) -> str:
        values = [(field, getattr(self, field.name)) for field in fields(self)]
        changed = [
            f"{field.name}={value!r}" for field, value in values if value is not field.default
        ]
        return f"Synthesizer({', '.join(changed)})"


def _frame_of(source: Any) -> str:
    """pandas, polars or arrow: the library that a frame is of."""
    root = type(source).__module__.partition(".")[0]
    return root if root in ("pandas", "polars") else "arrow"
