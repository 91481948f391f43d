"""Probabilities of one column given others, from a run's model, with scikit-learn's interface.
Nothing is
trained: the model is the classifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._util.lazy import pa
from ..answers.values import values_of
from ..errors import UsageError, did_you_mean
from ..schema.derived import Derived
from .frames import given_rows
from .row_law import RowLaw

Frame = Callable[[Any, str], pa.Table]


def target_column(law: RowLaw, target: Any) -> str:
    """The code column of a target; UsageError if the model has none."""
    schema = law.schema
    field = next((f for f in schema.fields.values() if target in (f.name, f.source)), None)
    if field is not None and isinstance(field, Derived) and target not in schema.columns:
        parts = " or ".join(p.name for p in field.parts)
        raise UsageError(f"target: {target!r} is modelled in parts; use {parts}")
    name = target if field is None else field.name
    if name not in schema.columns:
        more = did_you_mean(target, schema.columns) if isinstance(target, str) else ""
        raise UsageError(f"target: the schema has no column {target!r}{more}")
    if name not in law.columns:
        raise UsageError(f"target: {target!r} is computed from other columns; predict one of these")
    return name


class ModelClassifier:
    """A classifier that needs no training: the probabilities of `target` under a run's model.

    Attributes
    ----------
    classes_ : numpy.ndarray
        The values of the target, in the order of `predict_proba`; of a column of bins, their
        labels. None stands
        for null, "(other)" for values outside the schema.
    feature_names_in_ : numpy.ndarray
        The columns that a frame may have. It may lack some, and have nulls: what is not given is
        not used.
    """

    _estimator_type = "classifier"

    def __init__(self, law: RowLaw, target: str, read: Frame, threads: int | None = None):
        self._law = law
        self.target = target
        self._read = read
        self.threads = threads
        self._column = target_column(law, target)
        column = law.schema.columns[self._column]
        listed = values_of(column).to_pylist()
        # Two codes may have the same value (missing, and outside of the schema): one class.
        seen: dict[Any, int] = {}
        self._class = np.array([seen.setdefault(v, len(seen)) for v in listed])
        plain = all(isinstance(v, int | float) and not isinstance(v, bool) for v in seen)
        self.classes_ = np.array(list(seen), None if plain else object)
        sources = [f.source for f in law.schema.fields.values() if f.name != self._column]
        self.feature_names_in_ = np.array(sources, object)
        self.n_features_in_ = len(sources)

    def fit(self, X: Any = None, y: Any = None) -> ModelClassifier:
        """Return the classifier as it is: the run's model is fitted already."""
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """float64 [rows, classes]: the probability of each class given what the frame has of the
        other columns. A column of the target is ignored."""
        frame = self._read(X, "predict")
        source = self._law.schema.fields.get(self._column)
        own = {self._column, self.target, getattr(source, "source", self._column)}
        user = self._law.schema.user
        frame = frame.select([n for n in frame.column_names if n not in own and n != user])
        given = given_rows(self._law.schema, frame, "draw")
        chances = self._law.chances(self._column, given.known, self.threads)
        out = np.zeros((len(chances), len(self.classes_)))
        np.add.at(out.T, self._class, chances.T)
        return out

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose most probable class is the given one."""
        right = self.predict(X) == np.asarray(y, self.classes_.dtype)
        return float(np.average(right, weights=sample_weight))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """What `sklearn.base.clone` passes on."""
        return {
            "law": self._law,
            "target": self.target,
            "read": self._read,
            "threads": self.threads,
        }

    def set_params(self, **params: Any) -> ModelClassifier:
        """Set `threads`."""
        unknown = set(params) - {"threads"}
        if unknown:
            raise UsageError(
                f"set_params: only threads can be set, got {', '.join(sorted(unknown))}"
            )
        self.threads = params.get("threads", self.threads)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> ModelClassifier:
        return ModelClassifier(self._law, self.target, self._read, self.threads)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=False),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(allow_nan=True, categorical=True, string=True),
            requires_fit=False,
        )

    def __repr__(self) -> str:
        return f"<fastdp classifier of {self.target!r}: {len(self.classes_)} classes>"


def as_table(chances: np.ndarray, classes: np.ndarray, target: str) -> pa.Table:
    """Probabilities as a table with one column for each class, named TARGET=VALUE."""
    names = [f"{target}={'null' if c is None else c}" for c in classes.tolist()]
    return pa.table({name: chances[:, i] for i, name in enumerate(names)})
