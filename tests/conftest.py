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
