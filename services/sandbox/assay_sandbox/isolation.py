"""The levels of isolation: the highest this host grants is tried, and then attacked."""

import logging
import tempfile
from pathlib import Path
from typing import get_args

from prometheus_client import Counter

from assay_sandbox.host import examine
from assay_sandbox.pool import Pool
from assay_sandbox.selftest import find_escapes
from assay_sandbox.settings import Isolation, SandboxSettings
from assay_sandbox.slot.daemon import FALLBACK
from assay_shared.errors import ConfigError, SandboxFault

_log = logging.getLogger(__name__)

#: From least to most.
LEVELS: tuple[str, ...] = get_args(Isolation)
_HOW_TO_GRANT = (
    "slots need user, mount and pid namespaces: see docs/sandbox.md for the options of Docker and "
    "Kubernetes, or set ASSAY_SANDBOX_MINIMUM_ISOLATION=fallback to serve with less"
)


async def open_pool(settings: SandboxSettings, rebuilt: Counter) -> Pool:
    """Slots at the level that was asked for, or as far below it as the settings allow.

    Raises:
        ConfigError: the host grants less than the minimum, or a slot can be broken out of.
    """
    wanted, least = settings.sandbox_isolation, settings.sandbox_minimum_isolation
    if LEVELS.index(least) > LEVELS.index(wanted):
        raise ConfigError(
            f"{wanted} is below ASSAY_SANDBOX_MINIMUM_ISOLATION, which is {least}",
            field="ASSAY_SANDBOX_ISOLATION",
        )
    pool = _make_pool(settings, wanted, rebuilt)
    try:
        await pool.open()
    except SandboxFault as error:
        await pool.close()
        if least != FALLBACK or wanted == FALLBACK:
            raise ConfigError(
                f"this host does not grant isolation {wanted}: {error.message}",
                field="ASSAY_SANDBOX_ISOLATION",
                hint=_HOW_TO_GRANT,
            ) from error
        _log.warning("isolation is fallback: %s is not granted here: %s", wanted, error.message)
        pool = _make_pool(settings, FALLBACK, rebuilt)
        await pool.open()
    await _attack(pool)
    return pool


def _make_pool(settings: SandboxSettings, isolation: str, rebuilt: Counter) -> Pool:
    try:
        folder = Path(tempfile.mkdtemp(prefix="assay-slots-", dir=settings.sandbox_work_folder))
    except OSError as error:
        raise ConfigError(str(error), field="ASSAY_SANDBOX_WORK_FOLDER") from None
    folder.chmod(0o755)
    return Pool(
        examine(settings, has_namespaces=isolation != FALLBACK),
        isolation,
        settings.sandbox_slots,
        settings.sandbox_writable_bytes,
        folder,
        rebuilt,
    )


async def _attack(pool: Pool) -> None:
    escapes = await find_escapes(pool)
    if escapes:
        await pool.close()
        raise ConfigError(
            f"isolation {pool.isolation} does not hold on this host: {'; '.join(escapes)}",
            field="ASSAY_SANDBOX_ISOLATION",
        )
