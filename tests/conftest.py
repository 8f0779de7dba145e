"""One profile for all property tests: deterministic, no deadlines, because machines are busy."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "sfumato", deadline=None, derandomize=True, max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("sfumato")
