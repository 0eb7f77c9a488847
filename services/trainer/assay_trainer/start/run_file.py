"""The text of a run file, with a few comments."""

from typing import Any

import yaml

from assay_trainer.start.layout import GpuLayout
from assay_trainer.start.sized_model import SizedModel
from assay_trainer.start.task_data import TaskData

_WIDTH = 10_000
#: GRPO on a GPU and on processors: steps, groups of a step.
_ON_GPU, _ON_CPU = (200, 32), (60, 8)
_GROUP_SIZE = 8
_FULL_RATE, _ADAPTER_RATE = "1.0e-6", "1.0e-5"


def run_text(
    name: str, policy: dict[str, str], model: SizedModel, data: TaskData, layout: GpuLayout
) -> str:
    """Return the run file.

    Args:
        policy: `folder` or `hub` with its value, as the trainer sees it.
    """
    trainer = layout.trainer
    steps, groups = _ON_GPU if layout.trainer_gpus else _ON_CPU
    rate, what = (
        (_FULL_RATE, "all weights") if trainer.lora is None else (_ADAPTER_RATE, "an adapter")
    )
    tokens = answer_tokens(model, data)
    title = " ".join(f"{model.name} on {data.told}".split())
    return f"""\
# GRPO by `assay init`: {title}.
name: {name}

policy:
{_yaml(policy)}{_lora(layout)}
data:
{_yaml({"train": data.train, "held_out": data.held_out})}
grpo:
  steps: {steps}
  groups_per_step: {groups}
  group_size: {_GROUP_SIZE}
  learning_rate: {rate}  # usual for {what}
  max_tokens: {tokens}  # of an answer: longer ones are cut off
  tokens_per_pack: {trainer.tokens_per_pack}  # memory grows with it: this fits {_where(layout)}
  max_staleness: 1  # 0: strictly on policy, and slower

evaluation:
  samples_per_task: 4
  k: [1, 4]
  max_tokens: {tokens}
"""


def answer_tokens(model: SizedModel, data: TaskData) -> int:
    """Return the tokens of an answer: the kind's, or half of a small context."""
    return min(data.max_tokens, model.context // 2)


def _where(layout: GpuLayout) -> str:
    if not layout.trainer_gpus:
        return "this machine's memory"
    number = len(layout.trainer_gpus)
    beside = " next to the engine" if layout.trainer_gpus == layout.engine_gpus else ""
    return ("the GPU" if number == 1 else f"{number} GPUs") + beside


def _lora(layout: GpuLayout) -> str:
    lora = layout.trainer.lora
    if lora is None:
        return ""
    nf4 = ", nf4: true" if lora.nf4 else ""
    return f"  lora: {{rank: {lora.rank}, alpha: {lora.alpha}{nf4}}}  # without it, all weights\n"


class _ReadableDumper(yaml.SafeDumper):
    """Writes a text of several lines in double quotes, on one line."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_ReadableDumper.add_representer(str, _text)


def _yaml(values: dict[str, Any]) -> str:
    """Return a section's lines, two spaces in; no value refers to another one."""
    text = yaml.dump(
        values, Dumper=_ReadableDumper, sort_keys=False, width=_WIDTH, allow_unicode=True
    )
    return "".join(f"  {line}\n" for line in text.splitlines())
