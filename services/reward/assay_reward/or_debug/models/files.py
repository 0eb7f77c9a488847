"""Reading untrusted files, with a size limit."""

from pathlib import Path

from assay_shared.errors import DatasetError

_GZIP = b"\x1f\x8b"


def read(path: Path, max_bytes: int) -> bytes:
    """Return the content of a file.

    Raises:
        DatasetError: the file has more than `max_bytes`, or is packed with gzip.
    """
    with path.open("rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise DatasetError(f"more than {max_bytes} bytes", field=str(path))
    if content.startswith(_GZIP):
        raise DatasetError("packed with gzip", field=str(path), hint="gunzip it")
    return content
