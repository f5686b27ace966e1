"""Settings shared by all tests: how Hypothesis draws its examples, and where `import oracle` finds its module."""

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

# The same examples on every machine and in every run, and nothing that depends on the clock: the first call of a
# kernel compiles it, and a busy machine is no reason for a test to fail.
repeatable = settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)

settings.register_profile("default", repeatable, max_examples=50)
settings.register_profile("thorough", repeatable, max_examples=1000)
# pytest reads --hypothesis-profile=thorough after this file, so the option wins.
settings.load_profile("default")
