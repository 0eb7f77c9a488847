"""LoRA adapters served on a checkpoint, by every engine of this host.

The reference is the same network, with the adapter's part computed after each layer rather
than merged into it.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from assay_inference.api.app import create_app
from assay_shared.clients import InferenceClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import Conflict, WeightsRefused
from assay_shared.telemetry.logs import quiet_transformers
from assay_shared.types import (
    AdapterWeights,
    GenerateRequest,
    LogprobProbe,
    PolicyVersion,
    SamplingParams,
    WeightUpdate,
)
from assay_shared.weights import checkpoint
from assay_trainer.learner.network.model import load_policy
from tests.conftest import Serve
from tests.contract.test_inference import Settings, settings  # noqa: F401  # a fixture
from tests.support.policies import SERVABLE, make_policy_folder, update_of
from tests.support.vllm.interpreter import START_TIMEOUT_S

pytestmark = pytest.mark.timeout(START_TIMEOUT_S + 120)

MODULES = ("self_attn.q_proj", "self_attn.v_proj", "mlp.down_proj")
RANK, ALPHA = 4, 8
PROBE = tuple(range(20, 32))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    quiet_transformers()
    folder = tmp_path_factory.mktemp("policies") / "base"
    make_policy_folder(folder, 0, sharpness=3.0, config=SERVABLE)
    return folder


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def url(serve_for_all: Serve, settings: Settings, base: Path, kept: Path) -> str:  # noqa: F811
    return serve_for_all(create_app(settings(inference_model=base, inference_upload_folder=kept)))


@pytest.fixture
async def client(url: str) -> AsyncIterator[InferenceClient]:
    async with InferenceClient(url, retry=NO_RETRY) as client:
        yield client


def make_adapter(folder: Path, base: Path, seed: int = 0, **config: object) -> Path:
    """Random A and B for some modules of each layer."""
    model, _ = load_policy(base)
    random = torch.Generator().manual_seed(seed)
    tensors: dict[str, torch.Tensor] = {}
    for name, module in model.named_modules():
        if name.endswith(MODULES) and isinstance(module, torch.nn.Linear):
            path = f"base_model.model.{name}"
            a_RI = torch.randn(RANK, module.in_features, generator=random) * 0.05
            b_OR = torch.randn(module.out_features, RANK, generator=random) * 0.5
            tensors |= {f"{path}.lora_A.weight": a_RI, f"{path}.lora_B.weight": b_OR}
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors")
    written = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "bias": "none"} | config
    (folder / "adapter_config.json").write_text(json.dumps(written))
    return folder


def reference_logprobs(base: Path, adapter: Path, ids: tuple[int, ...]) -> list[float]:
    """Of each id but the first, with W x + s B A x in each adapted layer."""
    model, _ = load_policy(base)
    tensors = load_file(adapter / "adapter_model.safetensors")
    modules = dict(model.named_modules())
    for name in tensors:
        if name.endswith(".lora_A.weight"):
            path = name.removesuffix(".lora_A.weight")
            a_RI, b_OR = tensors[name], tensors[f"{path}.lora_B.weight"]

            def add(
                _: torch.nn.Module,
                given: tuple[torch.Tensor],
                out: torch.Tensor,
                a_RI: torch.Tensor = a_RI,
                b_OR: torch.Tensor = b_OR,
            ) -> torch.Tensor:
                return out + ALPHA / RANK * (given[0] @ a_RI.T @ b_OR.T)

            modules[path.removeprefix("base_model.model.")].register_forward_hook(add)
    with torch.inference_mode():
        logprobs_TV = model(torch.tensor([ids])).logits[0, :-1].log_softmax(dim=-1)
    return [float(logprobs_TV[at, token]) for at, token in enumerate(ids[1:])]


async def announce(
    client: InferenceClient, adapter: Path, base: str, probe: LogprobProbe | None = None
) -> PolicyVersion:
    served = (await client.weight_status()).policy
    policy = PolicyVersion(
        version=served.version + 1 if served else 1,
        digest=checkpoint.adapter_digest(adapter, base),
    )
    source = AdapterWeights(path=str(adapter), base=base)
    await client.update_weights(WeightUpdate(source=source, policy=policy, probe=probe))
    return policy


@pytest.mark.slow
async def test_each_adapter_is_served_on_the_same_base(
    client: InferenceClient, base: Path, kept: Path, tmp_path: Path
) -> None:
    digest = checkpoint.digest(base)
    for seed in range(3):
        adapter = make_adapter(tmp_path / f"a{seed}", base, seed)
        expected = reference_logprobs(base, adapter, PROBE)
        probe = LogprobProbe(token_ids=PROBE, logprobs=tuple(expected), tolerance=2e-3)
        policy = await announce(client, adapter, digest, probe)
        status = await client.weight_status()
        assert status.policy == policy
        assert status.probe_difference is not None
        assert status.num_compared == status.num_tensors
        greedy = GenerateRequest(
            token_ids=PROBE, sampling=SamplingParams(max_tokens=8, temperature=0)
        )
        answer = await client.generate(greedy)
        (completion,) = answer.completions
        assert completion.policy == policy
        found = reference_logprobs(base, adapter, (*PROBE, *completion.token_ids))
        assert found[len(PROBE) - 1 :] == pytest.approx(completion.logprobs, abs=2e-3)
        assert num_folders(kept) == 1, "what the one before made is removed"
    served = (await client.weight_status()).policy
    assert served is not None
    whole = PolicyVersion(version=served.version + 1, digest=digest)
    await client.update_weights(update_of(base, whole))
    assert num_folders(kept) == 0


def num_folders(folder: Path) -> int:
    return len(list(folder.iterdir()))


async def test_an_adapter_of_another_base_or_probe_is_refused(
    client: InferenceClient, base: Path, tmp_path: Path
) -> None:
    before = (await client.weight_status()).policy
    digest = checkpoint.digest(base)
    adapter = make_adapter(tmp_path / "a", base, 7)
    with pytest.raises(Conflict, match=f"source.base: .* is not the full checkpoint .*{digest}"):
        await announce(client, adapter, "0" * 64)
    wrong = tuple(logprob - 1.0 for logprob in reference_logprobs(base, adapter, PROBE))
    with pytest.raises(WeightsRefused, match="log-probabilities differ"):
        await announce(client, adapter, digest, LogprobProbe(token_ids=PROBE, logprobs=wrong))
    (tmp_path / "empty").mkdir()
    source = AdapterWeights(path=str(tmp_path / "empty"), base=digest)
    empty = WeightUpdate(source=source, policy=PolicyVersion(version=1000, digest="d"))
    with pytest.raises(WeightsRefused, match="it has no adapter_config.json"):
        await client.update_weights(empty)
    assert (await client.weight_status()).policy == before
