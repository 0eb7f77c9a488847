"""Discovery of replicas: a list of addresses, a name with many addresses, or own children."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from assay_inference.engines.engine import Engine
from assay_inference.engines.replicas.replica import LocalReplica, Replica
from assay_inference.settings import InferenceSettings
from assay_shared.errors import ConfigError, Unreachable

_FIELD = "ASSAY_INFERENCE_REPLICAS"
_DNS = "dns+"


class Discovery(Protocol):
    """Names of the present replicas, and a factory for them."""

    @property
    def is_local(self) -> bool:
        """True if the replicas are engines of this very service."""
        ...

    async def names(self) -> list[str]:
        """Return the names of the present replicas.

        Raises:
            Unreachable: they cannot be found; the known replicas remain.
        """
        ...

    def make(self, name: str) -> Replica: ...


@dataclass(frozen=True)
class AddressList:
    """Services elsewhere; `dns+http://name:port` stands for every address of the name."""

    settings: InferenceSettings
    urls: tuple[str, ...]
    is_local: bool = False

    @classmethod
    def read(cls, settings: InferenceSettings) -> "AddressList":
        """Raises ConfigError if the setting names no address, or something else."""
        urls = tuple(url.strip().rstrip("/") for url in settings.inference_replicas.split(","))
        for url in urls:
            host, _, port = url.removeprefix(_DNS).removeprefix("http://").rpartition(":")
            if not url.removeprefix(_DNS).startswith("http://") or not host or not port.isdigit():
                raise ConfigError(
                    f"{url!r} is not an address",
                    field=_FIELD,
                    hint="http://host:port or dns+http://name:port, divided by commas",
                )
        if len(set(urls)) < len(urls):
            raise ConfigError("an address stands there twice", field=_FIELD)
        return cls(settings, urls)

    async def names(self) -> list[str]:
        found: dict[str, None] = {}
        for url in self.urls:
            for one in await _resolved(url) if url.startswith(_DNS) else [url]:
                found[one] = None
        return list(found)

    def make(self, name: str) -> Replica:
        from assay_inference.engines.replicas.remote import RemoteReplica

        return RemoteReplica(name, self.settings)


async def _resolved(url: str) -> list[str]:
    name, _, port = url.removeprefix(f"{_DNS}http://").rpartition(":")
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(name, int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        raise Unreachable(f"{name} is not found: {error}") from error
    hosts = sorted({str(address[0]) for *_, address in found})
    return [f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}" for host in hosts]


@dataclass(frozen=True)
class LocalChildren:
    """Several engines of this service, each with its own processes."""

    settings: InferenceSettings
    engine_of: Callable[[InferenceSettings], Engine]
    is_local: bool = True

    async def names(self) -> list[str]:
        return [f"process-{index}" for index in range(self.settings.inference_processes)]

    def make(self, name: str) -> Replica:
        index = int(name.removeprefix("process-"))
        devices = self.settings.device_of(index)
        changes = {"inference_processes": 1, "inference_devices": devices}
        return LocalReplica(self.engine_of(self.settings.model_copy(update=changes)))
