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


def test_what_is_loaded_ahead_is_the_estimator_and_the_hash_of_the_build():
    code = (
        "import sys, threading; from fastdp.run.preload import preload; preload();"
        "[t.join() for t in threading.enumerate() if t.name == 'fastdp-ahead'];"
        "from fastdp.privacy.statement import build_hash;"
        "print('fastdp.estimate.estimator' in sys.modules, build_hash.cache_info().currsize)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "1"] and not done.stderr
