"""Test-only sets, registered by the hashes of their prompts."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from assay_shared.errors import Conflict, DatasetError, InvalidInput, RoleError
from assay_shared.types import Role
from assay_trainer.data.governance.manifest import checked_rows, digest_of
from assay_trainer.data.governance.test_only import OWN_SETS
from assay_trainer.data.prompt_hashes import KeyKind, KeyTable, PromptKey

#: A shorter prompt may be another set's by chance.
_MIN_SIZE = 4
#: A prompt of more rows is a template.
_MAX_ROWS = 3
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


def register_set(
    folder: Path,
    name: str | None,
    output: Path | None,
    data_folder: Path | None,
    *,
    replace: bool = False,
) -> tuple[Path, int, int]:
    """Register a folder's prompts; return the file, and how many of its prompts are in it.

    Prompts of fewer than four words, and those of more than three rows, are left out.

    Raises:
        RoleError: the folder has rows for training.
        InvalidInput: the name is not the name of a file.
        Conflict: a set of this name is registered.
        DatasetError: the folder was changed, or there is no place for the register.
    """
    manifest, _ = checked_rows(folder)
    if manifest.roles.get(Role.TRAIN):
        raise RoleError(f"{folder} has rows for training: it is not a test-only set")
    hashes = folder / Path(manifest.prompt_hashes).name
    if digest_of(hashes) != manifest.prompt_hashes_digest:
        raise DatasetError(f"{hashes} was changed after its import", hint="import it again")
    name = manifest.format if name is None else name
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name!r} is not a name: letters, digits, '.', '_' and '-', 80 at most",
            field="--name",
        )
    output = _place(name, output, data_folder)
    if output.exists() and not replace:
        raise Conflict(
            f"{output} is registered already",
            field="--name",
            hint="give this set another name, or --replace",
        )
    prompts = [one for found in KeyTable.read(hashes).values() for one in found]
    table = KeyTable.of(chosen_keys(prompts))
    if not table.num_prompts:
        raise DatasetError(
            f"no prompt of {folder} can be registered: each has fewer than {_MIN_SIZE} words, or "
            f"stands in more than {_MAX_ROWS} rows",
            field="FOLDER",
        )
    table.write(output, name)
    return output, table.num_prompts, len(prompts)


def _place(name: str, output: Path | None, data_folder: Path | None) -> Path:
    """Return the file of a set.

    Raises:
        DatasetError: there is no folder of external data.
    """
    if output is not None:
        return output
    if data_folder is None:
        raise DatasetError("where is the register?", hint="set ASSAY_DATA, or give --output")
    if not data_folder.is_dir():
        raise DatasetError(f"there is no folder {data_folder}", field="ASSAY_DATA")
    return data_folder / OWN_SETS / f"{name}.npz"


def chosen_keys(prompts: Iterable[list[PromptKey]]) -> Iterator[list[PromptKey]]:
    """Yield the keys of each prompt that tell it from others; a prompt without any is left out.

    Letters and digits tell most prompts. Signs tell a prompt that consists of signs, and options
    tell a short question of multiple choice.
    """
    every = list(prompts)
    numbers = Counter(_identity(key) for keys in every for key in keys)
    for keys in every:
        told = {
            key.kind: key
            for key in keys
            if numbers[_identity(key)] <= _MAX_ROWS and (key.is_run or key.size >= _least(key))
        }
        letters, signs = told.get(KeyKind.LETTERS), told.get(KeyKind.SIGNS)
        kinds: list[KeyKind] = []
        if letters is not None:
            kinds += (
                [KeyKind.LETTERS] if letters.is_run else [KeyKind.LETTERS, KeyKind.SHOWN_LETTERS]
            )
        if letters is None or not letters.is_run:
            kinds += [KeyKind.LETTERED, KeyKind.BARE, KeyKind.OPTIONS]
            if signs is not None and (letters is None or signs.is_run):
                kinds += [KeyKind.SIGNS] if signs.is_run else [KeyKind.SIGNS, KeyKind.SHOWN_SIGNS]
        found = [told[kind] for kind in kinds if kind in told]
        if found:
            yield found


def _least(key: PromptKey) -> int:
    return 0 if key.kind is KeyKind.OPTIONS else _MIN_SIZE


def _identity(key: PromptKey) -> tuple[int, int, int, int]:
    of_set = key.start if key.kind is KeyKind.OPTIONS else 0
    return key.kind, key.length, key.whole, of_set
