"""`assay data`: import, show and register sets."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay_trainer.curation import options

if TYPE_CHECKING:
    from assay_trainer.curation.order import ImportOrder
    from assay_trainer.data.governance.manifest import ImportManifest

_MAX_REASONS = 10

app = typer.Typer(
    help="Import, show and register sets.", no_args_is_help=True, add_completion=False
)


@app.callback()
def data() -> None:
    """Import, show and register sets."""


@app.command("import")
def import_(
    format_name: Annotated[str, typer.Argument(metavar="FORMAT", help="See `assay data formats`.")],
    source: Annotated[
        str, typer.Argument(metavar="PATH", help="A file, a folder, or hub:owner/name.")
    ],
    output: Annotated[Path, typer.Option(help="A new folder to write to.")],
    split: Annotated[str | None, typer.Option(help="Split; by the file's name without it.")] = None,
    validation: Annotated[
        str, typer.Option(help="Share of the training rows that are held out: 2% or 0.02.")
    ] = "0",
    max_refused: Annotated[
        str, typer.Option(help="A greater share of refused rows is an error.")
    ] = "10%",
    strict: Annotated[bool, typer.Option(help="One refused row is an error.")] = False,
    near_duplicates: options.Similarity = None,
    no_near_duplicates: Annotated[
        bool, typer.Option("--no-near-duplicates", help="Do not search for them.")
    ] = False,
    against: Annotated[
        list[Path] | None,
        typer.Option(help="A folder or file of tasks to be kept out of the training rows."),
    ] = None,
    config: Annotated[str | None, typer.Option(help="Configuration of a hub's dataset.")] = None,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the held-out share.")] = 0,
    control_tokens: options.ControlTokens = options.ControlTokenRule.KEEP,
) -> None:
    """Import a published set: rows with a manifest, and the rows that were left out."""
    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_trainer.curation.order import ImportOrder, NearOrder, share_of
    from assay_trainer.data.importers import find_format

    order = ImportOrder(
        format=find_format(format_name),
        source=source,
        output=output,
        split=split,
        config=config,
        revision=revision,
        validation_share=share_of(validation, "--validation"),
        max_refused_share=0.0
        if strict
        else share_of(max_refused, "--max-refused", takes_whole=True),
        seed=seed,
        near=NearOrder(near_duplicates, not no_near_duplicates, tuple(against or ())),
        data_folder=read_settings(ServiceSettings).data,
        control_tokens=control_tokens,
    )
    _import(order)


def _import(order: "ImportOrder") -> None:
    from rich.console import Console
    from rich.progress import Progress

    from assay_trainer.curation.importing import import_set

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("rows", total=None)
        manifest = import_set(order, lambda done: progress.update(bar, completed=done))
    _tell(manifest, order.output, order.data_folder is not None)


def _tell(manifest: "ImportManifest", output: Path, has_own: bool) -> None:
    """Print what came in, what is in the folder, and what was left out."""
    from assay_shared.text.markdown import visible

    roles = ", ".join(f"{number} for {role}" for role, number in manifest.roles.items())
    print(f"{manifest.num_rows_read} rows read, {manifest.count} in {output}: {roles}")
    if manifest.not_read:
        names = ", ".join(map(visible, manifest.not_read[:5]))
        more = f" and {len(manifest.not_read) - 5} others" if len(manifest.not_read) > 5 else ""
        print(f"not read: {names}{more}")
    for one in manifest.left_out[:_MAX_REASONS]:
        lines = ", ".join(map(str, one.lines[:5])) + (", ..." if one.number > 5 else "")
        print(f"left out: {one.number} {one.kind}: {visible(one.reason)} (line {lines})")
    if rest := manifest.left_out[_MAX_REASONS:]:
        print(f"left out: {sum(one.number for one in rest)} for {len(rest)} other reasons")
    if found := manifest.control_tokens:
        lines = ", ".join(map(str, found.lines[:5])) + (", ..." if found.number > 5 else "")
        print(
            f"control tokens: {found.number} rows have a token or a heading of a chat template "
            f"(line {lines}); they stay, without --control-tokens refuse"
        )
    sets = manifest.test_only_sets
    own = "" if has_own else "; none of yours, since ASSAY_DATA is not set"
    print(f"test sets: {sum(sets.values())} prompts of {', '.join(sets)} searched for{own}")
    near = manifest.near_duplicates
    if near is not None:
        print(
            f"near duplicates: {near.num_removed} of {near.num_compared} removed at "
            f"{near.jaccard:g}; all {near.num_controls} planted ones were found"
        )
    else:
        print(f"near duplicates: not searched for, {manifest.not_searched}")
    print(f"digest {manifest.digest[:16]}")


@app.command("mix")
def mix_(
    folders: Annotated[list[Path], typer.Argument(help="Imported folders.")],
    output: Annotated[Path, typer.Option(help="A new folder to write to.")],
    weight: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=40%, of a folder, its path, or a domain; in all 100%. Without any, by rows."
        ),
    ] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Training rows in all.")] = None,
    temperature: Annotated[
        float, typer.Option(min=0.1, help="More evens folders out: rows to the power 1/T.")
    ] = 1.0,
    no_near_duplicates: Annotated[
        bool, typer.Option("--no-near-duplicates", help="Do not search for them.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Which rows.")] = 0,
) -> None:
    """Mix the training rows of folders by shares, and keep their held-out rows."""
    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_trainer.curation.mixing import MixOrder, mix
    from assay_trainer.curation.order import NearOrder
    from assay_trainer.curation.weights import weights_of

    order = MixOrder(
        folders=tuple(folders),
        output=output,
        weights=weights_of(weight or ()),
        num_rows=rows,
        temperature=temperature,
        seed=seed,
        near=NearOrder(is_wanted=not no_near_duplicates),
        data_folder=read_settings(ServiceSettings).data,
    )
    manifest = mix(order)
    _tell(manifest, output, order.data_folder is not None)
    total = sum((manifest.mixture or {}).values())
    for name, number in (manifest.mixture or {}).items():
        print(f"{name:<24} {number:>8} {number / total:.1%}")


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(help="An imported folder, or a JSONL file of tasks.")],
    num: Annotated[int, typer.Option(min=0, max=1000, help="Rows to show.")] = 10,
    seed: Annotated[int, typer.Option(help="Which rows.")] = 0,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Show the share of rows that are longer.")
    ] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help="Folder of a tokenizer: lengths in tokens too.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page to this file.")] = None,
) -> None:
    """Show some rows as a person reads them, lengths, and the balance of classes."""
    from assay_trainer.curation.page import lines_of, refuse_other_file, write_page
    from assay_trainer.curation.survey import survey

    if html is not None:
        refuse_other_file(html)
    count = None
    if tokenizer is not None:
        from assay_shared.telemetry.logs import quiet_transformers
        from assay_trainer.curation.tokens import token_counter

        quiet_transformers()
        count = token_counter(tokenizer)
    found = survey(folder, num, seed, count)
    for line in lines_of(found, limit):
        print(line)
    if html is not None:
        write_page(found, limit, html)
        print(f"page: {html}")


@app.command()
def formats() -> None:
    """Print the formats with their splits, rubrics and licences."""
    from rich.console import Console
    from rich.table import Table

    from assay_trainer.data.importers import FORMATS

    table = Table("format", "domain", "splits and roles", "rubric", "licence", "real rows")
    for one in FORMATS.values():
        roles = ", ".join(f"{split}: {role}" for split, role in one.roles.items())
        seen = "; ".join([*one.verified, *(f"unverified: {name}" for name in one.unverified)])
        table.add_row(one.name, one.domain, roles, one.rubric, one.licence, seen)
    console = Console()
    (console if console.is_terminal else Console(width=200)).print(table)


@app.command()
def register(
    folder: Annotated[Path, typer.Argument(help="An imported folder without training rows.")],
    name: Annotated[str | None, typer.Option(help="Name of the set; its format's.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="File of hashes; in ASSAY_DATA/test_only without it.")
    ] = None,
    replace: Annotated[bool, typer.Option(help="Replace the set of this name.")] = False,
) -> None:
    """Register a test-only set: no run trains on a row with one of its prompts."""
    from assay_shared.settings.environment import ServiceSettings, read_settings
    from assay_trainer.curation.registration import register_set

    data_folder = read_settings(ServiceSettings).data
    path, number, total = register_set(folder, name, output, data_folder, replace=replace)
    print(f"{number} of {total} prompts in {path}")
