"""The levels of isolation: the highest this host grants is tried, and then attacked."""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from prometheus_client import Counter

from assay_sandbox.host import Host, Packages, examine, find_packages
from assay_sandbox.pool import Pool
from assay_sandbox.run import Ending, Plan, Run
from assay_sandbox.selftest import find_escapes
from assay_sandbox.settings import Isolation, SandboxSettings
from assay_sandbox.slot.daemon import FALLBACK, SlotConfig
from assay_sandbox.slot_daemon import Slot
from assay_sandbox.toolchain import Toolchain, make_folder
from assay_sandbox.work_folder import WorkFolder
from assay_shared.admission import Gate
from assay_shared.context import client
from assay_shared.errors import ConfigError, InvalidInput, SandboxFault, Saturated

_log = logging.getLogger(__name__)

#: From least to most.
LEVELS: tuple[str, ...] = get_args(Isolation)
_NUM_POOLS = 2
_HOW_TO_GRANT = (
    "slots need user, mount and pid namespaces, with a /proc of their own. In Docker these are "
    "--security-opt seccomp=services/sandbox/seccomp.json, systempaths=unconfined and, on a host "
    "with AppArmor, apparmor=unconfined: see In a container in docs/sandbox.md. Or set "
    "ASSAY_SANDBOX_MINIMUM_ISOLATION=fallback to serve with less"
)


class Slots:
    """All slots of a server, at one level, between `open` and `close`.

    Slots whose interpreter has scientific packages are made when the first program wants them.
    """

    host: Host
    isolation: str
    toolchain: Toolchain
    #: Programs that compute at once, and slots of each profile that are always there.
    num_slots: int
    #: Programs that are there at once, with those that sleep.
    max_slots: int
    #: What a program needs to compute: those that sleep lend theirs to others.
    permits: Gate

    def __init__(self, settings: SandboxSettings, rebuilt: Counter) -> None:
        self._settings = settings
        self._rebuilt = rebuilt
        self._folder: WorkFolder
        self._pool: Pool
        self._scientific: Pool | None = None
        self._making_scientific = asyncio.Lock()

    async def open(self) -> None:
        """Build slots at the level that was asked for, or as far below as the settings allow.

        Raises:
            ConfigError: the host grants less than the minimum, or a slot can be broken out of.
        """
        wanted = self._settings.sandbox_isolation
        least = self._settings.sandbox_minimum_isolation
        if LEVELS.index(least) > LEVELS.index(wanted):
            raise ConfigError(
                f"{wanted} is below ASSAY_SANDBOX_MINIMUM_ISOLATION, which is {least}",
                field="ASSAY_SANDBOX_ISOLATION",
            )
        self._folder = WorkFolder(self._settings.sandbox_work_folder)
        try:
            await self._open_at(wanted)
        except ConfigError:
            self._folder.remove()
            raise
        except SandboxFault as error:
            if least != FALLBACK or wanted == FALLBACK:
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
        self.isolation = isolation
        has_namespaces = isolation != FALLBACK
        self.host = examine(self._settings, has_namespaces=has_namespaces)
        self.toolchain = Toolchain(
            make_folder(self._settings, self._folder.path, has_namespaces=has_namespaces),
            self._settings.toolchains,
            self.host.python,
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
        self.permits = Gate(
            self.num_slots,
            math.inf,
            max_held=self.max_slots,
            min_share=self.num_slots,
            max_wait_s=self._settings.sandbox_max_wait_s,
            refusal=Saturated,
        )
        self._pool = self._make_pool(0, None)
        await self._pool.open()

    def _make_pool(self, number: int, packages: Packages | None) -> Pool:
        folder = self._folder.path / str(number)
        folder.mkdir(mode=0o755, exist_ok=True)
        config = SlotConfig(
            isolation=self.isolation,
            first_uid=self.host.first_uid,
            readable=[
                *self.host.readable,
                str(self.toolchain.folder),
                *self._settings.toolchains,
                # Where Debian's Java keeps its settings.
                *map(str, Path("/etc").glob("java-*")),
                *(packages.shown if packages else ()),
            ],
            writable_bytes=self._settings.sandbox_writable_bytes,
            folder=str(folder),
            path=self.toolchain.path,
            packages=packages.folder if packages else None,
        )
        numbers = range(number * self.max_slots, (number + 1) * self.max_slots)
        return Pool(self.host.python, config, numbers, self.num_slots, self._rebuilt)

    async def play(
        self,
        profile: str,
        plan: Plan,
        on_record: Callable[[Run, bytes], None],
        on_slot: Callable[[float], None] = lambda waited_s: None,
        *,
        needs_permit: bool = True,
    ) -> Ending:
        """Run a plan in the next free slot that has the profile's packages.

        Args:
            on_slot: is told how long the program has waited, when it gets a slot.
            needs_permit: false for a process that only answers a program which has a permit.

        Raises:
            InvalidInput: this host has no scientific packages.
            Saturated: no permit came free in time.
            SandboxFault: the slot was lost under the program, or none takes it.
        """
        pool = await self._pool_of(profile)
        started = time.monotonic()

        def tell() -> None:
            on_slot(time.monotonic() - started)

        if not needs_permit:
            return await pool.play(plan, on_record, tell)
        async with self.permits.enter(client()) as place:
            return await pool.play(plan, on_record, tell, place=place)

    async def hold(self, profile: str, number: int) -> Slot:
        """A slot for one holder alone; `number` is any below 256 that nobody holds.

        Raises:
            SandboxFault: the host does not grant it.
        """
        return await (await self._pool_of(profile)).hold(self._held_number(number))

    async def let_go(self, profile: str, number: int) -> None:
        """End a slot that was held."""
        await (await self._pool_of(profile)).let_go(self._held_number(number))

    def _held_number(self, number: int) -> int:
        return _NUM_POOLS * self.max_slots + number

    async def _pool_of(self, profile: str) -> Pool:
        return await self._scientific_pool() if profile == "scientific" else self._pool

    async def _scientific_pool(self) -> Pool:
        async with self._making_scientific:
            if self._scientific is None:
                packages = await asyncio.to_thread(
                    find_packages, self._settings, self.host, self.isolation != FALLBACK
                )
                if packages is None:
                    raise InvalidInput("this host has no scientific packages", field="profile")
                pool = self._make_pool(1, packages)
                try:
                    await pool.open()
                except SandboxFault:
                    await pool.close()
                    raise
                self._scientific = pool
        return self._scientific

    async def close(self) -> None:
        """End all slots and remove what they lived in."""
        for pool in (self._pool, self._scientific):
            if pool is not None:
                await pool.close()
        self.host.close()
        await asyncio.to_thread(self._folder.remove)
