"""What a LoRA adapter's configuration says: plain LoRA or more, and the modules with a part."""

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from assay_shared.errors import WeightsRefused
from assay_shared.weights.checkpoint import ADAPTER_CONFIG

#: Entries that change what A and B mean, and their values in plain LoRA.
_PLAIN: Mapping[str, tuple[object, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none", None),
    # The other ways to begin change the base too: A and B then belong to a base that is not kept.
    "init_lora_weights": (True, False, None, "gaussian", "orthogonal"),
}
#: Entries without an effect on W + s B A, or read for it.
_KNOWN = frozenset(
    (
        *("r", "lora_alpha", "use_rslora", "lora_dropout", "task_type", "inference_mode"),
        *("target_modules", "exclude_modules", "layers_to_transform", "layers_pattern"),
        *("fan_in_fan_out", "base_model_name_or_path", "revision", "peft_version", "auto_mapping"),
        *("megatron_core", "qalora_group_size", "runtime_config", "ensure_weight_tying"),
    )
)
_HINT = "load it with peft, merge it there, and save the result as a folder"
_ALL_LINEAR = "all-linear"
#: Matrices in a layer that are not linear modules: the choice of experts.
_NOT_LINEAR = ("gate", "router")
_MAX_PATTERN = 2000
_MATCHING_S = 5.0


def check_plain(config: Mapping[str, Any]) -> None:
    """Check that an adapter is plain LoRA; an entry that is not known must be empty.

    Raises:
        WeightsRefused: an entry asks for more; the message names it.
    """
    for key, value in config.items():
        if key in _KNOWN:
            continue
        is_plain = value in _PLAIN[key] if key in _PLAIN else not value
        if not is_plain:
            raise WeightsRefused(
                f"{ADAPTER_CONFIG} has {key} {value!r:.200}: only plain LoRA is merged", hint=_HINT
            )


def check_modules(
    config: Mapping[str, Any], found: Iterable[str], shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Check that an adapter has A and B for exactly the modules that its configuration names.

    Args:
        found: names of the base's weights with an A and a B.
        shapes: the base's weights.

    Raises:
        WeightsRefused: a module has no A and B, or one has them and is not named.
    """
    given = set(found)
    targets = config.get("target_modules") or sorted({_module(one).split(".")[-1] for one in given})
    matrices = [name for name, shape in shapes.items() if _is_matrix(name, shape)]
    targeted = _chosen(targets, [_module(one) for one in matrices])
    excluded = _chosen(config.get("exclude_modules") or [], targeted)
    expected = {f"{one}.weight" for one in targeted - excluded if _is_in_layers(config, one)}
    if missing := sorted(expected - given):
        raise WeightsRefused(
            f"the adapter has no lora_A and lora_B for {_module(missing[0])}: {ADAPTER_CONFIG} "
            f"names {len(expected)} modules of the base, and {len(missing)} are missing",
            hint="copy the adapter again from its training",
        )
    if unnamed := sorted(given - expected):
        raise WeightsRefused(
            f"the adapter has lora_A and lora_B for {_module(unnamed[0])}, which target_modules "
            f"in {ADAPTER_CONFIG} does not name: peft would leave it out"
        )


def _module(weight: str) -> str:
    return weight.removesuffix(".weight")


def _is_matrix(name: str, shape: tuple[int, ...]) -> bool:
    return name.endswith(".weight") and len(shape) == 2


def _chosen(targets: object, modules: Iterable[str]) -> set[str]:
    """Return the modules that an entry of peft names: endings, an expression, or all linear."""
    if isinstance(targets, str):
        if targets.lower() == _ALL_LINEAR:
            return {one for one in modules if _is_linear(one)}
        return _matching(targets, modules)
    if not isinstance(targets, list) or not all(isinstance(one, str) for one in targets):
        raise WeightsRefused(
            f"{ADAPTER_CONFIG} has target_modules {targets!r:.200}: it is a list of names, or text"
        )
    endings = tuple(f".{one}" for one in targets)
    return {one for one in modules if one in targets or one.endswith(endings)}


def _is_linear(module: str) -> bool:
    # Embeddings and the head lie outside of the numbered layers.
    return re.search(r"\.\d+\.", module) is not None and module.split(".")[-1] not in _NOT_LINEAR


def _matching(pattern: str, modules: Iterable[str]) -> set[str]:
    """Return the modules that an adapter's regular expression matches, within a limit of time."""
    import regex

    deadline = time.monotonic() + _MATCHING_S
    try:
        if len(pattern) > _MAX_PATTERN:
            raise WeightsRefused(f"{ADAPTER_CONFIG} has an expression over {_MAX_PATTERN} long")
        whole = regex.compile(pattern)
        return {
            one
            for one in modules
            if whole.fullmatch(one, timeout=max(0.001, deadline - time.monotonic()))
        }
    except (regex.error, TimeoutError) as error:
        raise WeightsRefused(
            f"{ADAPTER_CONFIG} has the expression {pattern!r:.200}, which cannot be matched: "
            f"{error or 'it takes too long'}"
        ) from None


def _is_in_layers(config: Mapping[str, Any], module: str) -> bool:
    """Return True unless the adapter is for other layers; an expression names its own layers."""
    wanted, targets = config.get("layers_to_transform"), config.get("target_modules")
    if wanted in (None, []) or isinstance(targets, str) or module in (targets or ()):
        return True
    named = config.get("layers_pattern") or []
    holders = [named] if isinstance(named, str) else named
    before = "|".join(re.escape(str(one)) for one in holders) or r"[^.]+"
    # Without a pattern, peft looks for a number below a folder of the network.
    start = r"(?:^|.*?\.)" if holders else r".*?\."
    match = re.match(rf"{start}(?:{before})\.(\d+)\.", module)
    return match is not None and int(match[1]) in (wanted if isinstance(wanted, list) else [wanted])
