"""A LoRA adapter in the updater equals the same network with its weights merged by hand."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.filesystem import FileSystemReader
from transformers import PreTrainedModel

from assay_shared.errors import ConfigError
from assay_trainer.config import DPOConfig, LoRAConfig, SFTConfig
from assay_trainer.data.dataset import Demonstration
from assay_trainer.events import DPOMeasured
from assay_trainer.learner.given_rows.callbacks import StageAttempt
from assay_trainer.learner.given_rows.dpo import train_dpo
from assay_trainer.learner.given_rows.sft import train_sft
from assay_trainer.learner.network.adapters import add_adapter, check_lora
from assay_trainer.learner.network.model import load_policy
from assay_trainer.learner.packs import Pack, pack_rows, rows
from assay_trainer.learner.ranks import Ranks
from assay_trainer.learner.updater import Updater, make_updater
from assay_trainer.stop import Stop
from assay_trainer.weights.adapter import adapted_layers, adapter_off, bare
from assay_trainer.weights.folder import publish_policy
from tests.support.fakes import POLICY, make_task
from tests.support.policies import TEXTS, make_policy_folder
from tests.support.ranks import FOLLOW, processes
from tests.unit.trainer.learner.test_updater import Gradient, distance, make_config, make_groups

CPU = torch.device("cpu")
LORA = LoRAConfig(rank=4, alpha=8)
#: Settings of the adapter on two ranks: with a reference, and two updates of a step.
ON_RANKS: dict[str, Any] = {"kl_weight": 0.1, "correction": "tis", "updates_per_step": 2}
IDS_1T = torch.arange(10, 40)[None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_policy_folder(tmp_path / "base")
    return tmp_path / "base"


def adapted(folder: Path, lora: LoRAConfig = LORA) -> PreTrainedModel:
    return bare(add_adapter(load_policy(folder)[0], lora, 0, CPU))


def packs_of(updater: Updater, tokens_per_pack: int = 20) -> list[Pack]:
    return pack_rows(rows(make_groups()), updater.objective, tokens_per_pack, POLICY)


def trained(folder: Path, steps: int = 3, **changes: Any) -> tuple[PreTrainedModel, Updater]:
    updater = Updater(adapted(folder), make_config(learning_rate=0.01, **changes))
    take_steps(updater, steps)
    return updater._model, updater


def take_steps(updater: Updater, steps: int) -> list[float]:
    """Return the share of the adapter that each step's last update moved."""
    shares = []
    for step in range(1, steps + 1):
        packs = packs_of(updater)
        facts = updater.apply(step, updater.backward(packs))
        for _ in range(1, updater._config.updates_per_step):
            facts = updater.apply(step, updater.backward(packs, again=True))
        shares.append(facts.moved_share)
    return shares


def logprobs(model: PreTrainedModel) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model.eval()(IDS_1T).logits.log_softmax(-1)
    return found


def test_a_new_adapter_changes_nothing(folder: Path) -> None:
    assert torch.equal(logprobs(adapted(folder)), logprobs(load_policy(folder)[0]))


def test_the_adapter_alone_moves_and_the_base_is_under_it(folder: Path) -> None:
    model, _ = trained(folder)
    before = load_policy(folder)[0]
    assert float((logprobs(model) - logprobs(before)).abs().max()) > 0.1
    with adapter_off(model):
        assert torch.equal(logprobs(model), logprobs(before))
    new = adapted(folder).state_dict()
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, new[name]) == ("lora_" not in name), name


def test_what_is_published_is_the_merged_network(folder: Path, tmp_path: Path) -> None:
    """Merged here by hand, and by the published folder."""
    model, _ = trained(folder)
    by_hand = load_policy(folder)[0]
    for name, layer in adapted_layers(model).items():
        a_RI, b_OR = (one["default"].weight.detach() for one in (layer.lora_A, layer.lora_B))
        by_hand.get_submodule(name).weight.data += 8 / 4 * (b_OR @ a_RI)
    publish_policy(model, load_policy(folder)[1], tmp_path / "merged")
    whole, _ = load_policy(tmp_path / "merged")
    expected = logprobs(by_hand)
    assert torch.allclose(logprobs(model), expected, atol=1e-5)
    assert torch.allclose(logprobs(whole), expected, atol=1e-6)


def test_peft_reads_the_adapter_of_a_published_folder(folder: Path, tmp_path: Path) -> None:
    from peft import PeftModel

    model, _ = trained(folder)
    publish_policy(model, load_policy(folder)[1], tmp_path / "merged")
    read = PeftModel.from_pretrained(load_policy(folder)[0], str(tmp_path / "merged" / "adapter"))
    assert torch.allclose(logprobs(bare(read)), logprobs(model), atol=1e-6)


def test_the_reference_is_the_base(folder: Path) -> None:
    """The KL is that of the moved adapter from the base, with no copy of the base."""
    _, updater = trained(folder, kl_weight=0.1)
    assert updater._reference is updater._model
    facts = updater.backward(packs_of(updater))
    assert facts.kl > 1e-3
    assert Updater(adapted(folder), make_config(kl_weight=0.1)).backward(
        packs_of(updater)
    ).kl == pytest.approx(0.0, abs=1e-6)
    assert all(parameter.requires_grad for parameter in updater._parameters)


def test_an_adapter_takes_several_updates_of_a_step(folder: Path) -> None:
    """The ratio moves from the step's first forward pass, and the reference stays the base."""
    changes = {"kl_weight": 0.1, "correction": "tis", "updates_per_step": 3}
    updater = Updater(adapted(folder), make_config(learning_rate=0.02, **changes))
    packs = packs_of(updater)
    found = []
    for number in range(3):
        found.append(updater.backward(packs, again=number > 0))
        updater.apply(1, found[-1])
    assert found[0].clipped_low == found[0].clipped_high == 0.0
    assert found[2].clipped_low + found[2].clipped_high > 0.0
    assert found[0].kl == pytest.approx(0.0, abs=1e-6)
    assert found[2].kl > 1e-3
    assert {one.importance_weight_mean for one in found} == {found[0].importance_weight_mean}


def test_a_resumed_adapter_continues_to_the_bit(folder: Path, tmp_path: Path) -> None:
    expected, _ = trained(folder, steps=4)
    _, first = trained(folder, steps=2)
    first.save(tmp_path / "checkpoint").result()
    written = FileSystemReader(tmp_path / "checkpoint").read_metadata().state_dict_metadata
    assert all("lora_" in name for name in written if name.startswith("weights."))
    model = bare(add_adapter(load_policy(folder)[0], LORA, 9, CPU))
    second = Updater(model, make_config(learning_rate=0.01))
    second.load(tmp_path / "checkpoint")
    for step in (3, 4):
        second.apply(step, second.backward(packs_of(second)))
    assert torch.equal(logprobs(model), logprobs(expected))


def test_activations_that_are_computed_twice_change_no_gradient(folder: Path) -> None:
    found: list[Gradient] = []
    for twice in (False, True):
        model, updater = trained(folder, steps=1)
        if twice:
            model.gradient_checkpointing_enable()
        updater.backward(packs_of(updater))
        named = model.named_parameters()
        found.append({name: p.grad.clone() for name, p in named if p.grad is not None})
    assert found[0]
    assert distance(*found) < 1e-6


def test_named_layers_alone_are_adapted_and_unknown_ones_are_refused(folder: Path) -> None:
    named = adapted_layers(adapted(folder, LoRAConfig(targets=("q_proj", "v_proj"))))
    assert {name.rpartition(".")[2] for name in named} == {"q_proj", "v_proj"}
    with pytest.raises(
        ConfigError, match="no linear layer c_attn: it has down_proj, .*v_proj"
    ) as caught:
        adapted(folder, LoRAConfig(targets=("q_proj", "c_attn")))
    assert caught.value.field == "policy.lora.targets"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA")
def test_nf4_without_cuda_is_refused() -> None:
    check_lora(LORA)
    with pytest.raises(ConfigError, match="nf4 needs CUDA"):
        check_lora(LoRAConfig(nf4=True))


def fine_tuned(folder: Path, checkpoints: Path, resume_from: Path | None = None) -> PreTrainedModel:
    model, tokenizer = load_policy(folder)
    wrapped: Any = add_adapter(model, LORA, 0, CPU)
    tasks = [make_task(f"t{i}", prompt=text[:30], gold=text[30:]) for i, text in enumerate(TEXTS)]
    train_sft(
        wrapped,
        tokenizer,
        [Demonstration(task, task.gold or "") for task in tasks],
        SFTConfig(steps=4, batch_size=8, learning_rate=0.01, warmup_steps=0, checkpoint_every=2),
        StageAttempt(0, checkpoints, Stop(), resume_from=resume_from),
        on_step=lambda step: None,
    )
    return model


def test_sft_trains_the_adapter_alone_and_resumes_it(folder: Path, tmp_path: Path) -> None:
    whole = fine_tuned(folder, tmp_path / "checkpoints")
    with adapter_off(whole):
        assert torch.equal(logprobs(whole), logprobs(load_policy(folder)[0]))
    assert float((logprobs(whole) - logprobs(load_policy(folder)[0])).abs().max()) > 0.1
    checkpoint = tmp_path / "checkpoints" / "checkpoint-2"
    assert not list(checkpoint.glob("model*.safetensors")), "no weights of the base"
    resumed = fine_tuned(folder, tmp_path / "again", checkpoint)
    assert torch.allclose(logprobs(resumed), logprobs(whole), atol=1e-6)


def test_dpo_trains_the_adapter_alone(folder: Path, tmp_path: Path) -> None:
    model, tokenizer = load_policy(folder)
    wrapped: Any = add_adapter(model, LORA, 0, CPU)
    chosen, rejected = (tokenizer.encode(text, add_special_tokens=False) for text in ("1", "2"))
    measured: list[DPOMeasured] = []
    train_dpo(
        wrapped,
        tokenizer,
        [([10 + row], chosen, rejected) for row in range(8)],
        DPOConfig(
            data={"kind": "jsonl", "path": "unused"},
            steps=8,
            batch_size=8,
            learning_rate=0.01,
            warmup_steps=0,
        ),
        StageAttempt(0, tmp_path / "checkpoints", Stop()),
        on_step=lambda step: None,
        on_measured=measured.append,
        held_out=[([10], chosen, rejected)],
    )
    assert measured[0].margin == 0
    assert measured[1].margin > 0.01
    assert list(wrapped.peft_config) == ["default"], "no second adapter is kept"
    with adapter_off(model):
        assert torch.equal(logprobs(model), logprobs(load_policy(folder)[0]))
    publish_policy(wrapped, tokenizer, tmp_path / "merged")
    merged = load_policy(tmp_path / "merged")[0]
    assert torch.allclose(logprobs(merged), logprobs(model), atol=1e-4)


def lead(folder: Path, output: Path) -> None:
    """Be rank 0 of two, and keep the served weights."""
    ranks = Ranks()
    model = adapted(folder)
    updater = make_updater(model, make_config(learning_rate=0.01, **ON_RANKS), ranks)
    shares = take_steps(updater, 3)
    updater.save(output / "checkpoint").result()
    ranks.end()
    torch.save((logprobs(model), shares), output / "found.pt")


@pytest.mark.nightly
def test_two_ranks_train_the_adapter_of_one(folder: Path, tmp_path: Path) -> None:
    leader = (sys.executable, "-m", __name__, str(folder), str(tmp_path))
    with processes([leader, FOLLOW]) as (first, second):
        said = first.communicate(timeout=400)[0] + second.communicate(timeout=120)[0]
    assert (first.returncode, second.returncode) == (0, 0), said
    found, shares = torch.load(tmp_path / "found.pt")
    model, updater = trained(folder, **ON_RANKS)
    assert torch.allclose(found, logprobs(model), atol=2e-3)
    assert shares[-1] == pytest.approx(1.0, abs=0.02)
    updater.load(tmp_path / "checkpoint")
    assert torch.allclose(found, logprobs(model), atol=1e-5), "a checkpoint of two, read by one"


if __name__ == "__main__":
    lead(Path(sys.argv[1]), Path(sys.argv[2]))


def test_an_adapters_folder_names_its_base_from_anywhere(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    model, tokenizer = load_policy(Path(folder.name))
    publish_policy(bare(add_adapter(model, LORA, 0, CPU)), tokenizer, tmp_path / "merged")
    config = json.loads((tmp_path / "merged" / "adapter" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(folder)


def test_a_rank_above_every_layer_is_refused(folder: Path) -> None:
    model = load_policy(folder)[0]
    with pytest.raises(ConfigError, match="can have a rank above") as refused:
        add_adapter(model, LoRAConfig(rank=100_000), 0, CPU)
    assert refused.value.field == "policy.lora.rank"
