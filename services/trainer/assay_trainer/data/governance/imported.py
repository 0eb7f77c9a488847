"""Imported folders, opened for a purpose."""

from pathlib import Path

from assay_shared.errors import DatasetError, RoleError
from assay_shared.types import Role
from assay_trainer.data.governance.manifest import ImportManifest, checked_rows
from assay_trainer.data.governance.sources import refuse_deprecated
from assay_trainer.data.importers.format import RowKind


def rows_to_open(
    folder: Path, role: Role | None, *, to_train: bool, data_folder: Path | None
) -> tuple[ImportManifest, Path, set[Role]]:
    """Return the manifest of a folder, its file of rows, and the roles to take of them.

    Without `role`, training takes the rows for training, and a measurement the others.

    Raises:
        RoleError: no row is for the purpose.
        DatasetError: the folder cannot be used, or its source is deprecated.
    """
    manifest, path = checked_rows(folder)
    refuse_deprecated(
        [manifest.source, manifest.digest, *(one.sha256 for one in manifest.files)], data_folder
    )
    roles = {role} if role is not None else {Role.TRAIN} if to_train else set(Role) - {Role.TRAIN}
    if to_train and roles != {Role.TRAIN}:
        raise RoleError(f"rows for {role} of {folder} cannot be trained on", field="role")
    if not any(manifest.roles.get(one) for one in roles):
        have = ", ".join(f"{number} for {one}" for one, number in manifest.roles.items())
        kind = RoleError if to_train else DatasetError
        raise kind(f"{folder} has no row for this use: it has {have}", field="role")
    return manifest, path, roles


def refuse_kind(manifest: ImportManifest, folder: Path, *, preferences: bool) -> None:
    """Check that a folder has the rows that are wanted.

    Raises:
        DatasetError: it has preferences in place of tasks, or tasks in place of preferences.
    """
    if (manifest.kind is RowKind.PREFERENCES) != preferences:
        use = "dpo.data" if manifest.kind is RowKind.PREFERENCES else "data"
        raise DatasetError(f"{folder} has {manifest.kind}: they go with {use}", field="path")
