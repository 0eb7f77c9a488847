"""`python requirements/install.py NAME...`: install what requirements/NAME.txt lists, and no more.

Each file is checked against the SHA-256 of the list before it is unpacked, and nothing is installed
that the list does not name. Two exceptions. Where pip's sources offer torch built for the CPU
(a folder or index of your own; PyPI has none for Linux), that build is taken, whose hash no list
can know, and CUDA's libraries are left out. And with --torch-of, an environment on the same disk
lends its torch, if that has the list's version.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

_FOLDER = Path(__file__).parent
_OF_CUDA = ("cuda-", "nvidia-", "triton")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
#: Prints version and folder of an environment's torch, without importing it.
_FIND_TORCH = """
import importlib.metadata as metadata
found = metadata.distribution("torch")
print(found.version.partition("+")[0], found.locate_file(""))
"""
_FIND_PACKAGES = "import sysconfig; print(sysconfig.get_path('purelib'))"


def main() -> None:
    """Install the lists that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="+", help="lists: files of this folder, without .txt")
    parser.add_argument("--only", metavar="PACKAGE", help="this package of the lists alone")
    parser.add_argument("--python", help="interpreter to install for; this one without it")
    parser.add_argument("--target", help="folder to install into, in place of an environment")
    parser.add_argument("--cuda", action="store_true", help="take torch with CUDA in any case")
    parser.add_argument("--torch-of", metavar="PYTHON", help="interpreter whose torch is shared")
    given = parser.parse_args()
    pip = [sys.executable, "-m", "pip"]
    if given.python:
        pip += ["--python", given.python]
    options = ["--target", given.target] if given.target else []
    for name in given.names:
        entries = read_entries(_FOLDER / f"{name}.txt")
        if given.only:
            entries = only(entries, given.only, name)
        if given.torch_of and share_torch(entries, given.torch_of, given.python or sys.executable):
            entries = without_torch(entries)
        install(entries, pip, options, cuda=given.cuda)


def read_entries(file: Path) -> dict[str, str]:
    """Return each package's pins with their hashes, by the package's name.

    A package has several pins, a line each, where the version depends on Python or the machine.

    Raises:
        SystemExit: the list has an entry without a hash.
    """
    joined = file.read_text().replace("\\\n", " ")
    entries = {}
    for line in filter(None, map(str.strip, joined.splitlines())):
        name = _NAME.match(line)
        if name is None or "==" not in line or "--hash=sha256:" not in line:
            raise SystemExit(f"{file}: no pinned package with a hash: {line[:80]}")
        entries[name.group()] = "\n".join(filter(None, (entries.get(name.group()), line)))
    return entries


def only(entries: dict[str, str], package: str, name: str) -> dict[str, str]:
    """Return one package's entry of the list `name`.

    Raises:
        SystemExit: the list does not have it.
    """
    if package not in entries:
        raise SystemExit(f"requirements/{name}.txt has no {package}")
    return {package: entries[package]}


def without_torch(entries: dict[str, str]) -> dict[str, str]:
    """Return the entries without torch and the libraries of CUDA that it brings."""
    return {
        name: entry
        for name, entry in entries.items()
        if name != "torch" and not name.startswith(_OF_CUDA)
    }


def share_torch(entries: dict[str, str], lender: str, borrower: str) -> bool:
    """Let one interpreter use the other's packages after its own; return whether it does.

    It does not if there is no lender, or the lender's torch has another version than the list.
    """
    if not Path(lender).exists():
        return False
    found = subprocess.run([lender, "-c", _FIND_TORCH], capture_output=True, text=True, check=False)
    version, _, folder = found.stdout.strip().partition(" ")
    if found.returncode != 0 or f"torch=={version}" not in entries.get("torch", "").split():
        return False
    asked = [borrower, "-c", _FIND_PACKAGES]
    packages = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    Path(packages, "torch.pth").write_text(f"{folder}\n")
    return True


def install(entries: dict[str, str], pip: list[str], options: list[str], *, cuda: bool) -> None:
    """Have pip install all of them, in one call that checks every hash."""
    if "torch" in entries and not cuda:
        version = entries["torch"].split()[0]
        offered = [*pip, "install", "--quiet", "--no-deps", *options, f"{version}+cpu"]
        if subprocess.run(offered, stderr=subprocess.DEVNULL, check=False).returncode == 0:
            entries = without_torch(entries)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
        wanted.write("\n".join(entries.values()))
        wanted.flush()
        command = [*pip, "install", "--quiet", "--require-hashes", "--no-deps", *options]
        done = subprocess.run([*command, "--requirement", wanted.name], check=False)
    if done.returncode != 0:
        raise SystemExit(done.returncode)


if __name__ == "__main__":
    main()
