"""Links in a checkpoint: one to a file outside would put that file into the hand-off."""

import re
from itertools import chain
from pathlib import Path

from assay_shared.errors import WeightsRefused

#: Names that a hand-off reads.
_READ = (
    *("*.safetensors", "*.json", "*.txt", "*.model", "*.tiktoken", "*.jinja", "*.pt"),
    *("additional_chat_templates", "additional_chat_templates/*", "huggingface", "actor"),
    ".metadata",
)
#: The cache of the hub holds each file once, under the hash of its content.
_BLOBS = "blobs"
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def refuse_links_out(folder: Path) -> None:
    """Refuse a folder with a link to a file outside of it; a cached model's blobs are its own.

    Raises:
        WeightsRefused: there is such a link; the message names it.
    """
    root = folder.resolve()
    for entry in sorted(chain.from_iterable(root.glob(pattern) for pattern in _READ)):
        if not entry.is_symlink():
            continue
        try:
            target = entry.resolve()
        except (OSError, RuntimeError) as error:  # a loop of links
            raise WeightsRefused(f"{entry} is a link that cannot be followed: {error}") from None
        if not (target.is_relative_to(root) or _is_blob(root, target)):
            raise WeightsRefused(
                f"{entry} is a link to {target}, outside of the folder",
                hint="copy the file into the folder",
            )


def _is_blob(snapshot: Path, target: Path) -> bool:
    """Return True for the content of a file in the cache: MODEL/snapshots/REVISION, MODEL/blobs."""
    is_cached = snapshot.parent.name == "snapshots"
    blobs = snapshot.parent.parent / _BLOBS
    return is_cached and target.parent == blobs and _HASH.fullmatch(target.name) is not None
