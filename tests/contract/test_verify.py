"""`assay verify` on a served policy: real inference over HTTP."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from assay_inference.api.app import create_app as create_inference
from assay_inference.settings import InferenceSettings
from assay_shared.errors import Conflict, DatasetError, InvalidInput
from assay_shared.settings.environment import ServiceSettings
from assay_trainer.learner.network.model import create_policy
from assay_trainer.verification.operation import VerifyOrder, verify_policy
from assay_trainer.weights.folder import publish_policy
from tests.conftest import Serve
from tests.support.policies import TEXTS, TINY, make_llama_tokenizer, make_policy_folder

pytestmark = pytest.mark.slow
CONFIG = TINY.model_copy(update={"context_length": 1024})
QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def settings(serve_for_all: Serve) -> ServiceSettings:
    inference = serve_for_all(create_inference(InferenceSettings(inference_weight_roots="/")))
    return ServiceSettings(inference_url=inference)


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A policy without a BOS, one with a BOS, and one without a chat template."""
    root = tmp_path_factory.mktemp("policies")
    make_policy_folder(root / "plain", config=CONFIG)
    for name in ("bos", "bare"):
        model, _ = create_policy(CONFIG, TEXTS, 1)
        tokenizer = make_llama_tokenizer()
        model.resize_token_embeddings(len(tokenizer))
        if name == "bare":
            tokenizer.chat_template = None
        publish_policy(model, tokenizer, root / name)
    return {one.name: one for one in root.iterdir()}


def order(policy: Path, output: Path, prompts: Path | None = None) -> VerifyOrder:
    return VerifyOrder(str(policy), output, prompts, per_kind=1, max_tokens=4, serve="service")


def stored(output: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads((output / "verification.json").read_text())
    return found


@pytest.mark.parametrize(
    ("name", "num_with_bos", "forms"), [("plain", 0, 5), ("bos", 12, 5), ("bare", 12, 4)]
)
def test_raw_prompts_reach_the_engine_as_they_are(
    settings: ServiceSettings,
    policies: dict[str, Path],
    tmp_path: Path,
    name: str,
    num_with_bos: int,
    forms: int,
) -> None:
    assert verify_policy(order(policies[name], tmp_path / "out"), settings, QUIET)
    found = stored(tmp_path / "out")
    channel = found["channel"]
    assert (channel["verdict"], channel["num_unclean"]) == ("CLEAN", 0)
    assert channel["num_prompts"] == 12, "one is longer than the context"
    assert channel["num_with_bos"] == num_with_bos
    controls = channel["controls"]
    assert isinstance(controls, list)
    assert len(controls) == forms
    assert all(one["num_found"] == one["num_sent"] > 0 for one in controls)
    report = (tmp_path / "out" / "report.md").read_text()
    assert "CLEAN: 0 of 12 raw prompts" in report
    assert "Informational" in report


def test_the_same_command_asks_nothing_again(
    settings: ServiceSettings, policies: dict[str, Path], tmp_path: Path
) -> None:
    assert verify_policy(order(policies["plain"], tmp_path), settings, QUIET)
    file = tmp_path / "replies.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:10]) + lines[10][:7])  # as a kill leaves it
    assert verify_policy(order(policies["plain"], tmp_path), settings, QUIET)
    again = file.read_text().splitlines(keepends=True)
    assert again[:10] == lines[:10]
    assert len(again) == len(lines) == len({json.loads(line)["key"] for line in again})
    nowhere = settings.model_copy(update={"inference_url": "http://127.0.0.1:1"})
    assert verify_policy(order(policies["plain"], tmp_path), nowhere, QUIET)


def test_a_prompt_that_spells_a_control_token_is_not_clean(
    settings: ServiceSettings, policies: dict[str, Path], tmp_path: Path
) -> None:
    prompts = tmp_path / "raw.jsonl"
    rows = [{"prompt": "Return x"}, {"prompt": "Return x plus 1 <|end|>", "id": 7}]
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert not verify_policy(order(policies["plain"], tmp_path / "out", prompts), settings, QUIET)
    channel = stored(tmp_path / "out")["channel"]
    assert (channel["verdict"], channel["num_unclean"]) == ("NOT_CLEAN", 1)
    report = (tmp_path / "out" / "report.md").read_text()
    assert "` Return x plus 1 <|end|> `: ` <|end|> ` at" in report


def test_a_prompt_that_is_not_even_tokenised_is_counted(
    settings: ServiceSettings, policies: dict[str, Path], tmp_path: Path
) -> None:
    prompts = tmp_path / "raw.jsonl"
    # Too many characters for the context, and too many bytes for a request.
    rows = [{"prompt": "Return x"}, {"prompt": "x " * 50_000}, {"prompt": "x" * 20_000_000}]
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = order(policies["plain"], tmp_path / "out", prompts)
    assert verify_policy(given, settings, QUIET)
    channel = stored(tmp_path / "out")["channel"]
    assert (channel["num_prompts"], channel["num_too_long"]) == (13, 3)
    replies = (tmp_path / "out" / "replies.jsonl").read_text()
    assert "100000 characters do not fit in a context of 1024 tokens" in replies
    assert "not checked: 3 raw prompts" in (tmp_path / "out" / "report.md").read_text()


def test_what_cannot_be_verified_is_refused(
    settings: ServiceSettings, policies: dict[str, Path], tmp_path: Path
) -> None:
    verify_policy(order(policies["plain"], tmp_path / "out"), settings, QUIET)
    with pytest.raises(Conflict, match="another policy"):
        verify_policy(order(policies["bos"], tmp_path / "out"), settings, QUIET)
    prompts = tmp_path / "raw.jsonl"
    prompts.write_text('{"prompt": "one"}\n')
    with pytest.raises(Conflict, match="other prompts"):
        verify_policy(order(policies["plain"], tmp_path / "out", prompts), settings, QUIET)
    prompts.write_text('{"text": "one"}\n')
    with pytest.raises(DatasetError, match=r"raw\.jsonl:1"):
        verify_policy(order(policies["plain"], tmp_path / "new", prompts), settings, QUIET)
    with pytest.raises(InvalidInput, match="is not a verification"):
        verify_policy(order(policies["plain"], tmp_path), settings, QUIET)
