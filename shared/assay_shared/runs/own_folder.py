"""A command's output folder: new, empty, or begun by the same command."""

from pathlib import Path

from assay_shared.errors import InvalidInput


def check_own_folder(
    output: Path, marker: str, otherwise: str, hint: str, field: str = "--output"
) -> None:
    """Check that a command may write into `output`, and lose nothing there.

    Args:
        marker: the file by which the command knows its own folder.
        otherwise: says in the error what a folder with other files is not.
        hint: says in the error which folders are right.
        field: the option that names the folder.

    Raises:
        InvalidInput: it is a file, or has other files in it.
    """
    if output.exists() and not output.is_dir():
        raise InvalidInput(f"{output} is a file", field=field, hint="name a new folder")
    names = [one.name for one in output.iterdir()] if output.is_dir() else []
    others = [name for name in names if not name.startswith(".")]
    if others and marker not in others:
        raise InvalidInput(f"{output} has {min(others)}, and {otherwise}", field=field, hint=hint)
