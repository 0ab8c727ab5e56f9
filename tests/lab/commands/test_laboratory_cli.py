"""`python -m efim_lab`: mistakes are one line and status 2, in the verbs and in the steps of training."""

import pytest

from efim_lab import commands as cli
from tests.processes.command_line import status


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        ([], "required: VERB; see python -m efim_lab --help"),
        (["serve"], "there is no command 'serve': see python -m efim_lab --help"),
        (["train", "corps"], "there is no command 'corps': use corpus, or see python -m efim_lab train --help"),
        (["train"], "required: STEP; see python -m efim_lab train --help"),
        (["train", "corpus"], "required: --out; see python -m efim_lab train corpus --help"),
        (["train", "run", "--tokens", "many"], "--tokens: expected a number, got 'many'"),
        (["train", "--base", "x", "--rate", "fast"], "--rate: expected a number, got 'fast'"),
    ],
)
def test_a_mistake_is_one_line(
    argv: list[str],
    complaint: str,
    capsys: pytest.CaptureFixture[str],
):
    assert status(cli.main, argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("python -m efim_lab")
    assert complaint in err
    assert err.count("\n") == 1


def test_training_gets_its_own_arguments(monkeypatch: pytest.MonkeyPatch):
    import efim_lab.workshop.training.command as training

    monkeypatch.setattr(training, "main", lambda argv: argv == ["run", "--help", "--model"])  # pyright: ignore
    assert cli.main(["train", "run", "--help", "--model"])
