"""Import: published files in, a folder of rows with its manifest out.

The folder appears when it is complete. An import that was stopped leaves none, and starts again.
"""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from assay_shared.errors import DatasetError
from assay_shared.types import Role
from assay_trainer.curation.duplicates import NearFound, find_near_duplicates
from assay_trainer.curation.files import Found, found_files
from assay_trainer.curation.order import HUB, ImportOrder
from assay_trainer.curation.partial import partial_folder
from assay_trainer.curation.screen import LeftOutRows, Screen
from assay_trainer.curation.writing import RowWriter
from assay_trainer.data.governance.manifest import (
    LEFT_OUT,
    PREFERENCES,
    PROMPTS,
    ROWS,
    ImportManifest,
    digest_of,
)
from assay_trainer.data.governance.sources import refuse_deprecated
from assay_trainer.data.governance.test_only import known_prompts
from assay_trainer.data.importers.format import RowKind


def import_set(
    order: ImportOrder,
    report: Callable[[int], None] = lambda num_rows: None,
    found: Found | None = None,
) -> ImportManifest:
    """Import a set and return the manifest of its folder; `found` has the files to read.

    Raises:
        Conflict: the output exists, or another import writes it.
        DatasetError: a file cannot be read, too many rows are refused, or none is left.
    """
    refuse_deprecated([order.source.removeprefix(HUB)], order.data_folder)
    files_of = nullcontext(found) if found is not None else found_files(order)
    with partial_folder(order.output) as partial, files_of as files:
        refuse_deprecated([files.source], order.data_folder, files.files)
        return _write(order, files, partial, report)


def _write(
    order: ImportOrder, found: Found, folder: Path, report: Callable[[int], None]
) -> ImportManifest:
    """Write all files of the folder and return its manifest."""
    is_pairs = order.format.kind is RowKind.PREFERENCES
    path = folder / (PREFERENCES if is_pairs else ROWS)
    with (folder / LEFT_OUT).open("w", encoding="utf-8") as refused:
        left_out = LeftOutRows(refused)
        screen = Screen(known_prompts(order.data_folder))
        with path.open("w", encoding="utf-8") as rows:
            writer = RowWriter(order, found, screen, rows, left_out)
            writer.write_all(report)
        refused.flush()
        _check_shares(order, writer)
        near = find_near_duplicates(
            path, order.near, writer.roles[Role.TRAIN], order.seed, order.data_folder
        )
        writer.drop(near.removed, path)
        _check_left(order, writer)
    writer.prompts.write(folder / PROMPTS, order.format.name)
    manifest = _manifest(order, found, writer, near, path)
    manifest.write(folder)
    return manifest


def _check_shares(order: ImportOrder, writer: RowWriter) -> None:
    """Check that enough rows could be read.

    Raises:
        DatasetError: more rows are refused than the order allows, or none is left.
    """
    counts = writer.left_out.by_kind
    num_wanted = writer.num_read - counts["other_split"]
    if counts["refused"] > order.max_refused_share * num_wanted:
        raise DatasetError(
            f"{counts['refused']} of {num_wanted} rows are refused: "
            f"{writer.left_out.first_refused} first",
            field="--max-refused",
            hint=f"{order.output.with_name(f'.{order.output.name}.partial') / LEFT_OUT} has all",
        )
    _check_left(order, writer)


def _check_left(order: ImportOrder, writer: RowWriter) -> None:
    """Check that rows are left, and of a split for training, that rows for training are.

    Raises:
        DatasetError: none is left.
    """
    counts = dict(writer.left_out.by_kind)
    if not writer.roles.total():
        told = ", ".join(f"{number} {kind}" for kind, number in counts.items()) or "no rows"
        raise DatasetError(f"nothing is left of {order.source}: {told}", field="PATH")
    if writer.had_training and not writer.roles[Role.TRAIN]:
        counts |= {f"for {role}": number for role, number in writer.roles.items() if number}
        told = ", ".join(f"{number} {kind}" for kind, number in counts.items())
        raise DatasetError(f"no row of {order.source} is left for training: {told}", field="PATH")


def _manifest(
    order: ImportOrder, found: Found, writer: RowWriter, near: NearFound, path: Path
) -> ImportManifest:
    one = order.format
    return ImportManifest(
        format=one.name,
        kind=one.kind,
        domain=one.domain,
        rubric=one.rubric,
        licence=one.licence,
        source=found.source,
        revision=found.revision,
        split=found.split,
        roles={role: number for role, number in writer.roles.items() if number},
        num_rows_read=writer.num_read,
        count=writer.roles.total(),
        file=path.name,
        digest=digest_of(path),
        prompt_hashes=PROMPTS,
        prompt_hashes_digest=digest_of(path.with_name(PROMPTS)),
        files=tuple(writer.files),
        not_read=found.not_read,
        left_out=writer.left_out.counts(),
        control_tokens=writer.control_tokens(),
        num_same_prompt=writer.screen.num_same_prompt,
        test_only_sets=writer.screen.known.counts,
        near_duplicates=near.facts,
        not_searched=near.not_searched,
        validation_share=order.validation_share,
    )
