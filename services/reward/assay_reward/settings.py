"""What the reward service reads from the environment."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from assay_reward.own.source import Allowed
from assay_shared.settings.environment import ServiceSettings


class RewardSettings(ServiceSettings):
    """`ASSAY_REWARD_*`, beside what all services read."""

    model_config = SettingsConfigDict(env_prefix="ASSAY_", env_file=None, extra="ignore")

    #: Folder with more rubrics, one YAML file each; or one such file.
    reward_rubrics: Path | None = None
    #: Folder below which rubrics may name Python functions; that of the rubrics if not set.
    reward_python_root: Path | None = None
    #: Processes that each of these functions has at most.
    reward_python_processes: int = Field(default=1, ge=1, le=64)
    #: URLs that rubrics may name, and all below them: https://a.example/score,https://b.example
    reward_urls: str = ""
    #: Groups scored at once; `reward_max_waiting` more wait, then 429.
    reward_max_running: int = Field(default=64, gt=0)
    reward_max_waiting: int = Field(default=1024, ge=0)
    #: JSON of responses kept for those who ask again with the same key.
    reward_keep_bytes: int = Field(default=64 * 2**20, ge=0)
    #: How long one attempt at sandbox or judge may take, and all attempts together.
    reward_attempt_timeout_s: float = Field(default=120.0, gt=0)
    reward_retry_budget_s: float = Field(default=30.0, gt=0)
    #: Environment steps taken at once; `reward_max_steps_waiting` more wait, then 429.
    reward_max_steps_running: int = Field(default=64, gt=0)
    reward_max_steps_waiting: int = Field(default=1024, ge=0)
    #: Processes that replay episodes of model repair, each solve's limit, and a replay's.
    reward_solver_processes: int = Field(default=1, gt=0, le=256)
    reward_solve_timeout_s: float = Field(default=10.0, gt=0)
    reward_episode_timeout_s: float = Field(default=60.0, gt=0)
    #: Cores that formulas and long texts may take; by default all.
    reward_workers: int | None = Field(default=None, gt=0, le=256)
    #: Processor time for one answer in such a process.
    reward_answer_cpu_s: float = Field(default=2.0, gt=0)

    @property
    def allowed(self) -> Allowed:
        """What rubrics may name beside the built-in verifiers."""
        urls = tuple(url.strip() for url in self.reward_urls.split(",") if url.strip())
        return Allowed(root=self.reward_python_root, urls=urls)
