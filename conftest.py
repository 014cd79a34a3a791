"""What all tests of this repository have in common."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ()

if find_spec("hypothesis") is not None:
    from hypothesis import HealthCheck, settings

    # A busy machine is slow; that says nothing of what is tested.
    settings.register_profile(
        "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("patient")
