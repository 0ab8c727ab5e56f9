from pathlib import Path

import pytest

from efim_lab.gate import network
from efim_lab.gate.documents import CodeDocument
from efim_lab.workshop.training import card, trainer
from efim_lab.workshop.training.corpus import corpus
from efim_lab.workshop.training.corpus.language import CorpusSource
from efim_lab.workshop.training.corpus.languages import LANGUAGES
from efim_lab.workshop.training.samples import bpe, sample_maker, spans

VOCABULARY = 500


@pytest.fixture(scope="session")
def gathered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of a few files with its tokenizer in the same folder."""
    folder = tmp_path_factory.mktemp("corpus")
    modules = (bpe, corpus, card, network, sample_maker, spans, trainer)
    documents = [CodeDocument(m.__name__, Path(m.__file__ or "").read_text(encoding="utf-8")) for m in modules]
    learnt = CorpusSource("learnt", "1.0", "MIT", folder, ())
    held_out = CorpusSource("jinja2", "1.0", "BSD-3-Clause", folder, ())
    tuning = CorpusSource("click", "1.0", "BSD-3-Clause", folder, ())
    corpus.write(
        folder, LANGUAGES["python"], {learnt: documents[:-2], held_out: documents[-2:-1], tuning: documents[-1:]}, []
    )
    bpe.save(bpe.train((d.text for d in documents), VOCABULARY), folder)
    return folder
