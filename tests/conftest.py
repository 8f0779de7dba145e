"""One profile for all property tests: deterministic, no deadlines, because machines are busy; chance that can be
repeated; and a cache of their own."""

import functools
import os
import random
import secrets
import sys

import pytest
from hypothesis import HealthCheck, settings
from tests import chromium

os.environ.setdefault("SFUMATO_PATIENCE", "0.02")  # default searches are quick here, in processes of their own too
settings.register_profile(
    "sfumato", deadline=None, derandomize=True, max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("sfumato")
DRAWN = random.Random()  # in place of the system's randomness
os.register_at_fork(after_in_child=DRAWN.seed)  # processes of their own draw as they would


@pytest.fixture(autouse=True, scope="session")
def chance_of_ours():
    """Noise, keys and tokens are drawn by the name of what draws them: what failed once fails again, and what did not
    will not, however rare it is. CHANCE=… in the environment draws others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", DRAWN.randbytes)
        patch.setattr(secrets, "randbelow", DRAWN.randrange)
        patch.setattr(secrets, "token_bytes", lambda nbytes=None: DRAWN.randbytes(nbytes or secrets.DEFAULT_ENTROPY))
        yield


def drawn_by(name):
    DRAWN.seed(os.environ.get("CHANCE", "") + name)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef):
    if fixturedef.scope != "function":
        drawn_by(f"{fixturedef.baseid}::{fixturedef.argname}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    drawn_by(item.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    drawn_by(item.nodeid)


@functools.cache
def makes_once(path):
    """Whether a file has something that all its tests share: it would be made anew in every process that runs some."""
    return path.suffix == ".py" and 'scope="module"' in path.read_text("utf-8")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With --dist loadgroup all tests of Spark go to one process, so that one Spark runs at a time, and so do those of
    each file that makes something for all of them.

    The plugin's own mark xdist_group has no effect with pytest 9.2, which ignores the name it is passed on by.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class OnePlace(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            path = config.rootpath / nodeid.split("::")[0]
            if path.name.startswith("test_spark"):
                return "spark"
            return path.name if makes_once(path) else nodeid

    return OnePlace(config, log)


@pytest.fixture(autouse=True, scope="session")
def no_cache_of_ours(tmp_path_factory):
    """Tests neither read nor fill the cache of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def patient(monkeypatch):
    """Searches long enough for laws of the values that they find."""
    monkeypatch.setenv("SFUMATO_PATIENCE", "0.2")


@pytest.fixture(scope="module")
def patient_file():
    """The same for all tests of a file, where what is found at one level is compared with what is found at another."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SFUMATO_PATIENCE", "0.1")
        yield


@pytest.fixture(scope="module")
def browser():
    """Chromium for the pages of one module."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as engine:
        running = engine.chromium.launch(executable_path=chromium.path(), args=chromium.ARGUMENTS)
        yield running
        running.close()


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """One Spark for all tests of the process; what it must find is asked for when it starts."""
    from pyspark.sql import SparkSession
    from tests import spark_cluster

    builder = SparkSession.builder.master("local[2]")
    for name, value in spark_cluster.SETTINGS.items():
        builder = builder.config(name, value)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in spark_cluster.environment(tmp_path_factory.mktemp("spark")).items():
            patch.setenv(name, value)
        running = builder.getOrCreate()
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def no_methods_of_others():
    """What a test or a page registers is gone after it."""
    yield
    if (choose := sys.modules.get("sfumato.designers.choose")) is not None:
        choose.REGISTERED.clear()


def pytest_terminal_summary(terminalreporter):
    """Name every test that was left out, with the reason: a skipped test must not look like a passed one."""
    left_out = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        left_out.setdefault(reason.removeprefix("Skipped: "), []).append(report.nodeid)
    for reason, names in left_out.items():
        terminalreporter.write_line(f"left out because {reason}:", yellow=True)
        for name in names:
            terminalreporter.write_line(f"  {name}")


@pytest.fixture
def folder(tmp_path):
    """An empty folder beside what is released."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture
def people(tmp_path):
    """A Parquet file of two hundred rows."""
    from pyarrow import parquet
    from tests.streaming_data import rows

    parquet.write_table(rows(), tmp_path / "people.parquet")
    return tmp_path / "people.parquet"
