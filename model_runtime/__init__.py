"""The model in this process: tokenizer, prompt, decoder, arenas, engine."""

import os
import platform

# numpy's BLAS, which nothing here uses, would start a thread for each core, and these spin at first: 60 ms of CPU at
# every start. On other machines than these torch uses such a library, too, and has to share out its products.
if platform.machine() in ("x86_64", "AMD64"):
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
