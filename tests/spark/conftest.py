"""One Spark session for these tests, of the kind that FASTDP_TEST_SPARK names: a master, or
`connect`.

`make test-spark` runs them with each: a process holds sessions of one kind.
"""

import os
import shutil
import sys

import pytest

MODE = os.environ.get("FASTDP_TEST_SPARK", "")
RETRIES = "local[2,4]"
collect_ignore_glob = [] if MODE else ["test_*.py"]


def reason() -> str:
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "Spark needs Java 17 (on Debian: openjdk-17-jre-headless)"
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "pyspark is not installed: fastdp[spark]"
    return ""


def pytest_collection_modifyitems(items):
    why = reason()
    cluster = MODE.startswith("local-cluster")
    for item in items:
        if "spark" not in item.path.parts:
            continue
        if why:
            item.add_marker(pytest.mark.skip(reason=why))
        elif cluster != (item.path.name == "test_cluster.py"):
            item.add_marker(pytest.mark.skip(reason="for another kind of session"))


@pytest.fixture(scope="session")
def spark():
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.config("spark.sql.shuffle.partitions", "2")
    if MODE == "connect":
        builder = builder.remote(RETRIES)
    else:
        builder = builder.master(MODE).config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def shipped(request):
    """Tasks of a test's file are sent to the executors, which cannot import it."""
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    cloudpickle.register_pickle_by_value(request.module)
