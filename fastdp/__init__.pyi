from . import errors as errors
from . import mechanisms as mechanisms
from . import privacy as privacy
from . import queries as queries
from . import simulate as simulate
from .engines.truth import marginals as marginals
from .estimate import fit as fit
from .measurement import Measurement as Measurement
from .metrics.check import check as check
from .model import Model as Model
from .privacy.calibrate import calibrate as calibrate
from .privacy.ledger import Ledger as Ledger
from .release.keyselect import select_keys as select_keys
from .report.evaluate import evaluate as evaluate
from .run.plan import plan as plan
from .run.result import Run as Run
from .run.result import load_run as load_run
from .run.synthesize import synthesize as synthesize
from .run.synthesizer import Synthesizer as Synthesizer
from .run.verify import verify as verify
from .schema import Schema as Schema
from .schema.dialect import Dialect as Dialect
from .tables.drafting import draft as draft
from .tables.ingest import read as read
from .tables.sql import sql as sql
from .tables.table import Table as Table

__version__: str
