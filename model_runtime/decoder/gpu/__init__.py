"""The same decoder on an NVIDIA GPU: bf16 weights, attention by xformers, decode steps as CUDA graphs.

Every class here also computes on the CPU, in any precision: that is how tests without a GPU check it.
"""

import logging

# It warns at every start that its own kernels are missing, none of which is used here.
logging.getLogger("xformers").setLevel(logging.ERROR)
