"""Checks of the five services: presence, version, readiness, token, clock and settings."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from pydantic import JsonValue

from assay_shared import __version__
from assay_shared.clients import (
    InferenceClient,
    JudgeClient,
    RewardClient,
    SandboxClient,
    ServiceClient,
    Timeouts,
    TrainerClient,
)
from assay_shared.clients.http import NO_RETRY
from assay_shared.doctor.findings import CheckResult, CheckStatus, ServiceLimits
from assay_shared.errors import AssayError, TimedOut, Unauthorized, Unreachable
from assay_shared.settings.environment import ServiceSettings

CLIENTS: tuple[type[ServiceClient], ...] = (
    InferenceClient,
    SandboxClient,
    JudgeClient,
    RewardClient,
    TrainerClient,
)
#: A cheap route of each service that requires a token.
_ASKS_FOR_TOKEN = {
    "inference": "/v1/weights",
    "sandbox": "/v1/languages",
    "judge": "/v1/spending",
    "reward": "/v1/rubrics",
    "trainer": "/v1/runs",
}


@dataclass
class Visit:
    """Answers of one service, or the errors of its requests."""

    name: str
    url: str
    health: Mapping[str, JsonValue] = field(default_factory=dict)
    #: Its clock minus ours.
    skew_s: float | None = None
    health_error: AssayError | None = None
    ready_error: AssayError | None = None
    token_error: AssayError | None = None

    @property
    def is_away(self) -> bool:
        return isinstance(self.health_error, Unreachable | TimedOut)

    @property
    def variable(self) -> str:
        return f"ASSAY_{self.name.upper()}_URL"


async def visit_services(settings: ServiceSettings, limits: ServiceLimits) -> list[Visit]:
    """Visit all services at the same time; return a visit for each."""
    return list(await asyncio.gather(*(_visit(kind, settings, limits) for kind in CLIENTS)))


def client_of(
    kind: type[ServiceClient], settings: ServiceSettings, limits: ServiceLimits
) -> ServiceClient:
    """Return a client of a service with short timeouts and no retries."""
    timeouts = Timeouts(limits.timeout_s, limits.timeout_s, limits.timeout_s)
    return kind.from_settings(settings, timeouts=timeouts, retry=NO_RETRY)


async def _visit(
    kind: type[ServiceClient], settings: ServiceSettings, limits: ServiceLimits
) -> Visit:
    visit = Visit(kind.service, str(getattr(settings, f"{kind.service}_url")))
    try:
        async with client_of(kind, settings, limits) as client:
            await _look(client, visit)
    except AssayError as error:  # not an http address
        visit.health_error = error
    return visit


async def _look(client: ServiceClient, visit: Visit) -> None:
    asked_at = time.time()
    try:
        visit.health, their_time = await client.health_and_time()
    except AssayError as error:
        visit.health_error = error
        return
    if their_time is not None:
        # The date is cut to a whole second: on average, the service's clock is 0.5 s ahead of it.
        visit.skew_s = their_time + 0.5 - (asked_at + time.time()) / 2
    try:
        await client.ready()
    except AssayError as error:
        visit.ready_error = error
    try:
        await client.get(_ASKS_FOR_TOKEN[visit.name])
    except AssayError as error:
        visit.token_error = error


def examine_services(visits: Sequence[Visit], limits: ServiceLimits) -> list[CheckResult]:
    """Return the findings of all visits."""
    here = {one.name: one for one in visits if one.health_error is None}
    findings = [_presence(one) for one in visits]
    findings += [
        found for one in here.values() if (found := _token(one) or _readiness(one)) is not None
    ]
    if here:
        findings += [_versions(here), _clocks(here, limits)]
    if "sandbox" in here:
        findings.append(_isolation(here["sandbox"]))
    if "judge" in here:
        findings.append(_judges(here["judge"]))
    findings += _gpus(here)
    if "trainer" in here:
        findings.append(_disk(here["trainer"], limits))
    return findings


def _presence(visit: Visit) -> CheckResult:
    error = visit.health_error
    said = visit.health.get("service", visit.name)
    if error is None and said == visit.name:
        return CheckResult(CheckStatus.OK, visit.name, f"answers at {visit.url}")
    if error is None:
        found = f"{visit.url} is the {said} service"
        advice = f"set {visit.variable} to where {visit.name} is"
    elif visit.is_away:
        found = f"no answer at {visit.url}"
        advice = f"start it (assay up), or set {visit.variable} to where it is"
    else:
        found = f"{visit.url}: {error.message}"
        advice = f"set {visit.variable}: is that address the {visit.name} service's?"
    return CheckResult(CheckStatus.FAIL, visit.name, found, advice)


def _token(visit: Visit) -> CheckResult | None:
    error = visit.token_error
    if isinstance(error, Unauthorized):
        return CheckResult(
            CheckStatus.FAIL,
            f"{visit.name} token",
            "it rejects the token of this environment",
            f"set ASSAY_TOKEN, or ASSAY_{visit.name.upper()}_TOKEN, to the service's own token",
        )
    if error is not None and error.http_status == 403:
        return CheckResult(
            CheckStatus.WARN,
            f"{visit.name} token",
            "the token of this environment may not ask for everything",
            "run this with the mesh's own token, or give the client that scope",
        )
    return None


def _readiness(visit: Visit) -> CheckResult | None:
    error = visit.ready_error
    if error is None:
        return None
    if visit.name == "inference":
        return CheckResult(
            CheckStatus.WARN,
            "inference ready",
            error.message,
            "a run's first weights make it ready, or set ASSAY_INFERENCE_MODEL",
        )
    return CheckResult(
        CheckStatus.FAIL, f"{visit.name} ready", error.message, "read the end of its log"
    )


def _versions(here: Mapping[str, Visit]) -> CheckResult:
    found = {name: str(visit.health.get("version")) for name, visit in here.items()}
    others = {name: version for name, version in found.items() if version != __version__}
    if not others:
        return CheckResult(CheckStatus.OK, "versions", f"all are {__version__}, as this command is")
    listed = ", ".join(f"{name} {version}" for name, version in others.items())
    return CheckResult(
        CheckStatus.FAIL,
        "versions",
        f"this command is {__version__}, but {listed}",
        "install one version everywhere, and restart older services",
    )


def _clocks(here: Mapping[str, Visit], limits: ServiceLimits) -> CheckResult:
    skews = {name: visit.skew_s for name, visit in here.items() if visit.skew_s is not None}
    if not skews:
        return CheckResult(CheckStatus.UNKNOWN, "clocks", "no service says what time it is")
    off = {name: skew for name, skew in skews.items() if abs(skew) > limits.max_skew_s}
    if not off:
        most = max(map(abs, skews.values()))
        return CheckResult(
            CheckStatus.OK, "clocks", f"within {max(1.0, most):.0f} s of this machine's"
        )
    listed = ", ".join(f"{name} is {skew:+.0f} s off" for name, skew in off.items())
    return CheckResult(
        CheckStatus.FAIL, "clocks", listed, "run a time service (chrony, systemd-timesyncd) there"
    )


def _isolation(sandbox: Visit) -> CheckResult:
    level = str(sandbox.health.get("isolation"))
    if level != "fallback":
        return CheckResult(CheckStatus.OK, "isolation", f"{level}, self-tested at its start")
    on_loopback = _is_loopback(sandbox.url)
    return CheckResult(
        CheckStatus.WARN if on_loopback else CheckStatus.FAIL,
        "isolation",
        "fallback: programs are held by limits alone, without namespaces",
        "grant user namespaces, then set ASSAY_SANDBOX_MINIMUM_ISOLATION=pooled: "
        "docs/sandbox_isolation.md, In a container",
    )


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _judges(judge: Visit) -> CheckResult:
    chain, alone = (judge.health.get(name) for name in ("chain", "open_circuits"))
    names = ", ".join(map(str, chain)) if isinstance(chain, list) else "unknown"
    if isinstance(alone, list) and alone:
        return CheckResult(
            CheckStatus.WARN,
            "judges",
            f"not asked after failures: {', '.join(map(str, alone))}",
            "check assay_judge_requests_total by outcome, and the provider's key and quota",
        )
    return CheckResult(CheckStatus.OK, "judges", f"chain: {names}")


def _gpus(here: Mapping[str, Visit]) -> Iterator[CheckResult]:
    for name in ("inference", "trainer"):
        if name in here:
            yield _gpu(name, here[name].health)


def _gpu(name: str, health: Mapping[str, JsonValue]) -> CheckResult:
    number, device = health.get("gpus"), health.get("device")
    if not isinstance(number, int):
        return CheckResult(CheckStatus.UNKNOWN, f"{name} GPU", "it does not say")
    if number == 0:
        return CheckResult(
            CheckStatus.OK, f"{name} GPU", "none: enough for tiny models and for trials"
        )
    if device == "cpu":
        return CheckResult(
            CheckStatus.FAIL,
            f"{name} GPU",
            f"{number} there, but the policy is sampled on the CPU",
            "unset ASSAY_INFERENCE_DEVICE and install torch for CUDA, or use "
            "ASSAY_INFERENCE_ENGINE=vllm",
        )
    return CheckResult(CheckStatus.OK, f"{name} GPU", f"{number} there")


def _disk(trainer: Visit, limits: ServiceLimits) -> CheckResult:
    free = trainer.health.get("runs_free_bytes")
    if not isinstance(free, int):
        return CheckResult(CheckStatus.UNKNOWN, "disk", "the trainer does not say how much is free")
    shown = f"{free / 2**30:.1f} GiB free for {trainer.health.get('runs')}"
    if free >= limits.min_free_bytes:
        return CheckResult(CheckStatus.OK, "disk", shown)
    return CheckResult(
        CheckStatus.FAIL,
        "disk",
        f"{shown}, less than {limits.min_free_bytes / 2**30:.1f}",
        "remove old runs or their checkpoints, or set ASSAY_RUNS to a larger disk",
    )
