"""The bits that a text costs under the mixture that decides, healed as the server's prompts are."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from efim_lab.gate.evaluation.measured_model import LEAST_PROBABILITY, MEASURED_OWNER, UNTIL_END, Teacher
from model_runtime.cancel import NEVER
from model_runtime.counts.snapshot import CountsView
from model_runtime.engine.engine import GenerateJob
from model_runtime.engine.local import LocalEngine
from model_runtime.engine.ngrams import Mixture, Ngrams
from model_runtime.ids import Ids
from model_runtime.loading.load import LoadedModel
from model_runtime.prompt.prompt import Prompt


@dataclass(frozen=True)
class MixtureTeacher(Teacher):
    """A teacher that notes bits under a mixture, among the tokens that fit the stub; without one, under the model.

    `fitting` are those tokens [n] at each given token that a stub constrains, the first ones.
    """

    mixed_in: Ngrams | None = None
    fitting: list[Ids] = field(default_factory=list[Ids])

    def mixture(
        self, probabilities: npt.NDArray[np.float32], history: Ids, counts: CountsView | None = None
    ) -> Mixture:
        """Note the bits of the next given token and return a distribution [vocab] that makes it certain."""
        at = len(self.bits)
        chances = self.mixed_in.mix(probabilities, history, counts) if self.mixed_in else probabilities
        if at < len(self.fitting):
            among, chances = chances[self.fitting[at]], np.zeros_like(chances)
            chances[self.fitting[at]] = among / max(float(among.sum()), LEAST_PROBABILITY)
        return super().mixture(chances, history, counts)


def bits_of(model: LoadedModel, prompt: Prompt, text: str) -> float:
    """Return the bits of a text after a prompt, whose stub its first tokens spell again, teacher-forced.

    They are summed over the text's usual tokens, given the stub: other spellings' shares are left out.
    """
    tokens, vocabulary = model.tokenizer.encode(prompt.stub.decode() + text), model.tokenizer.vocabulary
    fitting, stub = list[Ids](), prompt.stub
    for token in tokens:
        if not stub:
            break
        fitting.append(vocabulary.fitting(stub))
        stub = stub[len(model.tokenizer.token_bytes[int(token)]) :]
    teacher = MixtureTeacher((), 1.0, middle=tokens.tolist(), mixed_in=model.ngrams, fitting=fitting)
    engine = LocalEngine(model.parts.with_ngrams(teacher))
    engine.generate(GenerateJob(MEASURED_OWNER, prompt, UNTIL_END, len(tokens)), NEVER)
    return sum(teacher.bits)
