"""`python requirements/install.py NAME...`: install what requirements/NAME.txt lists, and no more.

Each file is checked against the SHA-256 of the list before it is unpacked, and nothing is installed
that the list does not name. One exception: where pip's sources offer torch built for the CPU
(a folder or index of your own; PyPI has none for Linux), that build is taken, whose hash no list
can know, and CUDA's libraries are left out.
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


def main() -> None:
    """Install the lists that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="+", help="lists: files of this folder, without .txt")
    parser.add_argument("--python", help="interpreter to install for; this one without it")
    parser.add_argument("--target", help="folder to install into, in place of an environment")
    parser.add_argument("--cuda", action="store_true", help="take torch with CUDA in any case")
    given = parser.parse_args()
    pip = [sys.executable, "-m", "pip"]
    if given.python:
        pip += ["--python", given.python]
    options = ["--target", given.target] if given.target else []
    for name in given.names:
        install(read_entries(_FOLDER / f"{name}.txt"), pip, options, cuda=given.cuda)


def read_entries(file: Path) -> dict[str, str]:
    """Return each package's pin with its hashes, by the package's name.

    Raises:
        SystemExit: the list has an entry without a hash.
    """
    joined = file.read_text().replace("\\\n", " ")
    entries = {}
    for line in filter(None, map(str.strip, joined.splitlines())):
        name = _NAME.match(line)
        if name is None or "==" not in line or "--hash=sha256:" not in line:
            raise SystemExit(f"{file}: no pinned package with a hash: {line[:80]}")
        entries[name.group()] = line
    return entries


def install(entries: dict[str, str], pip: list[str], options: list[str], *, cuda: bool) -> None:
    """Have pip install all of them, in one call that checks every hash."""
    if "torch" in entries and not cuda:
        version = entries["torch"].split()[0]
        offered = [*pip, "install", "--quiet", "--no-deps", *options, f"{version}+cpu"]
        if subprocess.run(offered, stderr=subprocess.DEVNULL, check=False).returncode == 0:
            entries = {
                name: entry
                for name, entry in entries.items()
                if name != "torch" and not name.startswith(_OF_CUDA)
            }
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
        wanted.write("\n".join(entries.values()))
        wanted.flush()
        command = [*pip, "install", "--quiet", "--require-hashes", "--no-deps", *options]
        done = subprocess.run([*command, "--requirement", wanted.name], check=False)
    if done.returncode != 0:
        raise SystemExit(done.returncode)


if __name__ == "__main__":
    main()
