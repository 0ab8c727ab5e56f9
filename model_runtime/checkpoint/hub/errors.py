"""Explains failures of the hub's client to users: the cause and the remedy, in one sentence."""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager

from model_runtime.errors import ModelError


@contextmanager
def explained_errors(name: str, revision: str) -> Generator[None]:
    """Raise a ModelError in place of what the client raises for a repository at a revision."""
    import httpx2

    try:
        yield
    except (httpx2.HTTPError, OSError) as error:
        raise ModelError(_explanation(name, revision, error)) from error


def _explanation(name: str, revision: str, error: Exception) -> str:
    from huggingface_hub import errors

    match error:
        case errors.GatedRepoError() | errors.LocalTokenNotFoundError():
            return f"{name} is gated: accept its terms on its page, then run `hf auth login` or set HF_TOKEN"
        case errors.RepositoryNotFoundError():
            private = "if it is private, run `hf auth login` or set HF_TOKEN"
            return f"there is no folder {name} here and no such model on the hub: check the name; {private}"
        case errors.RevisionNotFoundError():
            return f"{name} has no revision {revision!r}: set revision to a branch, a tag or a commit that it has"
        case errors.HfHubHTTPError():
            return f"the hub refused {name} with status {error.response.status_code}: try again later"
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return f"the disk is full: make room, and the download of {name} resumes"
        case OSError(filename=str(at)):
            return f"{at} cannot be written ({error.strerror}): check who may write there, or set HF_HOME"
        case _:
            why = type(error.__cause__ or error).__name__
            return f"{name} is not here in full and the hub cannot be reached ({why}): try again online"
