"""Code that every machine has, for experiments to which none is named."""

import sysconfig
from pathlib import Path

ASYNCIO = Path(sysconfig.get_path("stdlib"), "asyncio")  # the embedded model was not trained on it
