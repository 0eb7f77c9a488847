"""The weights published by a run: only their samples may be trained on."""

from collections.abc import Iterator
from pathlib import Path

from assay_shared.runs.run_folder import append_line
from assay_shared.types import PolicyVersion, ScoredGroup


class VersionLog:
    """Every announced (version, digest), kept in a file for a resumed run."""

    def __init__(self, file: Path) -> None:
        self._file = file
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        self._versions = {
            PolicyVersion.model_validate_json(line) for line in lines if line.endswith("\n")
        }

    def add(self, policy: PolicyVersion) -> None:
        """Record a version before its announcement: weights may serve and the answer be lost."""
        append_line(self._file, policy.model_dump_json())
        self._versions.add(policy)

    def __iter__(self) -> Iterator[PolicyVersion]:
        return iter(self._versions)

    @property
    def newest(self) -> int:
        """The highest version; 0 if there is none."""
        return max((policy.version for policy in self._versions), default=0)


def sampled_by(scored: ScoredGroup) -> set[PolicyVersion]:
    """Return all versions involved in sampling a group."""
    return {policy for rollout in scored.group.rollouts for policy in rollout.policies}
