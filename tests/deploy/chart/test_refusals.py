"""Values that pass the schema, and of which a part would not start or not do what they say."""

import re
from typing import Any

import helm_python
import pytest

from assay_judge.config import JudgeConfig
from assay_reward.executor.config import ExecutorConfig
from tests.support.chart.parts import PARTS
from tests.support.chart.rendering import CHART, VERSIONS, at, check, merge, render


def refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(helm_python.HelmRenderError, match=re.escape(message)):
        render(values)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_cpu_image_has_no_engine_but_transformers(engine: str) -> None:
    part: dict[str, Any] = {"accelerator": "none", "engine": engine}
    message = f"inference.engine: {engine} is not in the image of inference.accelerator: none"
    refused({"inference": part}, message)
    for image in ({"name": "engines"}, {"digest": f"sha256:{'0' * 64}"}):
        render({"inference": part | {"image": image}})
    render({"inference": part | {"enabled": False}, "trainer": {"enabled": False}})


def test_an_engine_without_options_takes_none() -> None:
    part = {"engine": "transformers", "arguments": "--dtype float32"}
    refused({"inference": part}, "inference.engine: transformers takes none")


@pytest.mark.parametrize(
    ("served", "fetched", "fits"),
    [
        ("b", "c", False),
        ("bc", "b", False),
        ("b", "b/c", False),
        ("b/c", "b", True),
        ("b/", "b", True),
        ("", "b", True),
    ],
)
def test_a_served_model_is_the_one_that_is_fetched(served: str, fetched: str, fits: bool) -> None:
    cache = {"kind": "pod"} if served == "b" else {"existingClaim": "models"}
    download = {"enabled": True, "repository": "a/b", "folder": fetched}
    part = {"model": {"folder": served}, "modelCache": cache, "modelDownload": download}
    if fits:
        render({"inference": part})
    else:
        message = f"inference.model.folder: {served} is not in inference.modelDownload.folder: "
        refused({"inference": part}, message + fetched)


def test_a_program_that_fetches_comes_with_its_image() -> None:
    download = {"enabled": True, "folder": "b", "command": ["aws", "s3", "sync"]}
    part = {"modelCache": {"kind": "pod"}, "modelDownload": download}
    refused({"inference": part}, "inference.modelDownload.command is a program of")
    download["image"] = "amazon/aws-cli"
    check(render({"inference": part}), VERSIONS[-1:])


@pytest.mark.parametrize("part", ["sandbox", "inference"])
def test_a_part_elsewhere_is_called_with_its_token(part: str) -> None:
    external: dict[str, Any] = {"url": "http://a.b:9", "cidrs": ["10.0.0.1/32"]}
    values: dict[str, Any] = {
        "trainer": {"weightTransfer": "upload"},
        part: {"enabled": False, "external": external},
    }
    refused(values, f"{part}.external.tokenSecret.name: name the secret")
    check(render(values | {"auth": {"enabled": False}}), VERSIONS[-1:])


CHARTS_OWN = [
    ("commonLabels", "app.kubernetes.io/name"),
    ("judge.podLabels", "helm.sh/chart"),
    ("inference.router.podLabels", "assay/network"),
    ("commonAnnotations", "helm.sh/hook"),
    ("judge.podAnnotations", "assay/config"),
    ("judge.annotations", "helm.sh/resource-policy"),
    ("judge.serviceAccount.annotations", "helm.sh/hook-weight"),
]


@pytest.mark.parametrize(("path", "key"), CHARTS_OWN)
def test_a_key_of_the_charts_own_is_refused_with_its_place(path: str, key: str) -> None:
    refused(at(path, {key: "x"}), f"{path}.{key}: the chart sets such keys itself")


@pytest.mark.parametrize("part", PARTS[::4])
def test_a_secret_among_the_variables_is_refused_with_its_place(part: str) -> None:
    message = f"{part}.environment.MY_API_KEY: its name is that of a secret; set {part}.secret"
    refused(at(f"{part}.environment", {"MY_API_KEY": "x"}), message)


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        ("commonLabels", "bad key", "x"),
        ("worker.podAnnotations", "-a", "x"),
        ("worker.environment", "lower", "x"),
        ("reward.rubrics", "Bad Name", {}),
        ("trainer.run.files", "../a.yaml", {}),
    ],
)
def test_a_key_of_a_wrong_form_is_refused_with_its_place(path: str, key: str, value: Any) -> None:
    with pytest.raises(helm_python.HelmValuesError) as caught:
        render(at(path, {key: value}))
    place = "/" + path.replace(".", "/")
    assert f"'{place}': additional properties '{key}' not allowed" in str(caught.value)


def test_a_file_of_a_run_has_a_name_of_its_own() -> None:
    refused(at("trainer.run.files", {"run.yaml": {}}), "trainer.run.files.run.yaml: the chart")


def test_the_schema_has_no_rule_that_says_only_that_it_failed() -> None:
    text = (CHART / "values.schema.json").read_text()
    assert not re.search(r'"(not|propertyNames)":', text)


CONFIGS: list[tuple[str, type[JudgeConfig | ExecutorConfig]]] = [
    ("judge.config", JudgeConfig),
    ("reward.executor.config", ExecutorConfig),
]


@pytest.mark.parametrize(("path", "config"), CONFIGS)
def test_a_configuration_takes_the_keys_that_its_service_reads(
    path: str, config: type[JudgeConfig | ExecutorConfig]
) -> None:
    check(render(at(path, dict.fromkeys(config.model_fields, 1))), VERSIONS[-1:])
    with pytest.raises(helm_python.HelmValuesError, match="additional properties 'chian' not"):
        render(at(path, {"chian": []}))


@pytest.mark.parametrize(
    ("path", "place", "key"),
    [
        ("judge.config", "chain", "api_key"),
        ("reward.executor.config", "models", "apiKey"),
        ("trainer.run.file", "any", "token"),
        ("trainer.run.files", "a.yaml", "Authorization"),
    ],
)
def test_a_string_that_is_a_secret_is_refused_in_a_configuration(
    path: str, place: str, key: str
) -> None:
    models = {"models": [{"name": "a", "api_key_env": "KEY"}, {"headers": {key: "sk-1"}}]}
    refused(at(path, {place: models}), f"{path}.{place}.models.1.headers.{key}: everyone")


def test_a_run_file_may_have_a_section_of_such_a_name() -> None:
    render(at("trainer.run.files", {"ablation.yaml": {"token": {"grpo.average": "token"}}}))


IMAGES = (
    *("image.registry", "global.imageRegistry"),
    *("redis.image", "sandbox.seccompInstaller.image", "inference.modelDownload.image"),
)


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("https://registry.example.com/a", False),
        ("registry.example.com//a", False),
        ("registry.example.com:a/b/c:1", False),
        ("localhost:5000/a", True),
        ("registry.example.com/a/b-c", True),
    ],
)
def test_an_image_comes_from_a_host_without_a_scheme(name: str, fits: bool) -> None:
    values = at("inference.modelDownload.command", ["fetch"])
    for path in IMAGES:
        values = merge(values, at(path, name))
    if fits:
        render(values)
        return
    with pytest.raises(helm_python.HelmValuesError) as caught:
        render(values)
    for path in IMAGES:
        assert f"at '/{path.replace('.', '/')}'" in str(caught.value)


def test_other_images_have_a_tag_and_a_digest() -> None:
    digest = f"sha256:{'0' * 64}"
    for image in ("redis", f"redis@{digest}", f"host:5000/a/redis:7@{digest}"):
        render(at("redis.image", image))


@pytest.mark.parametrize("one_node", [False, True])
@pytest.mark.parametrize("claim", ["", "runs"])
def test_nodes_of_a_run_share_a_volume_that_all_may_write(one_node: bool, claim: str) -> None:
    runs = {"existingClaim": claim, "accessMode": "ReadWriteOnce"}
    run = {"kind": "Job", "nodes": 2, "run": {"file": {"name": "a"}}, "runs": runs}
    values = {"trainer": run, "oneNode": one_node}
    refused(values, "trainer.runs.accessMode: every node of trainer.nodes writes its part")


def test_lint_says_nothing_of_values_that_do_not_go_together() -> None:
    """docs/deploy_kubernetes.md says so, and puts `helm template` after `helm lint`."""
    values = at("judge.shared", "process")
    assert helm_python.lint(CHART, values)["errors"] == []
    refused(values, "judge.shared: process gives each replica")
    page = (CHART.parents[1] / "docs" / "deploy_kubernetes.md").read_text()
    assert re.search(r"^helm lint .*\nhelm template ", page, re.MULTILINE)
