"""Checkpoint folders made by others: served, or refused."""

import json
import os
import pickle
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from assay_inference.engines.transformers.engine import TransformersEngine
from assay_inference.serving.served_policy import ServedPolicy
from assay_inference.settings import InferenceSettings
from assay_inference.weights.checkpoint import Checkpoint
from assay_inference.weights.config_sizes import check_layout
from assay_inference.weights.convert import convert
from assay_inference.weights.safetensors import check_finite, read_layout
from assay_inference.weights.uploads import Uploads
from assay_shared.errors import Conflict, InvalidInput, WeightsRefused
from assay_shared.types import PolicyVersion
from assay_shared.weights import checkpoint
from tests.support.policies import make_policy_folders, update_of


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_policy_folders(tmp_path_factory.mktemp("published"), 2)


@pytest.fixture
def folder(published: list[Path], tmp_path: Path) -> Path:
    shutil.copytree(published[0], tmp_path / "runs" / "v1")
    return tmp_path / "runs" / "v1"


@pytest.fixture
async def policy(tmp_path: Path) -> AsyncIterator[ServedPolicy]:
    settings = InferenceSettings(
        inference_device="cpu", runs=tmp_path / "runs", inference_weight_roots=""
    )
    engine = TransformersEngine(settings)
    uploads = Uploads(tmp_path / "uploads", chunk_bytes=4096, max_bytes=2**30, idle_s=60.0)
    yield ServedPolicy(engine, uploads, settings.weight_roots)
    await engine.close()


async def announce(policy: ServedPolicy, folder: Path, digest: str | None = None) -> str:
    """Serve a folder as the next version; return the digest served then."""
    before = policy.status.policy
    number = 1 if before is None else before.version + 1
    version = PolicyVersion(version=number, digest=digest or checkpoint.digest(folder))
    served = (await policy.update(update_of(folder, version))).policy
    assert served is not None
    return served.digest


@pytest.mark.slow
async def test_a_pickle_is_never_read(policy: ServedPolicy, folder: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"

    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {ran}",)

    evil = pickle.dumps(Evil())
    (folder / "pytorch_model.bin").write_bytes(evil)
    await announce(policy, folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(WeightsRefused, match="pickles are not read"):
        await announce(policy, folder, digest="any")
    with pytest.raises(WeightsRefused, match="cannot be converted"):
        convert(folder, tmp_path / "converted", limit_s=60)
    assert not ran.exists()
    assert not (tmp_path / "converted").exists()


async def test_weights_beside_those_that_are_digested_are_refused(
    policy: ServedPolicy, folder: Path, published: list[Path]
) -> None:
    digest = checkpoint.digest(folder)
    (folder / "model.safetensors").rename(folder / "dummy.safetensors")
    index = {"metadata": {}, "weight_map": {"a": f"../../{published[1].name}/model.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(WeightsRefused, match="only safetensors files in its folder"):
        await announce(policy, folder, digest)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer.json"])
async def test_another_setting_is_another_digest(
    policy: ServedPolicy, folder: Path, name: str
) -> None:
    digest = await announce(policy, folder)
    content = json.loads((folder / name).read_bytes())
    (folder / name).write_text(json.dumps(content | {"rope_theta": 1.0}))
    with pytest.raises(WeightsRefused, match="has digest"):
        await announce(policy, folder, digest)


@pytest.mark.parametrize("missing", ["tokenizer.json", "tokenizer_config.json"])
async def test_a_folder_without_a_whole_tokenizer_is_refused(
    policy: ServedPolicy, folder: Path, missing: str
) -> None:
    (folder / missing).unlink()
    with pytest.raises(WeightsRefused, match="tokenizer|cannot be loaded|ends answers with"):
        await announce(policy, folder)


async def test_a_tokenizer_with_ids_beyond_the_model_is_refused(
    policy: ServedPolicy, folder: Path
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([f"<new{i}>" for i in range(400)])
    tokenizer.save_pretrained(folder)
    with pytest.raises(WeightsRefused, match="and the model ends at"):
        await announce(policy, folder)
    with pytest.raises(WeightsRefused, match="and the model ends at"):
        Checkpoint.open(folder, PolicyVersion(version=1, digest="d"), None, None)


async def test_a_template_of_tokens_that_the_model_lacks_is_refused(
    policy: ServedPolicy, folder: Path
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    marks = [f"<|mark{i}|>" for i in range(20)]
    tokenizer.add_special_tokens({"additional_special_tokens": marks})
    tokenizer.save_pretrained(folder)
    await announce(policy, folder)  # what no prompt has does no harm
    template = "".join(marks) + "{% for message in messages %}{{ message.content }}{% endfor %}"
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    with pytest.raises(WeightsRefused, match="and the model ends at"):
        await announce(policy, folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.float8_e5m2],
)
def test_weights_that_are_not_finite_are_refused(
    folder: Path, value: float, dtype: torch.dtype
) -> None:
    file = folder / "model.safetensors"
    tensors = {name: tensor.to(dtype) for name, tensor in load_file(file).items()}
    save_file(tensors, file)
    check_finite(read_layout(folder))
    last = sorted(tensors)[-1]
    flat = tensors[last].float().flatten()
    flat[-1] = value
    tensors[last] = flat.reshape(tensors[last].shape).to(dtype)
    save_file(tensors, file)
    with pytest.raises(WeightsRefused, match=f"{last} has entries that are infinite"):
        check_finite(read_layout(folder))


async def test_an_announced_folder_with_a_nan_leaves_the_old_one(
    policy: ServedPolicy, folder: Path, published: list[Path], tmp_path: Path
) -> None:
    digest = await announce(policy, folder)
    bad = tmp_path / "runs" / "v2"
    shutil.copytree(published[1], bad)
    tensors = load_file(bad / "model.safetensors")
    tensors["model.norm.weight"][0] = float("nan")
    save_file(tensors, bad / "model.safetensors")
    with pytest.raises(WeightsRefused, match=r"model.norm.weight has entries"):
        await announce(policy, bad)
    assert policy.status.policy is not None
    assert policy.status.policy.digest == digest


async def test_folders_elsewhere_are_refused_and_nothing_is_told_of_them(
    policy: ServedPolicy, folder: Path, published: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "runs" / "link").symlink_to(published[0])
    inside = tmp_path / "runs" / "files"
    shutil.copytree(published[0], inside)
    (inside / "model.safetensors").unlink()
    (inside / "model.safetensors").symlink_to(published[0] / "model.safetensors")
    told = set()
    for path in (
        published[0],
        tmp_path / "runs" / "link",
        inside,
        folder / ".." / ".." / ".." / "etc",
        Path("/nowhere"),
        Path("/etc"),
        Path("/etc/shadow"),
        Path("/x" * 1000),
    ):
        with pytest.raises(InvalidInput, match=r"source.path") as error:
            await announce(policy, path, digest="any")
        told.add(error.value.message)
    assert len(told) == 1
    await policy.start_with(inside)  # the operator may


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_hidden_layers", 10_000_000),
        ("num_hidden_layers", 3),
        ("num_hidden_layers", 2.0),
        ("hidden_size", 10**9),
        ("vocab_size", 10**12),
        ("vocab_size", 319),
        ("intermediate_size", 10**10),
        ("num_attention_heads", 10**9),
        ("head_dim", 10**11),
    ],
)
async def test_a_config_of_more_than_the_weights_have_is_refused_by_its_field(
    policy: ServedPolicy, folder: Path, name: str, value: float
) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {name: value}))
    with pytest.raises(WeightsRefused, match=rf"config\.json: {name} is "):
        await announce(policy, folder)
    version = PolicyVersion(version=1, digest=checkpoint.digest(folder))
    with pytest.raises(WeightsRefused, match=rf"config\.json: {name} is "):
        Checkpoint.open(folder, version, None, None)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.bool])
async def test_integers_as_weights_are_refused_unless_quantised(
    policy: ServedPolicy, folder: Path, dtype: torch.dtype
) -> None:
    file = folder / "model.safetensors"
    tensors = load_file(file)
    masks = {"model.layers.0.self_attn.bias": torch.ones(1, 1, 4, 4, dtype=dtype)}
    save_file(tensors | masks, file)
    layout = read_layout(folder)
    check_layout(folder, layout)
    last = sorted(name for name in tensors if name.endswith(".weight"))[-1]
    save_file(tensors | {last: torch.ones_like(tensors[last], dtype=dtype)}, file)
    with pytest.raises(WeightsRefused, match=f"{last} has the type .* no quantization_config"):
        await announce(policy, folder)
    config = json.loads((folder / "config.json").read_text())
    quantised = {"quantization_config": {"quant_method": "gptq"}}
    (folder / "config.json").write_text(json.dumps(config | quantised))
    check_layout(folder, read_layout(folder))


@pytest.mark.parametrize(
    "other",
    [
        {"model_type": "opt", "word_embed_proj_dim": 10**9, "ffn_dim": 64},
        {"model_type": "gpt2", "n_positions": 10**9},
    ],
)
async def test_a_network_far_larger_than_the_weights_is_not_built(
    policy: ServedPolicy, folder: Path, other: dict[str, object]
) -> None:
    config = json.loads((folder / "config.json").read_text())
    changed = config | other | {"max_position_embeddings": 10**9}
    (folder / "config.json").write_text(json.dumps(changed))
    with pytest.raises(WeightsRefused, match="tells of more than"):
        await announce(policy, folder)


@pytest.mark.slow
@pytest.mark.parametrize("is_zip", [True, False], ids=["zip", "as before torch 1.6"])
def test_pickled_weights_are_converted_without_a_change(
    folder: Path, tmp_path: Path, is_zip: bool
) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    shards = {"pytorch_model-1.bin": names[:3], "pytorch_model-2.bin": names[3:]}
    for shard, held in shards.items():
        content = {name: tensors[name] for name in held}
        torch.save(content, folder / shard, _use_new_zipfile_serialization=is_zip)
    placed = {name: shard for shard, held in shards.items() for name in held}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": placed}))

    digest = convert(folder, tmp_path / "new", limit_s=60)

    assert digest == checkpoint.digest(tmp_path / "new")
    read: dict[str, torch.Tensor] = {}
    for file in checkpoint.weight_files(tmp_path / "new"):
        read |= load_file(file)
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[name], tensors[name]) for name in names)
    vocabulary = Checkpoint.open(
        tmp_path / "new", PolicyVersion(version=1, digest=digest), None, None
    ).vocabulary
    assert vocabulary.encode("Return x plus 1.")
    with pytest.raises(Conflict, match="exists"):
        convert(folder, tmp_path / "new", limit_s=60)
    with pytest.raises(InvalidInput, match="pytorch_model"):
        convert(tmp_path / "new", tmp_path / "newer", limit_s=60)


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_pipe_or_a_link_out_of_the_folder_is_not_converted(
    folder: Path, tmp_path: Path, kind: str
) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    other = folder / "special_tokens_map.json"
    other.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(other)
    else:
        other.symlink_to("/etc/passwd")
    with pytest.raises(WeightsRefused, match="not a regular file|a link out of the folder"):
        convert(folder, tmp_path / "new", limit_s=60)
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_the_links_of_a_hub_cache_are_followed(folder: Path, tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "hub/blobs", tmp_path / "hub/snapshots/abc"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    torch.save(load_file(folder / "model.safetensors"), blobs / "0")
    (snapshot / "pytorch_model.bin").symlink_to("../../blobs/0")
    for number, file in enumerate(folder.glob("*.json"), 1):
        (blobs / str(number)).write_bytes(file.read_bytes())
        (snapshot / file.name).symlink_to(f"../../blobs/{number}")
    assert convert(snapshot, tmp_path / "new", limit_s=60) == checkpoint.digest(tmp_path / "new")
