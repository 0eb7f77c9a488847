"""Downloads from a hub on the loopback, by the library for the real hub."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from assay_shared.errors import AssayError, Forbidden, InvalidInput, NotFound, Unreachable
from assay_trainer.hub import Repository, download, list_files, model_files, resolve
from tests.support.hub import LocalHub

NAME = "owner/thing"
BIG = bytes(range(256)) * 200
READS = """
import sys
from assay_trainer.hub import download, resolve
try:
    print(download(resolve("model", sys.argv[1], None), ["big.bin"]))
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    with LocalHub(tmp_path / "served").running() as served:
        served.use(monkeypatch, tmp_path / "home")
        yield served


def test_a_file_is_downloaded_once_and_its_bytes_are_reported(hub: LocalHub) -> None:
    commit = hub.publish("models", NAME, {"big.bin": BIG, "other.bin": b"x"})
    repository = resolve("model", NAME, None)
    assert repository == Repository("model", NAME, commit)
    assert list_files(repository) == {"big.bin": len(BIG), "other.bin": 1}
    told: list[tuple[int, int]] = []
    folder = download(repository, ["big.bin"], lambda done, total: told.append((done, total)))
    assert (folder / "big.bin").read_bytes() == BIG
    assert not (folder / "other.bin").exists()
    assert told[-1] == (len(BIG), len(BIG))
    num_asked = len(hub.asked)
    assert download(repository, ["big.bin"]) == folder
    assert len(hub.asked) == num_asked


def test_a_broken_download_is_resumed_where_it_broke(
    hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)  # what is kept of a broken answer
    hub.publish("models", NAME, {"big.bin": BIG})
    hub.break_after["big.bin"] = 20_000
    folder = download(resolve("model", NAME, None), ["big.bin"])
    assert (folder / "big.bin").read_bytes() == BIG
    ranges = [one for method, path, one in hub.asked if method == "GET" and "big.bin" in path]
    assert ranges == [None, "bytes=20000-"]


def test_a_report_that_raises_ends_the_download_and_the_next_one_completes_it(
    hub: LocalHub,
) -> None:
    hub.publish("models", NAME, {"a.bin": BIG, "b.bin": BIG})
    repository = resolve("model", NAME, None)

    def stop(*_: int) -> None:
        raise InterruptedError("stop")

    with pytest.raises(InterruptedError):
        download(repository, ["a.bin", "b.bin"], stop)
    assert (download(repository, ["a.bin", "b.bin"]) / "b.bin").read_bytes() == BIG


def test_a_name_with_signs_of_patterns_is_one_file(hub: LocalHub) -> None:
    hub.publish("models", NAME, {"a[1].bin": b"x", "a1.bin": b"y"})
    folder = download(resolve("model", NAME, None), ["a[1].bin"])
    assert [path.name for path in folder.iterdir()] == ["a[1].bin"]


def test_offline_the_cache_serves_and_what_it_lacks_is_named(
    hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = hub.publish("models", NAME, {"big.bin": BIG, "b.bin": b"x"})
    download(resolve("model", NAME, None), ["big.bin"])
    hub.use(monkeypatch, tmp_path / "home", offline=True)
    num_asked = len(hub.asked)
    repository = resolve("model", NAME, None)
    assert repository.revision == commit
    assert len(list_files(repository)) == 2
    assert (download(repository, ["big.bin"]) / "big.bin").read_bytes() == BIG
    with pytest.raises(NotFound, match=rf"HF_HUB_OFFLINE is set.*lacks model {NAME}.*: b\.bin"):
        download(repository, ["b.bin"])
    with pytest.raises(NotFound, match=r"or a part of it: b\.bin \("):
        download(repository, ["big.bin", "b.bin"])
    with pytest.raises(NotFound, match=r"HF_HUB_OFFLINE is set.*lacks model owner/none"):
        resolve("model", "owner/none", None)
    with pytest.raises(NotFound, match=r"HF_HUB_OFFLINE is set.*lacks dataset owner/none"):
        list_files(Repository("dataset", "owner/none", "0" * 40))
    assert len(hub.asked) == num_asked


def test_a_cache_of_an_older_library_serves_models_and_no_datasets(
    hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("models", "datasets"):
        hub.publish(kind, NAME, {"config.json": b"{}", "model.safetensors": b"xy", "a/b": b"z"})
    repositories = [resolve("model", NAME, None), resolve("dataset", NAME, None)]
    for one in repositories:
        download(one, ["config.json", "model.safetensors"])
    left_out = shutil.ignore_patterns("trees")
    shutil.copytree(tmp_path / "home", tmp_path / "old", symlinks=True, ignore=left_out)
    hub.use(monkeypatch, tmp_path / "old", offline=True)
    files = list_files(repositories[0])
    assert files == {"config.json": 2, "model.safetensors": 2}
    wanted = model_files(list(files), repositories[0])
    assert (download(repositories[0], wanted) / "model.safetensors").read_bytes() == b"xy"
    with pytest.raises(NotFound, match=f"no list of the files of dataset {NAME}"):
        list_files(repositories[1])


def test_the_librarys_variables_say_where_and_whether(hub: LocalHub, tmp_path: Path) -> None:
    hub.publish("models", NAME, {"big.bin": BIG})
    environment = os.environ | {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "other")}

    def read(name: str, **changes: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", READS, name],
            env=environment | changes,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout

    assert str(tmp_path / "other") in read(NAME)
    shutil.rmtree(hub.folder)
    assert str(tmp_path / "other") in read(NAME, HF_HUB_OFFLINE="1")
    assert "NotFound HF_HUB_OFFLINE is set" in read("owner/none", HF_HUB_OFFLINE="1")


def test_without_a_connection_the_error_says_so(hub: LocalHub, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        LocalHub(tmp_path, url="http://127.0.0.1:9").use(patch, tmp_path / "home")
        with pytest.raises(Unreachable, match="cannot be reached .* lacks model owner/thing"):
            resolve("model", NAME, None)


@pytest.mark.parametrize(
    ("name", "revision", "kind", "message"),
    [
        (
            "owner/none",
            None,
            NotFound,
            "has no model owner/none, or it .*HF_TOKEN is not",
        ),
        (NAME, "v9", NotFound, "revision: model owner/thing has no revision v9"),
        ("owner/secret", None, NotFound, "or it is private"),
        ("owner/gated", None, Forbidden, "model owner/gated is gated .*ask for access"),
        ("owner--x/y", None, InvalidInput, "not the name of a repository"),
    ],
)
def test_errors_of_the_hub_say_what_to_do(
    hub: LocalHub, name: str, revision: str | None, kind: type[AssayError], message: str
) -> None:
    for one in (NAME, "owner/secret", "owner/gated"):
        hub.publish("models", one, {"big.bin": BIG})
    hub.tokens["owner/secret"] = "hf_right"
    hub.gated.add("owner/gated")
    with pytest.raises(kind, match=message):
        download(resolve("model", name, revision), ["big.bin"])


def test_a_private_repository_is_read_with_the_token_which_no_error_tells(
    hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.publish("datasets", NAME, {"big.bin": BIG})
    hub.tokens[NAME] = "hf_right"
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    assert (download(resolve("dataset", NAME, None), ["big.bin"]) / "big.bin").is_file()
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(NotFound, match="check that HF_TOKEN may read it") as told:
        resolve("dataset", NAME, None)
    assert "hf_wrong" not in str(told.value)


def test_of_a_model_only_safetensors_and_texts_are_taken() -> None:
    repository = Repository("model", NAME, "0" * 40)
    listing = ["model-00001-of-00002.safetensors", "config.json", "tokenizer.json", "evil.py"]
    more = ["pytorch_model.bin", "onnx/model.safetensors", "consolidated.safetensors", "t.pkl"]
    assert model_files(listing + more, repository) == listing[:3]
    with pytest.raises(InvalidInput, match=r"no weights in model\*\.safetensors"):
        model_files(["config.json", "pytorch_model.bin"], repository)
