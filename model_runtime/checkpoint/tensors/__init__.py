"""Tensors as the files of a checkpoint have them, and matrices of int8 among them."""
