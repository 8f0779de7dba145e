"""One profile for all property tests: deterministic, no deadlines, because machines are busy; and a cache of their own."""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "sfumato", deadline=None, derandomize=True, max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("sfumato")


@pytest.fixture(autouse=True, scope="session")
def no_cache_of_ours(tmp_path_factory):
    """Tests neither read nor fill the cache of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


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
