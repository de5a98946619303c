"""Why a repository of the Hub cannot be read, in sentences that say what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from quantgate.checkpoint.names import foreign_format, is_pickle
from quantgate.checkpoint.raw import CONFIG_NAMES, WEIGHT_SUFFIX, SourceError, UnreadError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quantgate.checkpoint.hub import Repository
    from quantgate.checkpoint.hub_listing import Listing

RERUN: Final = "Run the check again later."


def refusal(error: UnreadError, repository: Repository, headers: Mapping[str, str]) -> SourceError:
    """Why the Hub does not list a repository, when asked with these headers."""
    if (failure := fatal(error, repository, headers)) is not None:
        return failure
    host = urlsplit(repository.endpoint).netloc
    if error.code == "RevisionNotFound":
        return SourceError(
            f"The repository {repository.id!r} on {host} has no revision {repository.revision!r}."
        )
    if error.code == "RepoNotFound" or error.status in {401, 404}:
        hidden = (
            "it is private and the token may not read it"
            if _has_token(headers)
            else "it is private: then set HF_TOKEN to a token that may read it"
        )
        return SourceError(
            f"There is no repository {repository.id!r} on {host}, or {hidden}. "
            "Nor is there a folder of that name here."
        )
    return SourceError(f"The listing of {repository.id!r} on {host} {error}. {RERUN}")


def fatal(
    error: UnreadError, repository: Repository, headers: Mapping[str, str]
) -> SourceError | None:
    """The end of it all, for what holds for the whole repository; None for one file's trouble."""
    if error.code == "GatedRepo":
        next_step = (
            "the token has no access to it yet: ask for it there with the token's account"
            if _has_token(headers)
            else "ask for access there, and set HF_TOKEN to a token of that account"
        )
        return SourceError(
            f"The repository {repository.id!r} is gated ({repository.address}): {next_step}."
        )
    if error.status == 401 and "Invalid credentials" in error.text:
        return SourceError(
            f"{urlsplit(repository.endpoint).netloc} does not accept the token: "
            "HF_TOKEN is wrong or has expired."
        )
    return None


def no_model(repository: Repository, listing: Listing) -> SourceError | None:
    """Why a repository without weight files is no model; None where a rule can say something."""
    names = {f.name for f in listing.files if "/" not in f.name}
    others = names - CONFIG_NAMES
    foreign = sorted({label for name in others if (label := foreign_format(name))})
    pickles = any(is_pickle(name) for name in others)
    if "config.json" in names and (pickles or not foreign):
        return None
    nested = any(f.name.endswith(WEIGHT_SUFFIX) for f in listing.files)
    found = (
        [f"weights as {label}" for label in foreign]
        + (["pickled PyTorch files (*.bin, *.pt)"] if pickles else [])
        + ([f"*{WEIGHT_SUFFIX} only in sub-folders"] if nested else [])
    )
    return SourceError(
        f"The repository {repository.id!r} holds no *{WEIGHT_SUFFIX} files to check: it "
        f"has {' and '.join(found) or 'no weights at all'}."
    )


def _has_token(headers: Mapping[str, str]) -> bool:
    return "authorization" in headers
