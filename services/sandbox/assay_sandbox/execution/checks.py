"""Checks of a request's files, made before the request takes a slot."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from assay_shared.errors import InvalidInput, TooLarge

_PAGE_BYTES = 4096
#: Bytes kept free for everything else in the program's folder.
_RESERVE_BYTES = 16 * _PAGE_BYTES


def check_files(files: Mapping[str, bytes], room_bytes: int) -> None:
    """Check that the files fit together into a folder of `room_bytes`.

    Raises:
        InvalidInput: a name is a file and a folder at once, or the files are too large together.
    """
    folders = {str(folder) for name in files for folder in PurePosixPath(name).parents}
    both = sorted(folders.intersection(files))
    if both:
        raise InvalidInput(
            f"{both[0]!r:.80} is the name of a file and of a folder",
            field="files",
            hint="rename one of them",
        )
    pages = sum(-(-len(content) // _PAGE_BYTES) for content in files.values()) + len(folders)
    most_bytes = room_bytes - _RESERVE_BYTES
    if files and pages * _PAGE_BYTES > most_bytes:
        raise InvalidInput(
            f"the files and the program's text are over {most_bytes} bytes together",
            field="files",
            hint="send less, or raise ASSAY_SANDBOX_WRITABLE_BYTES",
        )


def check_size(content: bytes, room_bytes: int) -> bytes:
    """Return a file's content if it fits into a folder of `room_bytes`.

    Raises:
        TooLarge: it does not fit.
    """
    if len(content) > room_bytes:
        raise TooLarge(f"the file is over {room_bytes} bytes", field="name")
    return content
