"""EpiCache (arXiv 2509.17396): a few caches of a context, each for one topic; the cursor chooses its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from efim_lab.studies.reuse.network import attention
from efim_lab.studies.reuse.policies.policy import Kept, StoredContext, budget, kept_rows, top_rows

TOPICS = 2
STEPS = 10  # of k-means
WORDS = re.compile(r"[A-Za-z_]\w{2,}")

Vectors = npt.NDArray[np.float64]


def epicache(context: StoredContext, share: float) -> Kept:
    """Keep the rows that the typical definition of each topic attends to; read the rows of the cursor's topic.

    The topics are known when the context is stored; the bytes count the caches of all topics.
    """
    *texts, window = _vectors([*(chunk.text for chunk in context.chunks), context.window_text])
    topics, centres = _topics(np.stack(texts))
    masks = [_cache(context, topics == topic, texts, centre, share) for topic, centre in enumerate(centres)]
    chosen = int(np.argmax([centre @ window for centre in centres]))
    return kept_rows(context, masks[chosen])._replace(bytes=share * len(masks))


def _cache(
    context: StoredContext, mine: npt.NDArray[np.bool_], texts: Sequence[Vectors], centre: Vectors, share: float
) -> torch.Tensor:
    """Return the rows [layers, rows] that the definition nearest to the topic's centre attends to."""
    typical = max(np.flatnonzero(mine).tolist(), key=lambda number: float(texts[number] @ centre))
    rows = context.chunks[typical].rows
    scores = [attention(trace.queries[rows], trace.kv.k).sum((0, 1)) for trace in context.traces]
    return top_rows(torch.stack(scores), budget(context, share))


def _vectors(texts: Sequence[str]) -> list[Vectors]:
    """Return unit vectors of the words of each text; frequent words count less."""
    counts = [Counter(WORDS.findall(text)) for text in texts]
    spread = Counter(word for each in counts for word in each)
    words = sorted(spread)
    weights = np.array([np.log(1 + len(texts) / spread[word]) for word in words])
    found = [np.array([each[word] for word in words]) * weights for each in counts]
    return [each / max(float(np.linalg.norm(each)), 1e-9) for each in found]


def _topics(vectors: Vectors) -> tuple[npt.NDArray[np.int64], Vectors]:
    """Return the topic of each vector and the topics' centres, by k-means from the two that differ most."""
    alike = vectors @ vectors.T
    first, second = np.unravel_index(alike.argmin(), alike.shape)
    centres = vectors[[first, second]][:TOPICS]
    topics = np.zeros(len(vectors), dtype=np.int64)
    for _ in range(STEPS):
        nearest = (vectors @ centres.T).argmax(1)
        used = np.unique(nearest)
        centres = np.stack([vectors[nearest == topic].mean(0) for topic in used])
        topics = np.array([used.tolist().index(topic) for topic in nearest.tolist()], dtype=np.int64)
    return topics, centres
