"""The decoder in C for x86 CPUs: a call a pass, weights as fp16 or int8, a row's bits the same in any company."""

from __future__ import annotations
