"""Counts what the engine would recompute, on sequences without tensors."""

from model_runtime.ids import Ids
from model_runtime.isolated import SequenceKey
from model_runtime.kv.sequence import TokenSequence


def simulate_prefill(sequence: TokenSequence, ids: Ids) -> int:
    """Bring a sequence to a prompt as the engine would; return how many of its tokens had to be recomputed."""
    reused = sequence.reusable(SequenceKey(ids))
    sequence.truncate(reused)
    sequence.append(ids[reused:])
    sequence.logits_at = sequence.length
    return len(ids) - reused
