"""The compose files, as Compose itself reads them; no engine is needed."""

import json
import re
from pathlib import Path

import pytest
import yaml

from assay_reward.executor.config import ExecutorConfig
from assay_shared.settings.run_file import load_config
from tests.support.compose import stack
from tests.support.compose.rendering import (
    ROOT,
    SECRETS,
    config,
    everything,
    rendered,
)

OURS = {"sandbox", "judge", "reward", "worker", "run"}
CPU, GPU = (
    OURS | {"redis", "inference", "trainer"},
    OURS | {"redis", "inference-gpu", "trainer-gpu"},
)
EYES = {"prometheus", "grafana"}
PUBLISHED = {
    "inference": 8001,
    "inference-gpu": 8001,
    "reward": 8004,
    "trainer": 8005,
    "trainer-gpu": 8005,
    "prometheus": 9090,
    "grafana": 3000,
}
#: Image and own network aside, the sandbox alone is the sandbox of the stack.
DIFFERENT = {"networks", "ports", "environment", "build", "dns"}


@pytest.mark.parametrize(
    ("profiles", "services"),
    [
        ((), CPU),
        (("cpu",), CPU),
        (("gpu",), GPU),
        (("cpu", "observability"), CPU | EYES),
        (("gpu", "observability"), GPU | EYES),
        (("gpu", "executor", "judge-model"), GPU | {"executor-gpu", "judge-model-gpu"}),
    ],
)
def test_a_profile_has_one_of_each_service(profiles: tuple[str, ...], services: set[str]) -> None:
    arguments = [word for profile in profiles for word in ("--profile", profile)]
    assert set(config(*arguments)["services"]) == services


@pytest.mark.parametrize("missing", sorted(SECRETS))
@pytest.mark.parametrize("value", [{}, {"empty": ""}], ids=["not set", "empty"])
def test_a_secret_that_is_missing_is_refused_by_its_name(
    missing: str, value: dict[str, str]
) -> None:
    environment = {name: secret for name, secret in SECRETS.items() if name != missing}
    if value:
        environment[missing] = ""
    done = rendered(environment=environment, check=False)
    assert done.returncode != 0
    assert f"required variable {missing} is missing a value" in done.stderr
    assert "openssl rand -hex 32" in done.stderr


@pytest.mark.parametrize("name", sorted(everything()["services"]))
def test_each_service_has_no_more_than_it_needs(name: str) -> None:
    service = everything()["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges" in service["security_opt"]
    assert int(service["mem_limit"]) > 0
    assert service["pids_limit"] > 0
    assert service["user"].split(":")[0] not in ("", "0", "root")
    assert "privileged" not in service
    assert "cap_add" not in service
    assert "network_mode" not in service
    assert service["restart"] in ("unless-stopped", "on-failure:5")
    assert service["logging"]["options"]["max-size"]
    for volume in service.get("volumes", ()):
        assert "docker.sock" not in volume.get("source", "")
    for dependency in service.get("depends_on", {}).values():
        assert dependency["condition"] == "service_healthy"


@pytest.mark.parametrize("name", sorted(everything()["services"]))
def test_ports_are_published_by_the_gateway_alone_and_on_loopback(name: str) -> None:
    ports = everything()["services"][name].get("ports", [])
    assert [port["target"] for port in ports] == ([PUBLISHED[name]] if name in PUBLISHED else [])
    assert {port["host_ip"] for port in ports} <= {"127.0.0.1"}


def test_only_reward_and_the_eyes_share_a_network_with_sandbox_and_judge() -> None:
    whole = everything()
    members: dict[str, set[str]] = {}
    for name, service in whole["services"].items():
        for network in service["networks"]:
            members.setdefault(network, set()).add(name)
    assert members["sandbox_net"] == {"sandbox", "reward", "prometheus"}
    assert members["judge_net"] == {"judge", "reward", "prometheus"}
    assert members["judge_out"] == {"judge"}
    assert members["models_net"] == {"reward", "judge", "executor-gpu", "judge-model-gpu"}
    assert set(whole["services"]["sandbox"]["networks"]) == {"sandbox_net"}
    networks = whole["networks"]
    assert [
        networks[name].get("internal")
        for name in ("sandbox_net", "judge_net", "models_net", "mesh")
    ] == [True] * 4
    prefix = "com.docker.network.bridge."
    assert networks["sandbox_net"]["driver_opts"] == {prefix + "inhibit_ipv4": "true"}
    assert networks["gateway"]["driver_opts"] == {prefix + "enable_ip_masquerade": "false"}


@pytest.mark.parametrize("name", ["reward", "prometheus"])
def test_who_shares_the_sandboxs_network_does_not_listen_in_it(name: str) -> None:
    service = everything()["services"][name]
    if name == "reward":
        hosts = service["command"][service["command"].index("--host") + 1].split(",")
    else:
        form = re.compile(r"--web\.listen-address=(.+):9090")
        hosts = [found[1] for word in service["command"] if (found := form.fullmatch(word))]
    assert "127.0.0.1" in hosts, "for its health check"
    aliases = {
        alias: network
        for network, options in service["networks"].items()
        for alias in (options or {}).get("aliases", ())
    }
    assert {aliases[host] for host in hosts if host != "127.0.0.1"} <= {"mesh", "gateway"}


def test_the_executor_of_the_stack_is_its_model_server() -> None:
    executor = load_config(ExecutorConfig, here("reward", "/etc/assay/executor.yaml"))
    (model,) = executor.models
    server = everything()["services"]["executor-gpu"]
    (alias,) = server["networks"]["models_net"]["aliases"]
    command = " ".join(server["command"])
    assert model.base_url == f"http://{alias}:8000/v1"
    assert f"--served-model-name {model.model} --port 8000" in command


def test_the_sandbox_has_its_seccomp_profile_and_a_token_of_its_own() -> None:
    sandbox = config(ASSAY_SANDBOX_TOKEN="s" * 32)["services"]["sandbox"]
    assert "seccomp=services/sandbox/seccomp.json" in sandbox["security_opt"]
    assert json.loads((ROOT / "services/sandbox/seccomp.json").read_text())["defaultAction"]
    assert sandbox["environment"]["ASSAY_TOKEN"] == "s" * 32
    assert not any("REDIS" in name for name in sandbox["environment"])
    assert "t" * 32 not in json.dumps(sandbox)
    assert config()["services"]["sandbox"]["environment"]["ASSAY_TOKEN"] == "t" * 32


def test_only_those_who_use_redis_know_its_password() -> None:
    services = everything()["services"]
    knowing = {name for name, service in services.items() if "p" * 32 in json.dumps(service)}
    assert knowing == {"redis", "trainer", "trainer-gpu", "worker", "run", "pipeline"}


def test_redis_keeps_what_it_has() -> None:
    redis = everything()["services"]["redis"]
    assert [volume["target"] for volume in redis["volumes"]] == ["/data"]
    command = " ".join(redis["command"])
    assert "--appendonly yes" in command
    assert "noeviction" in command
    assert "p" * 32 not in command, "a command line can be read by others"


def test_the_sandbox_alone_is_the_sandbox_of_the_stack() -> None:
    alone = config("--file", "deploy/sandbox.yaml", "--project-directory", ".")["services"]
    composed = config()["services"]["sandbox"]
    assert {k: v for k, v in alone["sandbox"].items() if k not in DIFFERENT} == {
        k: v for k, v in composed.items() if k not in DIFFERENT
    }
    (port,) = alone["sandbox"]["ports"]
    assert (port["host_ip"], port["target"]) == ("127.0.0.1", 8002)


def test_every_variable_is_shown_in_the_example_with_its_default() -> None:
    shown = (ROOT / "deploy/compose.env.example").read_text()
    lines = dict(re.findall(r"^(?:# )?([A-Z_]+)=(.*?)(?: +#.*)?$", shown, re.MULTILINE))
    text = (ROOT / "docker-compose.yml").read_text()
    code = "\n".join(line.partition(" #")[0] for line in text.splitlines())
    defaults: dict[str, set[str]] = {}
    for name, default in re.findall(r"\$\{([A-Z_]+)(?::[-?]([^{}]*))?\}", code):
        assert name in lines, name
        if default and not default.startswith("openssl"):
            defaults.setdefault(name, set()).add(default)
    for name, values in defaults.items():
        assert lines[name] in values, name
    passed = {
        name
        for service in yaml.safe_load(text)["services"].values()
        for name, value in (service.get("environment") or {}).items()
        if value is None
    }
    assert passed <= set(lines) | set(_settings()), passed - set(lines) - set(_settings())


def _settings() -> list[str]:
    """Return the services' variables in .env.example."""
    return re.findall(r"^([A-Z_]+)=", (ROOT / ".env.example").read_text(), re.MULTILINE)


def mounted(name: str) -> dict[str, Path]:
    """Return the files and folders of this repository in a container, by their path there."""
    volumes = everything()["services"][name].get("volumes", ())
    return {one["target"]: Path(one["source"]) for one in volumes if one["type"] == "bind"}


def here(name: str, path: str) -> Path:
    """Return the file of this repository at a path of a container."""
    binds = mounted(name)
    (target,) = [target for target in binds if Path(path).is_relative_to(target)]
    return binds[target] / Path(path).relative_to(target)


@pytest.mark.parametrize("name", sorted(everything()["services"]))
def test_what_a_container_mounts_is_in_the_repository(name: str) -> None:
    missing = [str(source) for source in mounted(name).values() if not source.exists()]
    assert missing == [], "the engine would make an empty folder of root's in its place"


def test_the_trial_of_the_stack_has_its_run_file() -> None:
    environment = stack.ENVIRONMENT
    (volume,) = config(**environment)["services"]["run"]["volumes"]
    assert (Path(volume["source"]) / environment["ASSAY_RUN_FILE"]).is_file()


def test_a_pipeline_of_the_configs_runs_in_the_trainers_image() -> None:
    services = config("--profile", "cpu", "--profile", "pipeline")["services"]
    found = services["pipeline"]
    words = found["command"]
    assert words[:3] == ["assay", "pipeline", "run"]
    places = {one["target"]: one["source"] for one in found["volumes"]}
    assert (Path(places["/etc/assay/configs"]) / words[3]).is_file()
    assert found["image"] == services["trainer"]["image"]
    assert not found.get("ports")
    assert "pipeline" not in config()["services"]


@pytest.mark.parametrize("service", ["inference", "sandbox", "judge", "reward", "trainer"])
def test_images_are_pinned_run_as_nobody_and_say_what_they_are(service: str) -> None:
    text = (ROOT / f"services/{service}/Dockerfile").read_text()
    final = text[text.rindex("\nFROM ") :]
    assert re.search(r"^ARG PYTHON_IMAGE=python:3\.11-slim-bookworm$", text, re.MULTILINE)
    for line in re.findall(r"^FROM (\S+)", text, re.MULTILINE):
        assert ":latest" not in line
    assert "USER 10001:10001" in text
    assert "HEALTHCHECK" in final
    assert f"requirements/{service}.txt" in text
    for stage in text.split("\nFROM "):
        wanted, code = f"requirements/{service}.txt requirements/", f"COPY services/{service}"
        assert wanted not in stage or code not in stage or stage.index(wanted) < stage.index(code)
    assert "pip install" not in final, "nothing is built where it is shipped"
    for label in ("title", "description", "licenses", "version", "revision", "source"):
        assert f"org.opencontainers.image.{label}=" in final, label
    assert not re.search(r"(TOKEN|PASSWORD|SECRET|KEY)=", text)
