"""Uploaded weights: over HTTP, into an engine, with faults on the way."""

import asyncio
import hashlib
import shutil
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import torch
from pydantic import BaseModel, ConfigDict, TypeAdapter
from safetensors.torch import load_file, save_file

from assay_inference.api.app import create_app
from assay_shared.clients import InferenceClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.clients.weight_upload import Uploaded, upload_weights
from assay_shared.errors import Conflict, InvalidInput, NotFound, TooLarge, WeightsRefused
from assay_shared.telemetry.logs import quiet_transformers
from assay_shared.types import (
    GenerateRequest,
    PolicyVersion,
    SamplingParams,
    UploadedWeights,
    UploadFile,
    UploadRequest,
    WeightUpdate,
)
from assay_shared.weights import checkpoint
from assay_trainer.learner.network.model import load_policy
from assay_trainer.weights.publisher import WeightPublisher
from tests.conftest import Serve
from tests.contract.test_inference import Settings, settings, transformers_settings  # noqa: F401
from tests.support.policies import SERVABLE, make_policy_folder
from tests.support.vllm.interpreter import START_TIMEOUT_S

pytestmark = pytest.mark.timeout(START_TIMEOUT_S + 120)

CHUNK_BYTES = 65_536
_ANY = TypeAdapter(dict[str, object])


class _Raw(BaseModel):
    """Return a body unlike any of our client's."""

    model_config = ConfigDict(extra="allow")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The second is the first after a small step; the third is another policy."""
    quiet_transformers()
    root = tmp_path_factory.mktemp("policies")
    make_policy_folder(root / "v0", 0, sharpness=3.0, config=SERVABLE)
    shutil.copytree(root / "v0", root / "v1")
    file = root / "v1" / "model.safetensors"
    tensors = load_file(file)
    generator = torch.Generator().manual_seed(0)
    for tensor in tensors.values():
        tensor += 1e-6 * torch.randn(tensor.shape, generator=generator)
    save_file(tensors, file, metadata={"format": "pt"})
    make_policy_folder(root / "v2", 2, sharpness=3.0, config=SERVABLE)
    return [root / f"v{number}" for number in range(3)]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def url(serve_for_all: Serve, settings: Settings, folders: list[Path], kept: Path) -> str:  # noqa: F811
    chosen = settings(
        inference_model=folders[0],
        inference_upload_folder=kept,
        inference_upload_chunk_bytes=CHUNK_BYTES,
        inference_upload_max_bytes=8 * 2**20,
    )
    return serve_for_all(create_app(chosen))


@pytest.fixture
async def client(url: str) -> AsyncIterator[InferenceClient]:
    async with InferenceClient(url, retry=NO_RETRY) as client:
        yield client


async def serve_upload(client: InferenceClient, upload: str, digest: str) -> PolicyVersion:
    served = (await client.weight_status()).policy
    policy = PolicyVersion(version=served.version + 1 if served else 1, digest=digest)
    update = WeightUpdate(source=UploadedWeights(upload=upload), policy=policy)
    assert (await client.update_weights(update)).policy == policy
    return policy


async def publish(
    client: InferenceClient, folder: Path, base: tuple[str, Path] | None = None
) -> Uploaded:
    uploaded = await upload_weights(client, folder, base)
    await serve_upload(client, uploaded.id, checkpoint.digest(folder))
    return uploaded


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def answers(client: InferenceClient) -> tuple[list[float], PolicyVersion]:
    """Return the next token and its certainty, different for any two policies, and the version."""
    sampling = SamplingParams(max_tokens=12, temperature=0)
    answer = await client.generate(GenerateRequest(prompt="Write solve", sampling=sampling))
    (completion,) = answer.completions
    return [round(logprob, 3) for logprob in completion.logprobs], completion.policy


def manifest(folder: Path, base: str | None = None) -> UploadRequest:
    files = tuple(
        UploadFile(
            name=file.name, num_bytes=file.stat().st_size, sha256=checkpoint.file_digest(file)
        )
        for file in sorted(folder.iterdir())
    )
    return UploadRequest(files=files, base=base)


@pytest.mark.slow
async def test_what_is_uploaded_serves_and_what_it_replaces_is_removed(
    client: InferenceClient, folders: list[Path], kept: Path
) -> None:
    before, _ = await answers(client)
    for folder in (folders[2], folders[0], folders[2]):
        uploaded = await publish(client, folder)
        assert uploaded.num_deltas == 0
        assert uploaded.num_sent_bytes == uploaded.num_bytes
        assert names_in(kept) == [uploaded.id]
    said, policy = await answers(client)
    assert policy.digest == checkpoint.digest(folders[2])
    assert said != before


async def test_a_small_step_is_sent_as_differences(
    client: InferenceClient, folders: list[Path]
) -> None:
    await publish(client, folders[0])
    base = (checkpoint.digest(folders[0]), folders[0])
    step = await publish(client, folders[1], base)
    assert step.num_deltas > 0
    assert step.num_sent_bytes < 0.6 * step.num_bytes
    assert (await answers(client))[1].digest == checkpoint.digest(folders[1])
    other = await publish(client, folders[2], (checkpoint.digest(folders[1]), folders[1]))
    assert other.num_deltas < 4, "what does not pay is not tried for ever"
    assert (await answers(client))[1].digest == checkpoint.digest(folders[2])
    stale = await publish(client, folders[1], base)
    assert stale.num_deltas == 0, "inference serves another version: all of it goes"
    with pytest.raises(Conflict, match="base: .* is not what is served"):
        await client.begin_upload(manifest(folders[0], base="0" * 64))


async def test_a_broken_chunk_is_refused_by_name_and_may_come_again(
    client: InferenceClient, folders: list[Path]
) -> None:
    before = await answers(client)
    state = await client.begin_upload(manifest(folders[2]))
    chunk = (folders[2] / "model.safetensors").read_bytes()[:CHUNK_BYTES]
    flipped = bytes([chunk[0] ^ 1]) + chunk[1:]
    with pytest.raises(WeightsRefused, match="chunk 0 of model.safetensors came with SHA-256"):
        await client._call(
            "PUT",
            f"/v1/weights/uploads/{state.id}/model.safetensors/0",
            flipped,
            _ANY,
            {"x-chunk-sha256": hashlib.sha256(chunk).hexdigest()},
        )
    with pytest.raises(WeightsRefused, match="has 3 bytes, not 65536"):
        await client.put_chunk(state.id, "model.safetensors", 0, b"abc")
    with pytest.raises(WeightsRefused, match="is a difference, and the upload names no base"):
        await client.put_chunk(state.id, "model.safetensors", 0, b"abc", is_delta=True)
    assert 0 in (await client.upload_state(state.id)).missing["model.safetensors"]
    await client.put_chunk(state.id, "model.safetensors", 0, chunk)
    assert 0 not in (await client.upload_state(state.id)).missing["model.safetensors"]
    with pytest.raises(WeightsRefused, match="source.upload: .* chunks of .* have not come"):
        await serve_upload(client, state.id, checkpoint.digest(folders[2]))
    assert await answers(client) == before, "half an upload never serves"


async def test_wrong_chunks_with_right_checksums_never_serve_and_are_asked_for_again(
    client: InferenceClient, folders: list[Path]
) -> None:
    before = await answers(client)
    state = await client.begin_upload(manifest(folders[2]))
    for name, numbers in state.missing.items():
        content = (folders[2] / name).read_bytes()
        for number in numbers:
            chunk = content[number * CHUNK_BYTES : (number + 1) * CHUNK_BYTES]
            await client.put_chunk(state.id, name, number, chunk[::-1])
    with pytest.raises(WeightsRefused, match="source.upload: .* came with SHA-256"):
        await serve_upload(client, state.id, checkpoint.digest(folders[2]))
    again = await client.upload_state(state.id)
    assert len(again.missing) == 1, "the first differing file has to come again"
    assert await answers(client) == before


async def test_a_difference_that_is_none_is_refused(
    client: InferenceClient, folders: list[Path]
) -> None:
    await publish(client, folders[0])
    state = await client.begin_upload(manifest(folders[1], base=checkpoint.digest(folders[0])))
    assert list(state.missing) == ["model.safetensors"], "the other files are the base's own"
    with pytest.raises(WeightsRefused, match="cannot be inflated"):
        await client.put_chunk(state.id, "model.safetensors", 0, b"garbage", is_delta=True)
    bomb = zlib.compress(bytes(100 * CHUNK_BYTES))
    with pytest.raises(WeightsRefused, match="is not a difference of 65536 bytes"):
        await client.put_chunk(state.id, "model.safetensors", 0, bomb, is_delta=True)


async def test_limits_and_unknown_names_are_refused(
    client: InferenceClient, folders: list[Path]
) -> None:
    huge = UploadFile(name="model.safetensors", num_bytes=2**40, sha256="0" * 64)
    with pytest.raises(TooLarge, match="over the limit"):
        await client.begin_upload(UploadRequest(files=(huge,)))
    with pytest.raises(NotFound, match="there is no upload"):
        await client.upload_state("upload-none")
    state = await client.begin_upload(manifest(folders[2]))
    for file, chunk in (("other.bin", 0), ("model.safetensors", 10_000), ("config.json", 1)):
        with pytest.raises(NotFound, match="has no chunk"):
            await client.put_chunk(state.id, file, chunk, b"")
    for name in ("../config.json", "a/b", ".hidden", ""):
        with pytest.raises(ValueError, match="pattern"):
            UploadFile(name=name, num_bytes=1, sha256="0" * 64)
        body = manifest(folders[2]).model_dump()
        body["files"][0]["name"] = name
        with pytest.raises(InvalidInput, match="name"):
            await client._call("POST", "/v1/weights/uploads", _Raw.model_validate(body), _ANY)
    for _ in range(4):
        await client.begin_upload(manifest(folders[2]))
    with pytest.raises(NotFound, match="there is no upload"):
        await client.upload_state(state.id)  # a client's newer ones take its oldest one's place


async def test_a_trainer_that_is_gone_leaves_nothing_behind(
    serve: Serve, folders: list[Path], tmp_path: Path
) -> None:
    chosen = transformers_settings(
        inference_model=folders[0], inference_upload_folder=tmp_path, inference_upload_idle_s=0.2
    )
    async with InferenceClient(serve(create_app(chosen)), retry=NO_RETRY) as client:
        state = await client.begin_upload(manifest(folders[2]))
        assert names_in(tmp_path)
        while names_in(tmp_path):  # noqa: ASYNC110  # another thread's loop removes it
            await asyncio.sleep(0.05)
        with pytest.raises(NotFound, match="begin another one"):
            await client.put_chunk(state.id, "config.json", 0, b"")
        assert (await answers(client))[1].version == 0


@pytest.mark.slow
def test_a_trainer_publishes_by_upload(serve: Serve, folders: list[Path], tmp_path: Path) -> None:
    url = serve(create_app(transformers_settings(inference_upload_chunk_bytes=CHUNK_BYTES)))
    publisher = WeightPublisher(
        tmp_path, lambda: InferenceClient(url, retry=NO_RETRY), [5, 6, 7], "upload"
    )
    model, tokenizer = load_policy(folders[0])
    for version in (1, 2):
        status = publisher.publish(model, tokenizer)
        assert status.policy is not None
        assert status.policy.version == version
        assert isinstance(status.source, UploadedWeights)
