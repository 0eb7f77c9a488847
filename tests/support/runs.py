"""Short runs for integration tests."""

#: Nothing to be proud of, but every stage happens: about 20 seconds on two cores.
QUICK = (
    "data.train.num_tasks=300",
    "data.held_out.num_tasks=12",
    "sft.steps=30",
    "sft.batch_size=16",
    "sft.demonstrations_per_task=1",
    "sft.checkpoint_every=10",
    "grpo.steps=4",
    "grpo.groups_per_step=4",
    "grpo.group_size=4",
    "grpo.max_groups_per_step=12",
    "grpo.max_tokens=24",
    "grpo.checkpoint_every=1",
    "grpo.signal_check=null",
    "evaluation.samples_per_task=2",
    "evaluation.k=[1]",
    "evaluation.max_tokens=24",
)

#: A short answer is learnt soon: after this SFT, GRPO finds groups to learn from.
LOOKUP = (
    *QUICK[1:],
    "data.train={kind: generated, num_tasks: 100, code: 0, arithmetic: 0}",
    "sft.steps=60",
    "grpo.max_groups_per_step=48",
)

#: A policy that does some lookups and not others, after SFT alone.
LOOKUP_SFT = (
    *(override for override in LOOKUP if not override.startswith("grpo")),
    "data.held_out.num_tasks=1",
    "grpo=null",
)

#: The demo's SFT, a little shorter, with half of its layers: some samples of a group are right,
#: others wrong.
SFT_ONLY = ("sft.steps=400", "policy.new.num_layers=2", "data.held_out.num_tasks=1", "grpo=null")
