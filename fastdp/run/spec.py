"""The options of `synthesize`, and the frozen spec that a checked call becomes."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, make_dataclass, replace
from inspect import Parameter, signature
from typing import Any, Literal, TypedDict, TypeVar

from .._util.progress import Progress, Reporter
from ..engines.engine import ENGINES
from ..errors import UsageError, did_you_mean
from ..mechanisms.base import Config
from ..mechanisms.recipe import Recipe
from ..mechanisms.registry import MECHANISMS
from ..numbers.typed import TypedNumber
from ..privacy.ledger import Ledger, opened
from ..schema import Schema
from ..schema.dialect import Dialect
from ..schema.linked_schema import LinkedSchema
from ..tables.sources.source import Source
from .folder import RunFolder
from .number_options import NumberOptions, exact_fields
from .public_data import public_entry
from .source_checks import check_source
from .status import RunStatus

DEFAULT_DELTA = float("1e-9")
"""The delta of a run that names none. Compared by identity: a series replaces this one alone."""

Path = str | os.PathLike[str]
Function = TypeVar("Function", bound=Callable[..., Any])

LIMITS = ("max_cells", "memory", "deadline")
"""Fields of recipes that limit a run's model or memory; they may be changed when the run is
resumed."""


class Options(TypedDict, total=False):
    """The options of a run, for type checkers. `RunOptions` has the same, with `DEFAULTS`."""

    schema: Schema | LinkedSchema | Mapping[str, Any] | Path | None
    domain: str | None
    user: str | None
    values: Mapping[str, Path | Sequence[str] | Sequence[int]] | None
    dialect: Dialect | Mapping[str, Any] | None
    rows: int | None
    public: Any
    previous: Any
    ledger: Ledger | Path | None
    dataset: str | None
    series: str | None
    period: str | None
    late: bool
    seed: int | None
    sample_seed: int | None
    threads: int | None
    memory: int | None
    deadline: float | None
    progress: Callable[[Progress], None] | Literal[False] | None
    cancel: Callable[[], bool] | threading.Event | None
    out: Path | None
    private_dir: Path | None
    resume: bool
    report: bool
    clip: int | str | Mapping[str, int | str] | None
    max_cells: int | None
    engine: str | None
    partitions: int | None
    numbers: Sequence[str] | Mapping[str, Any] | None
    important: Mapping[str, Any] | None
    ignore_empty_columns: bool
    diagnose: bool


FLAGS = ("late", "resume", "report", "ignore_empty_columns", "diagnose")
DEFAULTS = dict.fromkeys(Options.__annotations__) | dict.fromkeys(FLAGS, False)
_Base: Any = make_dataclass(
    "_Base", [(n, Any, v) for n, v in DEFAULTS.items()], frozen=True, kw_only=True
)


class RunOptions(_Base):
    """The options of a run with their defaults, as the caller gave them; `synthesize` documents
    each."""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> RunOptions:
        """UsageError for an option that does not exist."""
        for name in options:
            if name not in DEFAULTS:
                raise UsageError(
                    f"synthesize has no option {name!r}{did_you_mean(name, list(DEFAULTS))}"
                )
        return cls(**options)


def lists_options(function: Function) -> Function:
    """Give a function that ends in `**options` the signature that lists every option with its
    default."""
    plain = signature(function)
    listed = [
        Parameter(n, Parameter.KEYWORD_ONLY, default=DEFAULTS[n], annotation=a.__forward_arg__)
        for n, a in Options.__annotations__.items()
    ]
    own = [p for p in plain.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
    function.__signature__ = plain.replace(parameters=[*own, *listed])  # type: ignore[attr-defined]
    return function


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One call of `synthesize` whose arguments have been checked. `asked`: the schema as it was
    given; `schema`: the same, or the finished one once private domains were found; `plugins`: what
    the statement says of code from outside; `previous`: the run whose rows are its prior."""

    options: RunOptions
    asked: Schema
    schema: Schema
    recipe: Recipe
    configs: tuple[Config, ...]
    epsilons: tuple[float, ...]
    delta: float
    several: bool
    reporter: Reporter
    status: RunStatus
    numbers: NumberOptions | None = None
    plugins: tuple[dict[str, str], ...] = ()
    previous: Any = None

    @property
    def asked_numbers(self) -> tuple[TypedNumber, ...]:
        """The numbers that are asked for, under the run's schema."""
        if self.numbers is None:
            return ()
        return self.numbers.typed(self.schema, tuple(self.asked.unfinished))

    @property
    def reading_schema(self) -> Schema:
        """The schema by which the private rows are read: also exact values, for the numbers."""
        names = exact_fields(self.asked_numbers)
        return self.schema.with_exact([*self.schema.exact, *names])

    @property
    def tables(self) -> tuple[RunSpec, ...]:
        """The spec of each table: this one, but for linked tables."""
        return (self,)

    @property
    def promised(self) -> tuple[float, ...]:
        """The epsilons that were asked for."""
        return self.epsilons

    @property
    def made_columns(self) -> tuple[str, ...]:
        """Columns of the schema that no source has; those of linked tables."""
        return ()

    @property
    def described(self) -> dict[str, Any]:
        """What the statement says of the run beside its recipe."""
        return {}

    def check_source(self, source: Source) -> None:
        """Raises, before anything is charged, if the source cannot be read by the schema."""
        check_source(source, self.schema)
        engine = ENGINES.get(str(self.options.engine))()
        engine.check_unit(self.schema)
        engine.check_run(source, self.schema, self.numbers is not None)

    def with_schema(self, schema: Schema) -> RunSpec:
        """The spec after private domains were found: configs are resolved again by the finished
        schema."""
        configs = tuple(
            self.recipe.config(e).resolved(schema, e, self.delta) for e in self.epsilons
        )
        for config in configs:
            config.check_all(schema)
        return replace(self, schema=schema, configs=configs)

    def arguments(self) -> dict:
        """What decides a run's measurements and output; a resumed run must have the same."""
        recipe = {key: value for key, value in self.recipe.fields.items() if key not in LIMITS}
        public = self.options.public
        made: dict[str, Any] = {} if self.numbers is None else {"numbers": self.numbers.plain()}
        made |= {"late": True} if self.options.late else {}
        if self.previous is not None:
            made["previous"] = self.previous.privacy["ledger"]["run"]
        return made | {
            "schema": self.asked.digest(),
            "mechanism": self.recipe.mechanism,
            "fields": json.loads(json.dumps(recipe, default=str)),
            "epsilon": list(self.epsilons),
            "delta": self.delta,
            "rows": self.options.rows,
            "dataset": self.options.dataset,
            "public": None if public is None else public_entry(public)["name"],
            "seed": self.options.seed,
            "sample_seed": self.options.sample_seed,
        }

    def limits(self) -> list[dict]:
        """The arguments that may differ when a run is resumed, as long as no step entered in the
        ledger depended on them."""
        return [config.limits_used() for config in self.configs]

    def open_ledger(self, folder: RunFolder) -> Ledger:
        """The ledger that this run was charged in."""

        return opened(self.options.ledger, None, folder.private / "ledger.db")[0]

    def label(self, i: int) -> str:
        return f"eps-{self.epsilons[i]:g}"

    def timings(self, i: int) -> dict[str, float]:
        """Seconds of each stage; what all runs share is the first one's."""
        return self.reporter.spent(self.label(i) if self.several else "", shared=i == 0)


def plugins_of(recipe: Recipe, sources: Sequence[Source | None]) -> tuple[dict[str, str], ...]:
    """The plug-ins that take part in a run, for its statement: the mechanism, and those among its
    sources, private and public."""
    single = [one for source in sources if source is not None for one in source.single]
    found = [MECHANISMS.plugin(recipe.mechanism), *(one.plugin for one in single)]
    return tuple(plugin for plugin in found if plugin is not None)


def plugin_note(plugins: Sequence[Mapping[str, str]]) -> str:
    """What a statement says where code from outside took part."""
    listed = ", ".join(
        f"{p['kind']} {p['name']!r} of {p['package']} {p['version']}" for p in plugins
    )
    return (
        f"code from outside fastdp took part: {listed}; the guarantee supposes that it reads the"
        " private rows only through fastdp's session, or, if it is a source, hands them all over"
        " and keeps nothing"
    )
