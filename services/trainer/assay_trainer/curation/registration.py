"""Test-only sets, registered by the hashes of their prompts."""

from collections import Counter
from pathlib import Path

from assay_shared.errors import DatasetError, RoleError
from assay_shared.types import Role
from assay_trainer.data.governance.manifest import checked_rows, digest_of
from assay_trainer.data.governance.test_only import OWN_SETS
from assay_trainer.data.prompt_hashes import HashTable, read_hashes

#: A shorter prompt may be another set's by chance.
_MIN_WORDS = 4
#: A prompt of more rows is a template.
_MAX_ROWS = 3


def register_set(
    folder: Path, name: str | None, output: Path | None, data_folder: Path | None
) -> tuple[Path, int, int]:
    """Register a folder's prompts; return the file, and how many of its prompts are in it.

    Prompts of fewer than four words, and those of more than three rows, are left out.

    Raises:
        RoleError: the folder has rows for training.
        DatasetError: the folder was changed, or there is no place for the register.
    """
    manifest, _ = checked_rows(folder)
    if manifest.roles.get(Role.TRAIN):
        raise RoleError(f"{folder} has rows for training: it is not a test-only set")
    hashes = folder / Path(manifest.prompt_hashes).name
    if digest_of(hashes) != manifest.prompt_hashes_digest:
        raise DatasetError(f"{hashes} was changed after its import", hint="import it again")
    name = name or manifest.format
    if output is None:
        if data_folder is None:
            raise DatasetError("where is the register?", hint="set ASSAY_DATA, or give --output")
        output = data_folder / OWN_SETS / f"{name}.npz"
    prompts = [one for _, found in read_hashes(hashes) for one in found]
    numbers = Counter(one.whole for one in prompts)
    table = HashTable()
    for one in prompts:
        if numbers[one.whole] <= _MAX_ROWS and one.num_words >= _MIN_WORDS:
            table.add(one)
    output.parent.mkdir(parents=True, exist_ok=True)
    table.write(output, name)
    return output, len(table), len(prompts)
