"""The calibration required of a judge before it may serve."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from pydantic import JsonValue

from assay_judge.calibration_record import Agreement, Calibration, JudgeCalibration
from assay_judge.config import Requirement
from assay_shared.errors import ConfigError, NotReady
from assay_shared.text.masking import mask

#: The clock of the machine that calibrated may be ahead of this one's by as much.
_CLOCKS_DIFFER_DAYS = 1.0


class Qualification:
    """A judge's calibration, checked against its requirement."""

    def __init__(
        self, requirement: Requirement, judge: str, settings: Mapping[str, JsonValue]
    ) -> None:
        """Read the calibration; `settings` are those that decide the judge's verdicts now.

        Raises:
            ConfigError: the calibration is missing, is unreadable, lacks this judge, or measured
                it with other settings.
        """
        calibration = Calibration.read(requirement.file)
        self._requirement = requirement
        self._created = calibration.created
        self._measured = _find(requirement.file, calibration, judge)
        changes = "; ".join(_changes(self._measured.settings, settings))
        if changes:
            raise ConfigError(
                f"{requirement.file} is of another judge {judge!r} than this one: {changes}",
                hint="calibrate it again",
            )

    def check(self, template: str | None, domain: str | None) -> None:
        """Raise unless the judge may serve `domain` (null: any) with the prompt of this hash.

        The point estimate decides, not the interval's lower end: the minimum states the required
        quality, and the number of examples says how precisely the quality is known.

        Raises:
            ConfigError: the judge was not measured on this domain or prompt, or is not good enough.
            NotReady: the calibration is too old.
        """
        self._check_age()
        judge, measured = self._measured.judge, self._measured
        if measured.template is None:
            raise ConfigError(
                f"judge {judge!r} gave no verdict when it was calibrated",
                hint="calibrate it again",
            )
        if measured.template != template:
            raise ConfigError(
                f"judge {judge!r} was calibrated with prompt {measured.template} "
                f"and uses {template}",
                hint="calibrate it again",
            )
        where = "" if domain is None else f" domain {domain!r}"
        agreement = measured.overall if domain is None else measured.domains.get(domain)
        if agreement is None:
            known = ", ".join(map(repr, measured.domains)) or "none"
            raise ConfigError(
                f"judge {judge!r} was not calibrated in{where}",
                hint=f"{self._requirement.file} has: {known}",
            )
        minimum = self._requirement.minimum_kappa
        if domain is not None:
            minimum = self._requirement.domains.get(domain, minimum)
        if agreement.kappa is None or agreement.kappa.value < minimum:
            raise ConfigError(
                f"judge {judge!r} may serve{where} only while kappa is at least {minimum:g}: "
                f"{_shown(agreement)}"
            )

    def _check_age(self) -> None:
        required = self._requirement
        if required.max_age_days is None:
            return
        age_days = (datetime.now(UTC) - self._created).total_seconds() / 86400
        if age_days < -_CLOCKS_DIFFER_DAYS:
            raise NotReady(
                f"the calibration {required.file} is of {self._created:%Y-%m-%d %H:%M} UTC, which "
                "is in the future",
                hint="correct this machine's clock, or calibrate again and restart the judge",
            )
        if age_days > required.max_age_days:
            raise NotReady(
                f"the calibration {required.file} is {age_days:.1f} days old; "
                f"{required.max_age_days:g} are allowed",
                hint="calibrate again, then restart the judge",
            )


def _find(file: Path, calibration: Calibration, judge: str) -> JudgeCalibration:
    for one in calibration.judges:
        if one.judge == judge:
            return one
    names = ", ".join(repr(one.judge) for one in calibration.judges)
    raise ConfigError(f"judge {judge!r} was not calibrated", hint=f"{file} has: {names}")


def _shown(agreement: Agreement) -> str:
    kappa = agreement.kappa
    if kappa is None:
        return f"it could not be measured on {agreement.num_examples} examples"
    return (
        f"it is {kappa.value:.2f} [{kappa.low:.2f}, {kappa.high:.2f}] on {kappa.n} examples "
        "(the point estimate decides)"
    )


def _changes(measured: Mapping[str, JsonValue], now: Mapping[str, JsonValue]) -> list[str]:
    """Return a text for each setting with another value than when it was measured."""
    return [
        f"{name} {_change(measured.get(name), now.get(name))}"
        for name in {**now, **measured}
        if measured.get(name) != now.get(name)
    ]


def _change(was: JsonValue, now: JsonValue) -> str:
    if isinstance(was, dict | list) or isinstance(now, dict | list):
        return "differs"
    return f"was {mask(json.dumps(was))} and is {mask(json.dumps(now))}"
