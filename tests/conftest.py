import os
from tempfile import TemporaryDirectory

from hypothesis import settings

settings.register_profile("busy machine", deadline=None)  # no test asserts a time
settings.load_profile("busy machine")

CACHE = TemporaryDirectory(prefix="efim-ls-tests-")  # no test sees what its user's servers keep
os.environ["XDG_CACHE_HOME"] = CACHE.name
