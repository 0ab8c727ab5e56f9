"""The trainer for CPUs: kernels in C, and the passes that call them."""
