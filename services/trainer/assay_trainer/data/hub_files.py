"""The files of a split of a hub's dataset.

A dataset's card may name them (`configs` in the front matter of README.md). Otherwise
their names tell: main/train-00000-of-00001.parquet is a part of the split train, and data/dev.jsonl
is the split validation.
"""

import fnmatch
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from assay_shared.errors import DatasetError
from assay_trainer.data.tables import TABLES
from assay_trainer.hub import Report, Repository, download, list_files
from assay_trainer.table_source import HubFiles

CARD = "README.md"
_FRONT_MATTER = re.compile(r"\A\ufeff?---\s*\n(.*?)\n---\s*(?:\n|\Z)", re.DOTALL)
_SHARD = re.compile(r"(?:^|/)([\w.]+)-\d{5}-of-\d{5}[^/]*$")
_WORD = re.compile(
    r"(?:^|[-_./ ])(train|training|validation|valid|val|dev|test|testing|eval|evaluation)"
    r"(?=[-_./ \d]|$)"
)
_SAME = {"training": "train", "valid": "validation", "val": "validation", "dev": "validation"}
_SAME |= {"testing": "test", "eval": "test", "evaluation": "test"}
#: Patterns of files by split.
Splits = dict[str, list[str]]


def split_files(source: HubFiles, repository: Repository) -> dict[str, int]:
    """Return the sizes in bytes of the files of the source's split, by path, in their order.

    Raises:
        DatasetError: there is no such configuration or split, and those that there are; or none of
            the files is a table.
        AssayError: the hub has no such dataset, or cannot be reached.
    """
    listing = list_files(repository)
    tables = sorted(name for name in listing if name.endswith(TABLES))
    if not tables:
        raise DatasetError(
            f"{repository} has no file that ends with {', '.join(TABLES)}",
            hint="the hub may have converted it: try revision refs/convert/parquet",
        )
    configs = {}
    if CARD in listing:
        card = download(repository, [CARD]) / CARD
        configs = _configs_of_card(card.read_text(encoding="utf-8", errors="replace"))
    if configs:
        patterns = _one_of("config", configs, _wanted(source.config, configs))
        splits = {name: _matching(tables, patterns[name]) for name in patterns}
    else:
        splits = splits_by_name(_in_config(tables, source.config))
    files = _one_of("split", splits, source.split)
    if not files:
        raise DatasetError(f"split {source.split} has no file that is a table", field="split")
    return {name: listing[name] for name in files}


def download_split(
    source: HubFiles, repository: Repository, report: Report | None = None
) -> list[Path]:
    """Return the files of a split in the cache; those that it lacks are downloaded.

    Raises:
        DatasetError, AssayError: see `split_files`.
    """
    names = list(split_files(source, repository))
    folder = download(repository, names, report)
    return [folder / name for name in names]


def _one_of(kind: str, found: dict[str, Any], name: str | None) -> Any:
    if name is None or name not in found:
        what = f"there is no {kind} {name!r}" if name is not None else f"which {kind}?"
        raise DatasetError(f"{what} There are: {', '.join(sorted(found))}", field=kind)
    return found[name]


def _wanted(config: str | None, configs: dict[str, Splits]) -> str | None:
    """Return the configuration's name: the one asked for, the default, or the only one."""
    if config is not None or (len(configs) > 1 and "default" not in configs):
        return config
    return "default" if "default" in configs else next(iter(configs))


def _configs_of_card(text: str) -> dict[str, Splits]:
    """Return the patterns of files by configuration and split; empty without any.

    The configuration that the card calls the default is also under the name `default`.
    """
    front = _FRONT_MATTER.match(text)
    try:
        card = yaml.safe_load(front[1]) if front else None
    except yaml.YAMLError:
        return {}
    found: dict[str, Splits] = {}
    entries = card.get("configs") if isinstance(card, dict) else None
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and "data_files" in entry:
            splits = _patterns(entry["data_files"], str(entry.get("data_dir") or ""))
            found[str(entry.get("config_name", "default"))] = splits
            if entry.get("default") is True:
                found["default"] = splits
    return found


def _patterns(data_files: Any, folder: str) -> Splits:
    """Return patterns by split, of a pattern, a list of them, or a list of splits with theirs."""
    entries = data_files if isinstance(data_files, list) else [data_files]
    found: Splits = {}
    for entry in entries:
        split, path = (
            (str(entry.get("split", "train")), entry.get("path"))
            if isinstance(entry, dict)
            else ("train", entry)
        )
        for one in path if isinstance(path, list) else [path]:
            found.setdefault(split, []).append(f"{folder}/{one}".lstrip("/"))
    return found


def _matching(tables: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return the files that match a pattern; only ** crosses folders."""
    return [
        name
        for name in tables
        if any(
            fnmatch.fnmatchcase(name, pattern)
            and ("**" in pattern or name.count("/") == pattern.count("/"))
            for pattern in patterns
        )
    ]


def _in_config(tables: Sequence[str], config: str | None) -> list[str]:
    """Return the files in the folder of a configuration; all of them without one."""
    if config is None:
        return list(tables)
    folders = {name.partition("/")[0]: None for name in tables if "/" in name}
    _one_of("config", folders, config)
    return [name for name in tables if name.startswith(f"{config}/")]


def splits_by_name(tables: Sequence[str]) -> dict[str, list[str]]:
    """Return files by split; where no name says a split, all are `train`."""
    found: dict[str, list[str]] = {}
    for name in tables:
        shard = _SHARD.search(name)
        words = _WORD.findall(name.lower())
        if shard is not None:
            found.setdefault(shard[1], []).append(name)
        elif words:
            found.setdefault(_SAME.get(words[-1], words[-1]), []).append(name)
    return found or {"train": list(tables)}
