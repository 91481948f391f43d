"""What every run of fastdp needs, imported once in the process that all runs are forked from.

Only imports: a process that is forked must not have threads that work.
"""

import mpmath  # noqa: F401
import pyarrow.compute  # noqa: F401
import scipy.sparse  # noqa: F401

from fastdp.estimate import estimator  # noqa: F401
from fastdp.mechanisms import registry
from fastdp.model import array_file, sampler  # noqa: F401
from fastdp.privacy.statement import build_hash
from fastdp.run import execute  # noqa: F401

from . import runs  # noqa: F401

registry.names()
build_hash()
