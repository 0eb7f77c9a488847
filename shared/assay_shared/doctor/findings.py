"""What a check comes to."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class CheckStatus(StrEnum):
    """FAIL is to be mended; WARN may be meant so; UNKNOWN could not be looked at from here."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


class ServiceLimits(BaseModel):
    """What is still well."""

    model_config = ConfigDict(frozen=True)

    #: For one answer.
    timeout_s: float = Field(default=5.0, gt=0)
    #: Between two clocks. HTTP tells the time to the second.
    max_skew_s: float = Field(default=5.0, ge=1)
    #: On the disk of the runs.
    min_free_bytes: float = Field(default=5 * 2**30, ge=0)


class CheckResult(BaseModel):
    """One line: what was looked at, what was found, what to do about it."""

    model_config = ConfigDict(frozen=True)

    status: CheckStatus
    check: str
    found: str
    advice: str = ""

    def __init__(self, status: CheckStatus, check: str, found: str, advice: str = "") -> None:
        super().__init__(status=status, check=check, found=found, advice=advice)
