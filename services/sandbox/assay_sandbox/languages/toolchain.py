"""Interpreters and compilers of this host: finds them, and prepares their files once."""

import asyncio
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from assay_sandbox.languages.language import Language
from assay_sandbox.languages.languages import LANGUAGES, find_language
from assay_sandbox.settings import SandboxSettings
from assay_shared.errors import ConfigError, InvalidInput, SandboxFault

_SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
_VERSION_TIMEOUT_S = 20.0
_PREPARE_TIMEOUT_S = 600.0


def make_folder(settings: SandboxSettings, work_folder: Path, *, has_namespaces: bool) -> Path:
    """Return the folder for compilers' prepared files; create it if needed.

    Raises:
        ConfigError: the folder named by the settings cannot be created.
    """
    chosen = settings.sandbox_toolchain_folder
    own = work_folder / "toolchain"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = chosen or cache / "assay" / "sandbox"
    if not chosen and os.geteuid() == 0 and not has_namespaces:
        folder = own  # slots' users cannot read another user's home
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if chosen:
            raise ConfigError(str(error), field="ASSAY_SANDBOX_TOOLCHAIN_FOLDER") from None
        folder = own  # no home, or a read-only one
        folder.mkdir(exist_ok=True)
    return folder


class Toolchain:
    """The interpreters and compilers on the path of slots."""

    def __init__(
        self, folder: Path, extra: tuple[str, ...], python: str, packages: str | None = None
    ) -> None:
        """Keep prepared files in `folder`; add toolchains `extra`, each with a bin folder.

        `packages` is the folder of Python packages for programs.
        """
        self.folder = folder
        self.path = ":".join([*(f"{prefix}/bin" for prefix in extra), *_SYSTEM_PATH])
        self._python = python
        self._packages = packages
        #: First line printed by each version command; None if it failed.
        self._versions: dict[tuple[str, ...], str | None] = {}
        self._preparing: dict[str, asyncio.Lock] = {}

    def versions(self) -> dict[str, str]:
        """Return the languages of this host, each with the version printed by its toolchain."""
        found = {name: self._version(language) for name, language in LANGUAGES.items()}
        return {name: text for name, text in found.items() if text is not None}

    def version_of(self, name: str) -> str:
        """Return the version printed by a language's toolchain; raises the errors of `find`."""
        return self._version(self.find(name)) or ""

    def find(self, name: str) -> Language:
        """Return the language called `name`.

        Raises:
            InvalidInput: there is no such language, or this host lacks it.
        """
        language = find_language(name)
        if language.run and not self._has(language):
            raise InvalidInput(
                f"this host has no {language.version[0]}",
                field="language",
                hint="/v1/languages lists what it has",
            )
        return language

    def _has(self, language: Language) -> bool:
        tools = {language.version[0], *(c[0] for c in (language.compile, language.run) if c)}
        return all(map(self._finds, tools | set(language.tools)))

    def _finds(self, tool: str) -> bool:
        """Return True if a command is on the path of programs, or a file exists."""
        if tool.startswith("/"):
            return Path(tool).exists()
        return tool.startswith("./") or shutil.which(tool, path=self.path) is not None

    def _version(self, language: Language) -> str | None:
        if not all(map(self._finds, language.tools)):
            return None
        if language.version not in self._versions:
            self._versions[language.version] = self._ask(language.version)
        return self._versions[language.version]

    def _ask(self, version: tuple[str, ...]) -> str | None:
        command = [word.replace("{python}", self._python) for word in version]
        try:
            shown = self._run(command, "/", _VERSION_TIMEOUT_S)
        except (OSError, subprocess.SubprocessError):
            return None
        return (shown.stdout or shown.stderr).partition("\n")[0].strip()

    def _run(
        self, command: list[str], folder: str, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=folder,
            env={
                "PATH": self.path,
                "HOME": folder,
                "LANG": "C.UTF-8",
                "PYTHONPATH": self._packages or "",
            },
            umask=0o022,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=True,
        )

    async def prepare_all(self) -> list[str]:
        """Prepare all languages of this host that need it, and return their names."""
        needing = [one for one in LANGUAGES.values() if one.prepare and self._has(one)]
        for language in needing:
            await self.prepare(language)
        return [language.name for language in needing]

    async def prepare(self, language: Language) -> str:
        """Return the folder of a language's prepared files; fill it the first time.

        Return "" if the language needs no such files.

        Raises:
            SandboxFault: the folder cannot be filled.
        """
        if not language.prepare:
            return ""
        async with self._preparing.setdefault(language.name, asyncio.Lock()):
            return await asyncio.to_thread(self._prepare, language)

    def _prepare(self, language: Language) -> str:
        made_by = repr((self._version(language), language.prepare))
        key = hashlib.sha256(made_by.encode()).hexdigest()[:12]
        folder = self.folder / f"{language.name}-{key}"
        if folder.is_dir():
            return str(folder)
        try:
            unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=self.folder))
            try:
                unfinished.chmod(0o755)
                command = [word.replace("{cache}", str(folder)) for word in language.prepare]
                self._run(command, str(unfinished), _PREPARE_TIMEOUT_S)
                unfinished.rename(folder)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
        except subprocess.CalledProcessError as error:
            raise SandboxFault(f"{language.name} cannot be made ready: {error.stderr}") from error
        except (OSError, subprocess.SubprocessError) as error:
            if not folder.is_dir():  # another process may have been faster
                raise SandboxFault(f"{language.name} cannot be made ready: {error}") from error
        return str(folder)
