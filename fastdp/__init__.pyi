from . import errors as errors
from . import mechanisms as mechanisms
from . import privacy as privacy
from . import queries as queries
from . import simulate as simulate
from .evaluate import evaluate as evaluate
from .ingest import read as read
from .keyselect import select_keys as select_keys
from .measurement import Measurement as Measurement
from .model import Model as Model
from .model import fit as fit
from .plan import plan as plan
from .privacy.calibrate import calibrate as calibrate
from .privacy.ledger import Ledger as Ledger
from .result import Run as Run
from .result import load_run as load_run
from .run import synthesize as synthesize
from .schema import Schema as Schema
from .table import Table as Table
from .truth import marginals as marginals
from .verify import verify as verify

__version__: str
