"""Property tests here are about rules and never about time, on a machine that others use too."""

from hypothesis import HealthCheck, settings

settings.register_profile("domain", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("domain")
