"""The same decoder on an NVIDIA GPU: bf16 weights, attention by xformers, decode steps as CUDA graphs.

Every class here computes on the CPU, too, in any precision: that is how tests without a GPU check it.
"""

import logging

# It says at every start that it lacks kernels of its own, none of which is used here.
logging.getLogger("xformers").setLevel(logging.ERROR)
