"""The manifest of a hand-off: `handoff.json`, and `HANDOFF.md` for people."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue

from assay_shared.runs.run_folder import write_atomically
from assay_shared.text.markdown import visible
from assay_trainer.handoff.checks.check import CheckVerdict, HandoffCheck, uses

MANIFEST, PAGE = "handoff.json", "HANDOFF.md"
_VERSION = 1


class SourceFacts(BaseModel):
    """The checkpoint that was handed off; the digest is over its files, and of its base."""

    model_config = ConfigDict(frozen=True)

    kind: str
    path: str
    digest: str
    base: str | None = None
    tokenizer: str
    #: The folder of the checkpoint's own tokenizer, if `tokenizer` is put in its place.
    replaced_tokenizer: str | None = None
    step: int | None = None


class DataFacts(BaseModel):
    """An imported set that the run used, from its manifest."""

    model_config = ConfigDict(frozen=True)

    path: str
    source: str
    revision: str | None
    licence: str
    digest: str
    count: int


class RunFacts(BaseModel):
    """The run that made the checkpoint."""

    model_config = ConfigDict(frozen=True)

    name: str
    state: str
    git_commit: str | None
    config: dict[str, JsonValue]
    #: The last step of each stage that has steps.
    steps: dict[str, int] = {}
    packages: dict[str, str] = {}
    data: tuple[DataFacts, ...] = ()


class FileFacts(BaseModel):
    """A file of the folder."""

    model_config = ConfigDict(frozen=True)

    num_bytes: int
    sha256: str


class HandoffManifest(BaseModel):
    """All that is known of a handed-off folder."""

    model_config = ConfigDict(frozen=True)

    version: int = _VERSION
    created: str
    #: The checkpoint digest, which services announce; it does not cover this file.
    digest: str
    source: SourceFacts
    run: RunFacts | None
    architecture: str
    num_parameters: int
    dtype: str
    files: dict[str, FileFacts]
    config_changes: tuple[str, ...]
    #: Files next to the source that are not in the folder.
    left_out: tuple[str, ...]
    checks: tuple[HandoffCheck, ...]
    versions: dict[str, str]

    @property
    def failed(self) -> list[HandoffCheck]:
        return [one for one in self.checks if one.verdict is CheckVerdict.FAIL]

    def use_lines(self) -> list[str]:
        """Return a line for each use: whether the folder is fit for it, and why not."""
        return [f"{use}: {answer}" for use, answer in uses(self.checks).items()]

    def write(self, folder: Path) -> None:
        """Write both files into the folder."""
        write_atomically(folder / PAGE, self._page())
        write_atomically(folder / MANIFEST, self.model_dump_json(indent=1) + "\n")

    def _page(self) -> str:
        source, run = self.source, self.run
        facts = [
            ("architecture", self.architecture),
            ("parameters", f"{self.num_parameters:,} in {self.dtype}"),
            ("source", f"{source.kind} `{source.path}`"),
            ("digest of the source", f"`{source.digest}`"),
            ("digest of this folder", f"`{self.digest}`"),
            ("base", f"`{source.base}`" if source.base else None),
            ("tokenizer", _tokenizer_told(source)),
            ("step", source.step),
            ("run", f"{run.name}, {run.state}" if run else None),
            ("git commit", run.git_commit if run else None),
            ("steps", ", ".join(f"{k} {v}" for k, v in run.steps.items()) if run else None),
            ("written", self.created),
        ]
        lines = ["# Hand-off", "", "| | |", "|---|---|"]
        lines += [f"| {name} | {_cell(str(value))} |" for name, value in facts if value]
        lines += ["", "| check | verdict | evidence |", "|---|---|---|"]
        lines += [f"| {c.name} | {c.verdict} | {_cell(c.evidence)} |" for c in self.checks]
        lines += ["", "## Use", "", *(f"- {line}" for line in self.use_lines())]
        if run is not None and run.data:
            lines += ["", "## Data", ""]
            lines += [f"- {d.source}: {d.count} rows, `{d.digest[:16]}`" for d in run.data]
        changes = self.config_changes or ("nothing",)
        lines += ["", "## Changed in config.json", "", *(f"- {one}" for one in changes)]
        lines += ["", "## Files", "", "| file | bytes | SHA-256 |", "|---|---|---|"]
        lines += [f"| {n} | {f.num_bytes} | `{f.sha256}` |" for n, f in sorted(self.files.items())]
        return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return visible(text).replace("|", "\\|")


def _tokenizer_told(source: SourceFacts) -> str | None:
    """Return a line for a tokenizer that is not the checkpoint's own."""
    if source.replaced_tokenizer is None:
        return None
    return f"`{source.tokenizer}`, in place of that of `{source.replaced_tokenizer}`"
