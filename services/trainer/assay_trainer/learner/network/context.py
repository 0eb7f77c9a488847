"""The context of a policy, before and after its weights are loaded."""

from transformers import AutoConfig, PretrainedConfig

from assay_trainer.config import PolicyConfig


def known_context(policy: PolicyConfig) -> int | None:
    """Return the tokens of a policy's context.

    None if its configuration has none, is not on this machine yet, or cannot be read: loading the
    policy tells why.
    """
    if policy.new is not None:
        return policy.new.context_length
    if policy.folder is None or not (policy.folder / "config.json").is_file():
        return None
    try:
        config = AutoConfig.from_pretrained(
            policy.folder, local_files_only=True, trust_remote_code=False
        )
    except (OSError, ValueError):
        return None
    return context_of(config)


def context_of(config: PretrainedConfig) -> int | None:
    """Return the tokens of a loaded policy's context, or None if its configuration has none."""
    context: int | None = getattr(config.get_text_config(), "max_position_embeddings", None)
    return context
