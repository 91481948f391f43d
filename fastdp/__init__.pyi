from . import (
    errors as errors,
    mechanisms as mechanisms,
    privacy as privacy,
    queries as queries,
    simulate as simulate,
)
from ._util.compiled import compiled as compiled
from .catalogs.write import export as export
from .engines.truth import marginals as marginals
from .estimate.estimator import fit as fit
from .measurement import Measurement as Measurement
from .metrics.check import check as check
from .model.graphical_model import Model as Model
from .privacy.calibrate import calibrate as calibrate
from .privacy.ledger import Ledger as Ledger
from .release.keyselect import select_keys as select_keys
from .report.evaluate import evaluate as evaluate
from .run.linked_result import LinkedRun as LinkedRun
from .run.loading import load_run as load_run, scan as scan
from .run.plan import plan as plan
from .run.publish import publish as publish
from .run.result import Run as Run
from .run.spark_reader import register_spark as register_spark
from .run.synthesize import synthesize as synthesize
from .run.synthesizer import Synthesizer as Synthesizer
from .run.verify import verify as verify
from .schema import Schema as Schema
from .schema.dialect import Dialect as Dialect
from .schema.linked_schema import LinkedSchema as LinkedSchema
from .tables.drafting import draft as draft
from .tables.ingest import read as read
from .tables.sources.source import source as source
from .tables.sql import sql as sql
from .tables.table import Table as Table

__version__: str
