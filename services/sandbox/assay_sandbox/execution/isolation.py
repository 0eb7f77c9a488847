"""Opens the slots at the wanted isolation level, or below, and tries to break out of them."""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from typing import get_args

from prometheus_client import Counter

from assay_sandbox.execution.host import (
    Host,
    Packages,
    can_import_numpy,
    examine,
    find_packages,
    packages_folder,
)
from assay_sandbox.execution.interpreter import make_interpreter
from assay_sandbox.execution.pool import Pool
from assay_sandbox.execution.run import RunningProgram, RunResult, RunSpec
from assay_sandbox.execution.selftest import find_escapes
from assay_sandbox.execution.slot_daemon import Slot
from assay_sandbox.execution.work_folder import make_work_folder
from assay_sandbox.languages.languages import LANGUAGES
from assay_sandbox.languages.toolchain import Toolchain, make_folder
from assay_sandbox.settings import Isolation, SandboxSettings
from assay_sandbox.slot.daemon import FALLBACK, SlotConfig
from assay_shared.errors import ConfigError, InvalidInput, SandboxFault, Saturated
from assay_shared.runtime.fair_limiter import FairLimiter
from assay_shared.runtime.temporary_folder import TemporaryFolder
from assay_shared.telemetry.context import client, request_id

_log = logging.getLogger(__name__)

#: From least to most.
LEVELS: tuple[str, ...] = get_args(Isolation)
#: Each has a pool of slots. The first is made at the start, the others when first needed.
PROFILES = ("std", "scientific", "grader", "scientific grader")
SCIENTIFIC = "scientific"
#: For each profile with numpy: the pool that serves it, and the pool if this host has no numpy.
_WITH_NUMPY = {
    SCIENTIFIC: (SCIENTIFIC, "std"),
    "auto": (SCIENTIFIC, "std"),
    "scientific grader": ("scientific grader", "grader"),
}
_NUM_POOLS = len(PROFILES)
_HOW_TO_GRANT = (
    "slots need user, mount and pid namespaces, with their own /proc. In Docker these are "
    "--security-opt seccomp=services/sandbox/seccomp.json, systempaths=unconfined and, on a host "
    "with AppArmor, apparmor=unconfined: see In a container in docs/sandbox_isolation.md. Or set "
    "ASSAY_SANDBOX_MINIMUM_ISOLATION=fallback to serve with less"
)


class Slots:
    """All slots of a server, at the same isolation level, between `open` and `close`.

    All have the same packages. Slots with numpy already imported are made when the first program
    needs them.
    """

    host: Host
    packages: Packages | None
    isolation: str
    toolchain: Toolchain
    #: Programs computing at once; also the number of slots always kept for each profile.
    num_slots: int
    #: Programs at once, sleeping ones included.
    max_slots: int
    #: Permits to compute: a sleeping program lends its permit to others.
    permits: FairLimiter

    def __init__(self, settings: SandboxSettings, rebuilt: Counter) -> None:
        self._settings = settings
        self._rebuilt = rebuilt
        self._folder: TemporaryFolder
        self._pool: Pool
        #: The pools made for other profiles than the first.
        self._others: dict[str, Pool] = {}
        self._making_other = asyncio.Lock()
        self._can_import_numpy: bool | None = None

    async def open(self) -> None:
        """Build slots at the wanted level, or at `fallback` if the settings allow it.

        Raises:
            ConfigError: the host grants less than the minimum, or a program can escape a slot.
        """
        wanted = self._settings.sandbox_isolation
        least = self._settings.sandbox_minimum_isolation
        if LEVELS.index(least) > LEVELS.index(wanted):
            raise ConfigError(
                f"{wanted} is below ASSAY_SANDBOX_MINIMUM_ISOLATION, which is {least}",
                field="ASSAY_SANDBOX_ISOLATION",
            )
        if self._settings.sandbox_loopback and wanted == FALLBACK:
            raise ConfigError(
                "isolation fallback gives a program no private network: set "
                "ASSAY_SANDBOX_ISOLATION to another level",
                field="ASSAY_SANDBOX_LOOPBACK",
            )
        self._folder = make_work_folder(self._settings.sandbox_work_folder)
        try:
            await self._open_at(wanted)
        except ConfigError:
            self._folder.remove()
            raise
        except SandboxFault as error:
            needs_namespaces = least != FALLBACK or self._settings.sandbox_loopback
            if needs_namespaces or wanted == FALLBACK:
                await self.close()
                raise ConfigError(
                    f"this host does not grant isolation {wanted}: {error.message}",
                    field="ASSAY_SANDBOX_ISOLATION",
                    hint=_HOW_TO_GRANT,
                ) from error
            _log.warning("isolation is fallback: %s is not granted here: %s", wanted, error.message)
            await self._pool.close()
            self.host.close()
            await self._open_at(FALLBACK)
        escapes = await find_escapes(self._pool)
        if escapes:
            await self.close()
            raise ConfigError(
                f"isolation {self.isolation} does not hold on this host: {'; '.join(escapes)}",
                field="ASSAY_SANDBOX_ISOLATION",
            )

    async def _open_at(self, isolation: str) -> None:
        has_namespaces = isolation != FALLBACK
        self.host = examine(self._settings, has_namespaces=has_namespaces)
        self.toolchain = Toolchain(
            make_folder(self._settings, self._folder.path, has_namespaces=has_namespaces),
            self._settings.toolchains,
            self.host.python,
            packages=str(packages_folder(self._settings) or ""),
        )
        self.isolation = self._least_that_holds(isolation)
        self.packages = find_packages(self._settings)
        home = self._folder.path / isolation
        home.mkdir(mode=0o755)
        self._interpreter = make_interpreter(
            home, self.host, self.packages, has_namespaces=has_namespaces
        )
        self.num_slots = self._settings.sandbox_slots
        self.max_slots = self._settings.max_slots
        if self.host.first_uid is None and not has_namespaces and self.num_slots > 1:
            _log.warning(
                "one slot instead of %d: in fallback and without root all programs are one user's, "
                "and one that starts many processes would keep the others from starting theirs",
                self.num_slots,
            )
            self.num_slots = self.max_slots = 1
        self.permits = FairLimiter(
            self.num_slots,
            math.inf,
            max_held=self.max_slots,
            min_share=self.num_slots,
            max_wait_s=self._settings.sandbox_max_wait_s,
            refusal=Saturated,
        )
        self._pool = self._make_pool(0, [])
        await self._pool.open()

    def _least_that_holds(self, isolation: str) -> str:
        """Return the level to serve with: `fresh` in place of a `pooled` level that would not hold.

        Without separate users, a program could change its slot's first process for the programs
        after it. With the loopback network, a program's ports would stay busy for the next.
        """
        shares_too_much = self.host.first_uid is None or self._settings.sandbox_loopback
        return "fresh" if isolation == "pooled" and shares_too_much else isolation

    def _make_pool(self, number: int, imported: list[str]) -> Pool:
        folder = self._folder.path / str(number)
        folder.mkdir(mode=0o755, exist_ok=True)
        config = SlotConfig(
            isolation=self.isolation,
            first_uid=self.host.first_uid,
            readable=[
                *self.host.readable,
                str(self.toolchain.folder),
                *self._settings.toolchains,
                *(path for one in LANGUAGES.values() for path in one.needs),
                *(self.packages.shown if self.packages else ()),
            ],
            writable_bytes=self._settings.sandbox_writable_bytes,
            folder=str(folder),
            path=self.toolchain.path,
            python_home=str(self._interpreter),
            imported=imported,
            packages=self.packages.folder if self.packages else "",
            loopback=self._settings.sandbox_loopback,
        )
        numbers = range(number * self.max_slots, (number + 1) * self.max_slots)
        python = str(self._interpreter / "bin" / "python")
        return Pool(python, config, numbers, self.num_slots, self._rebuilt)

    async def play(
        self,
        profile: str,
        plan: RunSpec,
        on_record: Callable[[RunningProgram, bytes], None],
        on_slot: Callable[[float], None] = lambda waited_s: None,
        *,
        needs_permit: bool = True,
    ) -> RunResult:
        """Run a plan in the next free slot of the profile and return the program's end.

        Args:
            on_slot: called with the seconds waited when the program gets a slot.
            needs_permit: false for a process serving a program that holds a permit already.

        Raises:
            InvalidInput: this host has no scientific packages.
            Saturated: no permit came free in time.
            SandboxFault: the slot was lost under the program, or no slot takes it.
        """
        pool = await self._pool_of(profile)
        started = time.monotonic()

        def tell() -> None:
            on_slot(time.monotonic() - started)

        if not needs_permit:
            return await pool.play(plan, on_record, tell)
        async with self.permits.enter(client(), request_id()) as place:
            return await pool.play(plan, on_record, tell, place=place)

    async def hold(self, profile: str, number: int) -> Slot:
        """Return a new slot for a single holder; `number` is any unheld number below 256.

        Raises:
            SandboxFault: the host does not grant it.
        """
        return await (await self._pool_of(profile)).hold(self._held_number(number))

    async def let_go(self, profile: str, number: int) -> None:
        """End a held slot."""
        await (await self._pool_of(profile)).let_go(self._held_number(number))

    async def evidence_of(self, profile: str) -> Callable[[], object]:
        """Return the profile's `Pool.evidence`: its value shows losses not caused by a program."""
        return (await self._pool_of(profile)).evidence

    def _held_number(self, number: int) -> int:
        return _NUM_POOLS * self.max_slots + number

    async def _pool_of(self, profile: str) -> Pool:
        """Return the pool of a profile, or its pool without numpy if this host has no numpy.

        Raises:
            InvalidInput: the profile is `scientific`, and this host has no numpy.
        """
        if profile == PROFILES[0]:
            return self._pool
        async with self._making_other:
            if profile in _WITH_NUMPY:
                has_numpy = await self._has_numpy()
                if profile == SCIENTIFIC and not has_numpy:
                    raise InvalidInput("this host has no scientific packages", field="profile")
                profile = _WITH_NUMPY[profile][0 if has_numpy else 1]
            if profile == PROFILES[0]:
                return self._pool
            if profile not in self._others:
                self._others[profile] = await self._open_other(profile)
            return self._others[profile]

    async def _has_numpy(self) -> bool:
        if self._can_import_numpy is None:
            self._can_import_numpy = self.packages is not None and await asyncio.to_thread(
                can_import_numpy,
                self.packages,
                self.host,
                has_namespaces=self.isolation != FALLBACK,
            )
        return self._can_import_numpy

    async def _open_other(self, profile: str) -> Pool:
        imported = ["numpy"] if SCIENTIFIC in profile else []
        pool = self._make_pool(PROFILES.index(profile), imported)
        try:
            await pool.open()
        except SandboxFault:
            await pool.close()
            raise
        return pool

    async def close(self) -> None:
        """End all slots and remove their folder."""
        for pool in (self._pool, *self._others.values()):
            await pool.close()
        self.host.close()
        await asyncio.to_thread(self._folder.remove)
