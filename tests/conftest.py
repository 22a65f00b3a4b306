"""What every test gets: a state folder, no colours, hypothesis settings, shared data or a skip.

Random order and its seed come from pytest-randomly (`-p "randomly_seed=N"` repeats a run); a
hypothesis failure prints the decorator that repeats it.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]
SHARED_DATA = ROOT.parent / "shared" / "data"

settings.register_profile(
    "default",
    deadline=None,
    print_blob=True,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("short", settings.get_profile("default"), max_examples=20)
settings.register_profile("long", settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session", autouse=True)
def own_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test sees the user's state, settings or terminal."""
    with pytest.MonkeyPatch.context() as environment:
        for name in [name for name in os.environ if name.startswith("MATCHBOX_")]:
            if name != "MATCHBOX_CACHE_DIR":
                environment.delenv(name)
        environment.setenv("MATCHBOX_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        environment.setenv("NO_COLOR", "1")
        environment.setenv("COLUMNS", "100")
        yield


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """Path of a file of the data with known answers; skips where it is absent."""

    def path_of(name: str) -> Path:
        path = SHARED_DATA / name
        if not path.exists():
            pytest.skip(f"../shared/data/{name} is not on this machine")
        return path

    return path_of
