"""Creates the virtual environment through which programs use the host's interpreter.

Programs find their allowed packages in it, and nothing else of the host. The packages installed
with the interpreter are missing, and `.pth` files there do not run.
"""

from pathlib import Path

from assay_sandbox.execution.host import Host, Packages
from assay_sandbox.slot.confinement import root

_NAME = "python"
_SETTINGS = """\
home = {home}
include-system-site-packages = false
version = {version}
"""


def make_interpreter(
    folder: Path, host: Host, packages: Packages | None, *, has_namespaces: bool
) -> Path:
    """Create the environment in `folder` and return its own folder.

    Slots with namespaces may have the packages in another place than the host.
    """
    made = folder / _NAME
    binaries = made / "bin"
    site = made / "lib" / f"python{host.version}" / "site-packages"
    for part in (binaries, site):
        part.mkdir(parents=True)
    settings = _SETTINGS.format(home=Path(host.python).parent, version=host.version)
    (made / "pyvenv.cfg").write_text(settings)
    for name in ("python", "python3", f"python{host.version}"):
        (binaries / name).symlink_to(host.python)
    for path in _importable(packages):
        (site / path.name).symlink_to(root.place_of(str(path)) if has_namespaces else path)
    for part in (made, *made.rglob("*")):
        if part.is_dir() and not part.is_symlink():
            part.chmod(0o755)  # slots' users read it, whatever the server's umask is
    (made / "pyvenv.cfg").chmod(0o644)
    return made


def _importable(packages: Packages | None) -> list[Path]:
    """Return the paths of all packages, without `.pth` files: the slots' daemon would run them."""
    if packages is None:
        return []
    paths = [Path(path) for path in packages.shown]
    if packages.shown == (packages.folder,):
        paths = list(paths[0].iterdir()) if paths[0].is_dir() else []
    return [path for path in paths if path.suffix != ".pth"]
