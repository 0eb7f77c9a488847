"""`POST /v1/weights/check`: whether inference would serve a folder, before anything is trained."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from transformers import AutoTokenizer, BloomConfig, GPT2Config, LlamaConfig, MistralConfig

from assay_inference.api.app import create_app
from assay_inference.settings import InferenceSettings
from assay_shared.clients import InferenceClient
from assay_shared.clients.http import NO_RETRY
from assay_shared.errors import AssayError, ConfigError, InvalidInput, WeightsRefused
from assay_shared.settings.environment import ServiceSettings
from assay_shared.types import FolderWeights
from assay_trainer import config as trainer_config
from assay_trainer.config import RunConfig
from assay_trainer.learner.ranks import Ranks
from assay_trainer.new_run import begin_run
from assay_trainer.pipeline.before_start import check_place
from assay_trainer.pipeline.context import RunContext
from assay_trainer.pipeline.policy import check_servable
from assay_trainer.service.record import create_run
from assay_trainer.stop import Stop
from tests.conftest import Serve
from tests.support.architectures import publish_random
from tests.support.valkey import TestValkey

DEMO = Path(trainer_config.__file__).parent / "service" / "demo.yaml"


def fitting(folder: Path) -> Path:
    return publish_random(folder, LlamaConfig)


def windowed(folder: Path) -> Path:
    return publish_random(folder, MistralConfig, sliding_window=32)


def without_positions(folder: Path) -> Path:
    return publish_random(folder, BloomConfig, n_layer=2, n_head=2, max_position_embeddings=None)


def with_another_tokenizer(folder: Path) -> Path:
    fitting(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([f"word{number}" for number in range(200)])
    tokenizer.save_pretrained(folder)
    return folder


REFUSED = {
    "window": (windowed, WeightsRefused, "attention within a window of 32 tokens"),
    "positions": (without_positions, WeightsRefused, "no positive max_position_embeddings"),
    "tokenizer": (with_another_tokenizer, WeightsRefused, "has token ids up to"),
}


def served(serve: Serve, root: Path) -> str:
    return serve(
        create_app(InferenceSettings(inference_device="cpu", inference_weight_roots=str(root)))
    )


async def test_a_folder_that_fits_is_told_with_its_sizes(serve: Serve, tmp_path: Path) -> None:
    folder = fitting(tmp_path / "model")
    async with InferenceClient(served(serve, tmp_path), retry=NO_RETRY) as client:
        found = await client.check_weights(FolderWeights(path=str(folder)))
        assert (found.max_length, found.num_tensors) == (128, 21)
        assert (await client.weight_status()).policy is None, "nothing is loaded"


async def test_a_size_may_have_another_name(serve: Serve, tmp_path: Path) -> None:
    folder = publish_random(
        tmp_path / "model", GPT2Config, n_positions=64, max_position_embeddings=64
    )
    assert "max_position_embeddings" not in (folder / "config.json").read_text()
    async with InferenceClient(served(serve, tmp_path), retry=NO_RETRY) as client:
        found = await client.check_weights(FolderWeights(path=str(folder)))
    assert found.max_length == 64


@pytest.mark.parametrize(("made", "error", "message"), REFUSED.values(), ids=REFUSED)
async def test_what_the_engine_does_not_serve_is_refused(
    serve: Serve,
    tmp_path: Path,
    made: Callable[[Path], Path],
    error: type[AssayError],
    message: str,
) -> None:
    folder = made(tmp_path / "model")
    async with InferenceClient(served(serve, tmp_path), retry=NO_RETRY) as client:
        with pytest.raises(error, match=message):
            await client.check_weights(FolderWeights(path=str(folder)))


def run_of(folder: Path, url: str) -> RunContext:
    config = RunConfig.model_validate(yaml.safe_load(DEMO.read_text()))
    record = create_run(folder, config)
    settings = ServiceSettings(inference_url=url)
    return RunContext(record, config, settings, Stop(), Ranks(), lambda _: None)


def test_a_run_asks_before_it_trains(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    run = run_of(tmp_path / "runs" / "fits", served(serve, tmp_path / "runs"))
    fitting(run.folder.path / "models" / "initial")
    check_servable(run)
    outside = run_of(tmp_path / "outside", run.settings.inference_url)
    fitting(outside.folder.path / "models" / "initial")
    with pytest.raises(InvalidInput, match="ASSAY_INFERENCE_WEIGHT_ROOTS"):
        check_servable(outside)
    window = run_of(tmp_path / "runs" / "window", run.settings.inference_url)
    windowed(window.folder.path / "models" / "initial")
    with pytest.raises(ConfigError, match="a copy of the new model: .* within a window") as refused:
        check_servable(window)
    assert refused.value.field == "policy"
    check_servable(run_of(tmp_path / "alone", "http://127.0.0.1:9"))  # SFT needs no inference


def test_a_folder_that_inference_does_not_read_is_refused_before_it_is_made(
    serve: Serve, tmp_path: Path, valkey: TestValkey
) -> None:
    runs, outside = tmp_path / "runs", tmp_path / "outside"
    runs.mkdir()
    url = served(serve, runs)
    settings = ServiceSettings(inference_url=url, runs=runs, redis_url=valkey.url)
    check_place(runs / "new", settings)
    with pytest.raises(ConfigError, match=f"reads no weights from {outside}") as refused:
        check_place(outside, settings)
    assert refused.value.field == "--folder"
    with pytest.raises(ConfigError, match="reads no weights") as resumed:
        check_place(tmp_path, settings, "--resume")
    assert resumed.value.field == "--resume"
    check_place(outside, settings.model_copy(update={"weight_transfer": "upload"}))
    check_place(outside, settings.model_copy(update={"inference_url": "http://127.0.0.1:9"}))
    with pytest.raises(ConfigError, match="reads no weights"):
        begin_run(DEMO, (), outside, settings, [])
    assert not outside.exists()
