"""Repositories of a hub: their commit, their files, and downloads into the library's cache.

Where things are comes from huggingface_hub's own variables: HF_HOME, HF_ENDPOINT, HF_TOKEN and
HF_HUB_OFFLINE. A commit in the cache is read without a connection.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx2
from huggingface_hub import (
    HfApi,
    constants,
    get_cached_repo_tree,
    get_token,
    snapshot_download,
    try_to_load_from_cache,
)
from huggingface_hub.errors import (
    CachedRepoTreeNotFoundError,
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
    RevisionResolutionError,
    XetDownloadError,
)
from huggingface_hub.utils.tqdm import tqdm

from assay_shared.errors import AssayError, Forbidden, InvalidInput, NotFound, Unreachable

#: Of a model, these files at the top of its repository: no pickles, no code.
MODEL_FILES = {
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "generation_config.json",
    "merges.txt",
    "model.safetensors.index.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
}
_NO_CONNECTION = (
    httpx2.HTTPError,
    CachedRepoTreeNotFoundError,
    OfflineModeIsEnabled,
    XetDownloadError,
)
_OUR_BAR = "huggingface_hub.snapshot_download"
#: Gets the bytes so far and the bytes in all.
Report = Callable[[int, int], None]


@dataclass(frozen=True)
class Repository:
    """A repository at a commit."""

    kind: Literal["model", "dataset"]
    name: str
    revision: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} at {self.revision}"


def resolve(kind: Literal["model", "dataset"], name: str, revision: str | None) -> Repository:
    """Return the repository at the commit that `revision` (else main) is now.

    Raises:
        NotFound: there is no such repository or revision, or it is not in the cache when offline.
        Forbidden: the repository is gated, or the token is refused.
        Unreachable: no connection, and the cache does not know the revision.
    """
    with _told(Repository(kind, name, revision or "main")):
        commit = HfApi().resolve_revision(name, repo_type=kind, revision=revision).resolved
    return Repository(kind, name, commit)


def list_files(repository: Repository) -> dict[str, int]:
    """Return the sizes in bytes of a repository's files, by path.

    A cache that an older huggingface_hub filled has no list of them. Without a connection, a model
    then consists of the files in the cache, since its index names the shards; a dataset does not.

    Raises:
        AssayError: see `resolve`.
    """
    with _told(repository):
        found = _tree(repository)
        if found is None:
            # A snapshot of any file writes the list into the cache.
            folder = download(repository, [".gitattributes"])
            found = _tree(repository)
        if found is None and repository.kind == "model":
            found = {one.name: one.stat().st_size for one in folder.iterdir() if one.is_file()}
        if found is None:
            raise NotFound(
                f"HF_HUB_OFFLINE is set, and the cache has no list of the files of {repository}",
                hint="an older huggingface_hub filled it: unset this once, or copy a newer cache",
            )
        return found


def _tree(repository: Repository) -> dict[str, int] | None:
    """Return the sizes of a repository's files by the list in the cache, if it has one."""
    named: Any = {"repo_type": repository.kind, "revision": repository.revision}
    try:
        found = get_cached_repo_tree(repository.name, **named)
    except CachedRepoTreeNotFoundError:
        return None
    return {file.path: file.size for file in found}


def model_files(files: Sequence[str], repository: Repository) -> list[str]:
    """Return the files that a model is loaded from, of all of its repository.

    Raises:
        InvalidInput: the repository has no weights in safetensors.
    """
    weights = [name for name in files if name.endswith(".safetensors") and "/" not in name]
    weights = [name for name in weights if name.startswith("model")]
    if not weights:
        raise InvalidInput(
            f"{repository} has no weights in model*.safetensors; other forms are not loaded",
            field="policy.hub",
        )
    return weights + [name for name in files if name in MODEL_FILES]


def download(repository: Repository, files: Sequence[str], report: Report | None = None) -> Path:
    """Return the folder with `files`; those that the cache lacks are downloaded.

    A broken connection is resumed where it broke. After a restart, files that were complete stay.

    Raises:
        AssayError: see `resolve`; and what `report` raises, which ends the download.
    """
    patterns = [_literally(name) for name in files]
    with _told(repository, files):
        return Path(
            snapshot_download(
                repository.name,
                repo_type=repository.kind,
                revision=repository.revision,
                allow_patterns=patterns,
                tqdm_class=_silent(report, threading.Lock()),
            )
        )


def _literally(name: str) -> str:
    """Return a pattern for the file of this name alone."""
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in name)


def _silent(report: Report | None, lock: threading.Lock) -> type[tqdm]:
    """Return a progress bar that draws nothing and reports the bytes written.

    Downloads run in threads: `lock` lets one report at a time.
    """

    class Bar(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._num_bytes = 0
            self._is_ours = kwargs.get("name") == _OUR_BAR
            super().__init__(*args, **kwargs | {"disable": True})  # type: ignore[no-untyped-call]

        def update(self, n: float | None = 1) -> None:
            if report is not None and self._is_ours:
                with lock:
                    self._num_bytes += int(n or 0)
                    report(self._num_bytes, int(self.total or 0))

    return Bar


@contextmanager
def _told(repository: Repository, files: Sequence[str] = ()) -> Iterator[None]:
    """Turn the library's errors into ours, which name no token and no address."""
    try:
        yield
    except HFValidationError:
        raise InvalidInput(f"{repository.name!r} is not the name of a repository") from None
    except (HfHubHTTPError, EntryNotFoundError, RevisionResolutionError) as error:
        raise _error(repository, files, error) from None
    except _NO_CONNECTION as error:
        raise _unreachable(repository, files, error) from None


def _error(repository: Repository, files: Sequence[str], error: Exception) -> AssayError:
    """Return the error of an answer of the hub, or of what the cache lacks without one."""
    if not isinstance(error, HfHubHTTPError) and isinstance(error.__cause__, HfHubHTTPError):
        error = error.__cause__
    token = "check that HF_TOKEN may read it" if get_token() else "HF_TOKEN is not set"
    if isinstance(error, GatedRepoError):
        return Forbidden(
            f"{repository.kind} {repository.name} is gated",
            hint=f"ask for access on its page; {token}",
        )
    if isinstance(error, RepositoryNotFoundError):
        return NotFound(
            f"the hub has no {repository.kind} {repository.name}, or it is private",
            hint=f"check the name; {token}",
        )
    if isinstance(error, RevisionNotFoundError):
        return NotFound(
            f"{repository.kind} {repository.name} has no revision {repository.revision}",
            field="revision",
        )
    status = error.response.status_code if isinstance(error, HfHubHTTPError) else None
    if status in (401, 403):
        return Forbidden(f"the hub refuses {repository} with status {status}", hint=token)
    return _unreachable(repository, files, error)


def _unreachable(repository: Repository, files: Sequence[str], error: Exception) -> AssayError:
    folder = Path(constants.HF_HUB_CACHE)
    at: Any = {"repo_type": repository.kind, "revision": repository.revision}
    files = [one for one in files if not try_to_load_from_cache(repository.name, one, **at)]
    named = f": {', '.join(sorted(files)[:3])}{', ...' if len(files) > 3 else ''}" if files else ""
    lacks = f"the cache in {folder} lacks {repository}, or a part of it{named}"
    if constants.is_offline_mode():
        return NotFound(f"HF_HUB_OFFLINE is set, and {lacks}", hint="unset it, or fill the cache")
    reason = type(error.__cause__ or error).__name__
    return Unreachable(f"the hub cannot be reached ({reason}), and {lacks}", service="hub")
