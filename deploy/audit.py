"""`python deploy/audit.py DATABASE [LIST...]`: look up pinned packages in stored advisories.

DATABASE is a folder with advisories in the OSV format (https://ossf.github.io/osv-schema/), as JSON
or YAML: a copy of the Python Packaging Advisory Database, or OSV's archive for PyPI, unpacked. No
network is used. Ends with 1 if a pinned version is affected, and with 2 if the database is
empty or old.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

_LISTS = Path(__file__).parents[1] / "requirements"
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_MAX_BYTES = 4 * 2**20


def main() -> None:
    """Print each affected package, and how old the newest advisory is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("database", type=Path)
    parser.add_argument("lists", nargs="*", type=Path, help="all of requirements/ without them")
    parser.add_argument("--max-age-days", type=float, default=30.0, help="of the newest advisory")
    given = parser.parse_args()
    lists = given.lists or sorted(_LISTS.glob("*.txt"))
    pins = {pin for file in lists for pin in read_pins(file)}
    advisories = [one for one in read_advisories(given.database) if not one.get("withdrawn")]
    if not pins or not advisories:
        print(f"nothing to compare: {len(pins)} pins, {len(advisories)} advisories")
        sys.exit(2)
    newest = max(str(one.get("modified", "")) for one in advisories)
    print(f"{len(pins)} pinned packages, {len(advisories)} advisories, the newest of {newest}")
    found = sorted(find_affected(pins, advisories))
    for name, version, identifier, summary in found:
        print(f"{name}=={version}: {identifier}: {summary}")
    if datetime.fromisoformat(newest) < datetime.now(UTC) - timedelta(days=given.max_age_days):
        print(f"the database is older than {given.max_age_days:g} days")
        sys.exit(2)
    sys.exit(1 if found else 0)


def read_pins(file: Path) -> list[tuple[str, str]]:
    """Return name and version of each pinned package of a list."""
    return [(canonicalize_name(name), version) for name, version in _PIN.findall(file.read_text())]


def read_advisories(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield every advisory below a folder.

    Raises:
        SystemExit: a file is too large or cannot be read.
    """
    for file in sorted(folder.rglob("*")):
        if file.suffix not in (".json", ".yaml", ".yml") or not file.is_file():
            continue
        if file.stat().st_size > _MAX_BYTES:
            raise SystemExit(f"{file} has more than {_MAX_BYTES} bytes")
        text = file.read_text()
        try:
            read = json.loads(text) if file.suffix == ".json" else yaml.load(text, _LOADER)
        except (ValueError, yaml.YAMLError) as error:
            raise SystemExit(f"{file} cannot be read: {error}") from None
        if isinstance(read, dict) and "affected" in read:
            yield read


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Leaves times as they are written, as JSON does."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in _Loader.yaml_implicit_resolvers.items()
}
_LOADER = _Loader


def find_affected(
    pins: set[tuple[str, str]], advisories: list[dict[str, Any]]
) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, version, identifier and summary of each pin with an advisory."""
    by_name: dict[str, list[str]] = {}
    for name, version in pins:
        by_name.setdefault(name, []).append(version)
    for advisory in advisories:
        for affected in advisory["affected"]:
            package = affected.get("package", {})
            if package.get("ecosystem") != "PyPI":
                continue
            name = canonicalize_name(str(package.get("name", "")))
            for version in by_name.get(name, []):
                if is_affected(version, affected):
                    summary = advisory.get("summary") or advisory.get("details", "")
                    line = " ".join(str(summary).split())[:120]
                    yield name, version, str(advisory.get("id")), line


def is_affected(version: str, affected: Mapping[str, Any]) -> bool:
    """Return True if a version is listed, or is within a range of the OSV format."""
    if version in affected.get("versions", []):
        return True
    pinned = Version(version)
    return any(
        _is_within(pinned, one.get("events", []))
        for one in affected.get("ranges", [])
        if one.get("type") == "ECOSYSTEM"
    )


def _is_within(version: Version, events: list[dict[str, str]]) -> bool:
    """Follow introduced, fixed and last_affected in order, as the format's evaluation does."""
    is_in = False
    for event in sorted(events, key=_place):
        (kind, at), *_ = event.items()
        if kind == "introduced" and (at == "0" or version >= Version(at)):
            is_in = True
        if kind == "fixed" and version >= Version(at):
            is_in = False
        if kind == "last_affected" and version > Version(at):
            is_in = False
    return is_in


def _place(event: Mapping[str, str]) -> Version:
    at = next(iter(event.values()))
    try:
        return Version(at)
    except InvalidVersion:
        return Version("0")


if __name__ == "__main__":
    main()
