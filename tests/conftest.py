"""Settings shared by all tests: how Hypothesis draws its examples, where the modules of tests/support are found, one Spark session."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent / "support"))

# The same examples on every machine and in every run, and nothing that depends on the clock: the first call of a
# kernel compiles it, and a busy machine is no reason for a test to fail.
repeatable = settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)

settings.register_profile("default", repeatable, max_examples=50)
settings.register_profile("thorough", repeatable, max_examples=500)
settings.register_profile("brief", repeatable, max_examples=20)  # without compilation: the same tests, many times slower
# pytest reads --hypothesis-profile=thorough after this file, so the option wins.
settings.load_profile("default")


def pytest_addoption(parser):
    """Take turns where there is no time for all tests each day (support/turns.py)."""
    parser.addoption("--turn", metavar="I/N", default="1/1", help="run the i-th of n parts of the tests")


@pytest.hookimpl(tryfirst=True)  # before marks are looked at
def pytest_collection_modifyitems(config, items):
    """Mark two thirds of the wide tests, and leave out the tests of other turns."""
    from turns import is_due

    for item in items:
        if item.get_closest_marker("wide") and not is_due(item.nodeid, "1/3"):
            item.add_marker("rest")
    turn = config.getoption("--turn")
    config.hook.pytest_deselected(items=[item for item in items if not is_due(item.nodeid, turn)])
    items[:] = [item for item in items if is_due(item.nodeid, turn)]


@pytest.fixture(scope="session")
def spark():
    """The one Spark session of a test process."""
    from sparks import new_session

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = new_session()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def trace_file(tmp_path_factory):
    """A generated trace in a file."""
    import penstock as ps

    path = tmp_path_factory.mktemp("traces") / "trace.parquet"
    ps.generate(150, keys=8, importance="rare", seed=3).write(path)
    return path
