"""Trains by autograd, where our kernels for CPUs do not run: on GPUs, and on CPUs without AVX-512 in bf16."""
