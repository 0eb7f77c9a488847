"""Types of the doctor: the result of a check, its status, and the limits of healthy values."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class CheckStatus(StrEnum):
    """Status of a check.

    FAIL must be fixed. WARN may be intended. UNKNOWN could not be checked from this host.
    """

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


class ServiceLimits(BaseModel):
    """Limits of healthy values."""

    model_config = ConfigDict(frozen=True)

    #: Timeout of one answer.
    timeout_s: float = Field(default=5.0, gt=0)
    #: Difference between two clocks. HTTP dates have a resolution of one second.
    max_skew_s: float = Field(default=5.0, ge=1)
    #: Free space on the disk of the runs.
    min_free_bytes: float = Field(default=5 * 2**30, ge=0)


class CheckResult(BaseModel):
    """One line of the report: the check, its status, the finding, and advice."""

    model_config = ConfigDict(frozen=True)

    status: CheckStatus
    check: str
    found: str
    advice: str = ""

    def __init__(self, status: CheckStatus, check: str, found: str, advice: str = "") -> None:
        super().__init__(status=status, check=check, found=found, advice=advice)
