"""The manifest of an imported folder."""

from pathlib import Path

from pydantic import Field, JsonValue, ValidationError

from assay_shared.errors import DatasetError
from assay_shared.runs.run_folder import write_atomically
from assay_shared.types import Role, Wire
from assay_shared.weights.checkpoint import file_digest
from assay_trainer.data.importers.format import RowKind

MANIFEST = "manifest.json"
ROWS = "tasks.jsonl"
PREFERENCES = "preferences.jsonl"
LEFT_OUT = "refused.jsonl"
PROMPTS = "prompts.npz"


class SourceFile(Wire):
    """A file that was read, by its name without its folder."""

    name: str
    num_bytes: int
    sha256: str
    num_rows: int


class LeftOut(Wire):
    """Rows that are not in the folder, for one reason: the number, and the first lines.

    `refused.jsonl` has each of them.
    """

    kind: str
    reason: str
    number: int
    lines: tuple[int, ...]


class ControlTokenRows(Wire):
    """Rows of the folder with a token or a heading of a usual chat template: the first lines."""

    number: int
    lines: tuple[int, ...]


class NearDuplicates(Wire):
    """The search for near duplicates, with the number of planted ones that it found."""

    jaccard: float
    against: tuple[str, ...]
    num_compared: int
    num_removed: int
    num_controls: int


class MixedPart(Wire):
    """A folder of a mixture: the share asked of it, and its rows for training."""

    name: str
    domain: str
    #: By weights, or by the temperature; the shares of all parts sum to 1.
    asked: float
    #: Rows taken, before duplicates across the parts were left out.
    num_rows: int
    num_available: int


class ImportManifest(Wire):
    """The origin of a folder of rows, what may be done with them, and what was left out."""

    format: str
    kind: RowKind
    domain: str
    rubric: str
    licence: str
    #: A path's name, or the name of a dataset of a hub.
    source: str
    revision: str | None = None
    split: str
    roles: dict[Role, int]
    num_rows_read: int
    count: int
    #: The file with the rows, and its SHA-256.
    file: str
    digest: str
    #: The file with the hashes of the prompts, in the order of the rows.
    prompt_hashes: str
    prompt_hashes_digest: str
    files: tuple[SourceFile, ...]
    #: Further files of the folder that was read.
    not_read: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...]
    #: Rows with the prompt of an earlier row and another answer. They stay.
    num_same_prompt: int = 0
    #: Null if there are none.
    control_tokens: ControlTokenRows | None = None
    #: The test-only sets that were searched for, with their numbers of prompts.
    test_only_sets: dict[str, int] = Field(default_factory=dict)
    near_duplicates: NearDuplicates | None = None
    #: Why near duplicates were not searched for.
    not_searched: str | None = None
    validation_share: float = 0.0
    #: Of a mixture: the number of training rows of each dataset.
    mixture: dict[str, int] | None = None
    #: Of a mixture: its folders. Mixtures of older versions lack them.
    parts: tuple[MixedPart, ...] = ()
    #: Of rows that a command made: by which model, from what, and what was left out before.
    made: dict[str, JsonValue] | None = None

    def write(self, folder: Path) -> None:
        """Write the manifest into its folder."""
        write_atomically(folder / MANIFEST, self.model_dump_json(indent=1) + "\n")


def read_manifest(folder: Path) -> ImportManifest:
    """Return the manifest of a folder.

    Raises:
        DatasetError: the folder has none, or it cannot be read.
    """
    path = folder / MANIFEST
    try:
        return ImportManifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise DatasetError(
            f"{folder} has no {MANIFEST}", hint="`assay data import` makes such a folder"
        ) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"])) or None
        raise DatasetError(f"{path}: {first['msg']}", field=field) from None
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error}") from None


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        DatasetError: the file cannot be read.
    """
    try:
        return file_digest(path)
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error}") from None


def checked_rows(folder: Path) -> tuple[ImportManifest, Path]:
    """Return the manifest and the file of rows, which is as it was written.

    Raises:
        DatasetError: the file was changed after the import.
    """
    manifest = read_manifest(folder)
    path = folder / Path(manifest.file).name
    if digest_of(path) != manifest.digest:
        raise DatasetError(
            f"{path} was changed after its import: its digest is not the manifest's",
            hint="import it again",
        )
    return manifest, path
