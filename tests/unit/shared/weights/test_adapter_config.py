"""An adapter's configuration: the modules that it names are those with an A and a B."""

import pytest

from assay_shared.errors import WeightsRefused
from assay_shared.weights.adapter_config import check_modules, check_plain

LAYERS = [f"model.layers.{n}" for n in range(3)]
SHAPES: dict[str, tuple[int, ...]] = {
    "model.embed_tokens.weight": (10, 4),
    "lm_head.weight": (10, 4),
    **{f"{one}.norm.weight": (4,) for one in LAYERS},
    **{f"{one}.mlp.gate.weight": (2, 4) for one in LAYERS},
    **{f"{one}.attn.{part}.weight": (4, 4) for one in LAYERS for part in ("q_proj", "v_proj")},
}


def pairs(*parts: str, layers: tuple[int, ...] = (0, 1, 2)) -> set[str]:
    return {f"model.layers.{n}.attn.{part}.weight" for n in layers for part in parts}


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"target_modules": ["q_proj", "v_proj"]}, pairs("q_proj", "v_proj")),
        ({"target_modules": "all-linear"}, pairs("q_proj", "v_proj")),
        ({"target_modules": r".*layers\.(0|2)\..*q_proj"}, pairs("q_proj", layers=(0, 2))),
        (
            {"target_modules": "all-linear", "exclude_modules": ["v_proj"]},
            pairs("q_proj"),
        ),
        ({"target_modules": ["q_proj"], "layers_to_transform": 1}, pairs("q_proj", layers=(1,))),
        (
            {
                "target_modules": ["q_proj"],
                "layers_to_transform": [0, 1],
                "layers_pattern": "layers",
            },
            pairs("q_proj", layers=(0, 1)),
        ),
        ({"target_modules": ["model.layers.2.attn.q_proj"]}, pairs("q_proj", layers=(2,))),
        ({}, pairs("v_proj")),
    ],
)
def test_an_adapter_has_each_module_that_it_names(
    config: dict[str, object], found: set[str]
) -> None:
    check_modules(config, found, SHAPES)
    with pytest.raises(WeightsRefused, match=r"no lora_A and lora_B for model\.layers\.\d\.attn"):
        check_modules({"target_modules": ["q_proj", "v_proj"]} | config, set(), SHAPES)


def test_a_lost_module_is_named() -> None:
    found = pairs("q_proj", "v_proj") - pairs("q_proj", layers=(1,))
    expected = r"for model\.layers\.1\.attn\.q_proj: .*names 6 modules .* 1 are missing"
    for config in ({"target_modules": ["q_proj", "v_proj"]}, {}):
        with pytest.raises(WeightsRefused, match=expected):
            check_modules(config, found, SHAPES)


def test_a_module_that_peft_would_leave_out_is_refused() -> None:
    with pytest.raises(WeightsRefused, match=r"attn\.v_proj, which target_modules"):
        check_modules({"target_modules": ["q_proj"]}, pairs("q_proj", "v_proj"), SHAPES)


@pytest.mark.parametrize("pattern", ["(", r"(?:(?:.|.)*)*[!?]", 7])
def test_targets_that_cannot_be_matched_are_refused(
    pattern: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay_shared.weights.adapter_config._MATCHING_S", 0.05)
    with pytest.raises(WeightsRefused, match="adapter_config.json has"):
        check_modules({"target_modules": pattern}, pairs("q_proj"), SHAPES)


def test_entries_at_their_defaults_are_plain() -> None:
    check_plain({"peft_type": "LORA", "loftq_config": {}, "use_qalora": False, "kasa_config": None})
