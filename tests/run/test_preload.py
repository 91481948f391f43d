"""What a run imports before its rows are read, and what it loads meanwhile."""

import subprocess
import sys

LATE = ("scipy.sparse", "fastdp.estimate.estimator", "fastdp.engines.spark", "rich.console")


def test_steps_of_a_run_bring_neither_the_estimator_nor_spark_before_rows_are_read():
    code = (
        "import sys, fastdp.cli.app, fastdp.cli.show, fastdp.run.synthesize, fastdp.mechanisms.adagrid;"
        f"print(*(m for m in {LATE} if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
