"""Settings of the reward service, read from environment variables."""

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from assay_reward.own.source import Allowed
from assay_shared.settings.environment import ServiceSettings


class RewardSettings(ServiceSettings):
    """`ASSAY_REWARD_*` and `ASSAY_EXECUTOR_*`, in addition to the settings of all services."""

    model_config = SettingsConfigDict(env_prefix="ASSAY_", env_file=None, extra="ignore")

    #: Folder with more rubrics, one YAML file each, or a single such file.
    reward_rubrics: Path | None = None
    #: Folder of the Python functions allowed in rubrics; by default the folder of the rubrics.
    reward_python_root: Path | None = None
    #: Maximum number of processes of each function.
    reward_python_processes: int = Field(default=1, ge=1, le=64)
    #: URLs allowed in rubrics, and all paths below them: https://a.example/score,https://b.example
    reward_urls: str = ""
    #: Groups scored at once; `reward_max_waiting` more wait, then 429.
    reward_max_running: int = Field(default=64, gt=0)
    reward_max_waiting: int = Field(default=1024, ge=0)
    #: Bytes of responses, as JSON, kept for repeated requests with the same key.
    reward_keep_bytes: int = Field(default=64 * 2**20, ge=0)
    #: Time limit of one attempt at the sandbox or judge, and of all attempts together.
    reward_attempt_timeout_s: float = Field(default=120.0, gt=0)
    reward_retry_budget_s: float = Field(default=30.0, gt=0)
    #: Environment steps taken at once; `reward_max_steps_waiting` more wait, then 429.
    reward_max_steps_running: int = Field(default=64, gt=0)
    reward_max_steps_waiting: int = Field(default=1024, ge=0)
    #: Processes for replaying episodes of model repair; time limits of a solve and of a replay.
    reward_solver_processes: int = Field(default=1, gt=0, le=256)
    reward_solve_timeout_s: float = Field(default=10.0, gt=0)
    reward_episode_timeout_s: float = Field(default=60.0, gt=0)
    #: Cores for comparing formulas and measuring long texts; by default all.
    reward_workers: int | None = Field(default=None, gt=0, le=256)
    #: Processor time for one answer in such a process.
    reward_answer_cpu_s: float = Field(default=2.0, gt=0)
    #: YAML file with the models that carry workflows out; without it, no workflow runs.
    executor_config: Path | None = None
    #: `process`: limits, costs and cache are this process's own; `redis`: all replicas share them.
    executor_shared: Literal["process", "redis"] = "process"
    #: Workflows carried out at once; further ones wait 20 s, then 429.
    reward_max_workflows: int = Field(default=256, ge=1, le=4096)

    @property
    def allowed(self) -> Allowed:
        """The functions and URLs allowed in rubrics, as well as the built-in verifiers."""
        urls = tuple(url.strip() for url in self.reward_urls.split(",") if url.strip())
        return Allowed(root=self.reward_python_root, urls=urls)
