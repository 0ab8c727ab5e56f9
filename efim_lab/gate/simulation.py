"""Counts what the engine would recompute, on sequences without tensors."""

from collections.abc import Iterable

from model_runtime.ids import Ids
from model_runtime.kv.sequence import TokenSequence
from model_runtime.sequence_key import SequenceKey


def simulate_prefill(sequence: TokenSequence, ids: Ids, ends: Iterable[int] = ()) -> int:
    """Bring a sequence to a prompt as the engine would; return how many of its tokens had to be recomputed.

    `ends` are where the prompt's parts end, for models with states.
    """
    reused = sequence.reusable(SequenceKey(ids))
    sequence.truncate(reused)
    sequence.mark(ends)
    sequence.begin_pass(len(ids) - reused, rows=1)
    sequence.end_pass(ids[reused:], None)
    sequence.logits_at = sequence.length
    return len(ids) - reused
