"""What a package outside fastdp needs to add a mechanism, a metric or a source.

docs/guide/plugins.md says how, and what trusting a plug-in means. The names here are kept stable;
other modules of fastdp may change between versions.
"""

from .domain import Clique, Domain
from .measurement import Measurement, Request
from .mechanisms.base import Config, Job, Outcome
from .mechanisms.plans import Outline, Planned, PlannedStep
from .mechanisms.registry import MECHANISMS, Traits, mechanism
from .mechanisms.shared.model_rows import ModelRows
from .mechanisms.shared.planned_mechanism import PlannedMechanism
from .metrics.compare import Comparison
from .metrics.inputs import Pair
from .metrics.metric import METRICS, metric
from .release.gateway import Session
from .schema.dialect import Dialect
from .tables.parts import Part, of_batches
from .tables.sources.source import SOURCES, Source

__all__ = [
    "MECHANISMS",
    "METRICS",
    "SOURCES",
    "Clique",
    "Comparison",
    "Config",
    "Dialect",
    "Domain",
    "Job",
    "Measurement",
    "ModelRows",
    "Outcome",
    "Outline",
    "Pair",
    "Part",
    "Planned",
    "PlannedMechanism",
    "PlannedStep",
    "Request",
    "Session",
    "Source",
    "Traits",
    "mechanism",
    "metric",
    "of_batches",
]
