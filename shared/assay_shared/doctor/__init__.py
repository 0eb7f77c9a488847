"""Checks of an installation, with advice on each fault."""

import asyncio
from collections.abc import Sequence

from assay_shared.doctor.findings import CheckResult, CheckStatus, ServiceLimits
from assay_shared.doctor.queue import examine_queue
from assay_shared.doctor.scoring import examine_scoring
from assay_shared.doctor.services import Visit, examine_services, visit_services
from assay_shared.settings.environment import ServiceSettings

__all__ = ["CheckResult", "CheckStatus", "ServiceLimits", "examine"]


async def examine(settings: ServiceSettings, limits: ServiceLimits) -> list[CheckResult]:
    """Return all findings: services first, then scoring and the queue. Takes a few seconds."""
    visits, scoring, queue = await asyncio.gather(
        visit_services(settings, limits),
        examine_scoring(settings, limits),
        asyncio.to_thread(examine_queue, settings, limits),
    )
    findings = [*examine_services(visits, limits), *scoring, *queue]
    return _without_hidden_sandbox(findings, visits)


def _without_hidden_sandbox(
    findings: Sequence[CheckResult], visits: Sequence[Visit]
) -> list[CheckResult]:
    """Turn an unreachable sandbox into an OK, if scoring shows reward can reach it."""
    scores = any(one.check == "scoring" and one.status is CheckStatus.OK for one in findings)
    hidden = scores and any(one.name == "sandbox" and one.is_away for one in visits)
    if not hidden:
        return list(findings)
    seen = CheckResult(CheckStatus.OK, "sandbox", "not reachable from here, and reward reaches it")
    return [seen if one.check == "sandbox" else one for one in findings]
