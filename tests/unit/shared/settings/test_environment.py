"""Settings from the environment and from files: tokens of services, keys of clients."""

from pathlib import Path

import pytest

from assay_inference.settings import InferenceSettings
from assay_sandbox.settings import SandboxSettings
from assay_shared.clients import JudgeClient, RewardClient
from assay_shared.errors import ConfigError
from assay_shared.settings.api_keys import Scope
from assay_shared.settings.environment import OWN, ServiceSettings, read_settings
from assay_shared.settings.secret_files import IN_FILES

ROOT = Path(__file__).parents[4]
SERVICES = ("inference", "sandbox", "judge", "reward", "trainer")


@pytest.mark.parametrize("service", SERVICES)
def test_a_services_own_token_stands_in_place_of_the_common_one(
    monkeypatch: pytest.MonkeyPatch, service: str
) -> None:
    assert read_settings(ServiceSettings).token_of(service) is None
    monkeypatch.setenv("ASSAY_TOKEN", "common")
    assert read_settings(ServiceSettings).token_of(service) == "common"
    monkeypatch.setenv(f"ASSAY_{service.upper()}_TOKEN", "its-own")
    settings = read_settings(ServiceSettings)
    assert settings.token_of(service) == "its-own"
    assert [key.token.get_secret_value() for key in settings.accepted_keys(service).values()] == [
        "its-own"
    ], "the common one no longer opens it"
    others = {settings.token_of(other) for other in SERVICES if other != service}
    assert others == {"common"}


def test_a_client_sends_the_token_of_the_service_that_it_calls() -> None:
    settings = ServiceSettings.model_validate({"token": "common", "judge_token": "judges"})
    assert JudgeClient.from_settings(settings)._token == "judges"
    assert RewardClient.from_settings(settings)._token == "common"


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compose and Kubernetes pass on empty variables; the example file has them so."""
    for line in (ROOT / ".env.example").read_text().splitlines():
        if line.startswith("ASSAY_"):
            name, value = line.split("#")[0].split("=", 1)
            monkeypatch.setenv(name, value.strip())
    assert read_settings(ServiceSettings).accepted_keys("judge") == {}
    assert read_settings(SandboxSettings).sandbox_slots > 0
    assert read_settings(InferenceSettings).inference_model is None


@pytest.mark.parametrize("name", IN_FILES)
def test_a_secret_may_come_as_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    values = {"client_tokens": '{"alice": "key"}', "redis_url": "redis://:word@redis:6379/0"}
    file = tmp_path / "secret"
    file.write_text(values.get(name, "a-token") + "\n")
    variable = f"ASSAY_{name.upper()}"
    monkeypatch.setenv(f"{variable}_FILE", str(file))
    settings = read_settings(ServiceSettings)
    if name == "client_tokens":
        assert settings.client_tokens["alice"].token.get_secret_value() == "key"
    elif name == "redis_url":
        assert settings.redis_url == values[name]
    else:
        assert getattr(settings, name).get_secret_value() == "a-token"
    monkeypatch.setenv(variable, "{}")
    with pytest.raises(ConfigError, match=f"{variable}_FILE: give either this or {variable}"):
        read_settings(ServiceSettings)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file"),
        (b" \n", "is empty"),
        (b"\xff\xfe", "cannot be read: it is not text"),
    ],
)
def test_a_secret_file_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None, message: str
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("ASSAY_JUDGE_TOKEN_FILE", str(file))
    with pytest.raises(ConfigError, match=f"ASSAY_JUDGE_TOKEN_FILE: {file} {message}"):
        read_settings(ServiceSettings)


def test_a_client_has_all_scopes_unless_it_is_given_some() -> None:
    settings = ServiceSettings.model_validate(
        {
            "token": "own",
            "client_tokens": {
                "alice": "a-key",
                "bob": {"token": "b-key", "scopes": ["sandbox:run"], "requests_per_minute": 60},
            },
        }
    )
    keys = settings.accepted_keys("sandbox")
    assert list(keys) == [OWN, "alice", "bob"]
    assert keys[OWN].scopes is None
    assert keys["alice"].scopes is None
    assert keys["bob"].scopes == frozenset({Scope.SANDBOX_RUN})


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("CLIENT_TOKENS", "not json sesame", "ASSAY_CLIENT_TOKENS: the value is not JSON"),
        (
            "CLIENT_TOKENS",
            '{"bob": {"token": "sesame", "scopes": ["sandbox:all"]}}',
            r"ASSAY_CLIENT_TOKENS: bob.scopes.0: Input should be 'inference:generate', ",
        ),
        (
            "CLIENT_TOKENS",
            '{"bob": {"token": "sesame", "scope": []}}',
            "bob.scope: Extra inputs are not permitted",
        ),
        (
            "CLIENT_TOKENS",
            '{"bob": {"token": "sesame", "requests_per_minute": 0}}',
            "bob.requests_per_minute: .*greater than 0",
        ),
        ("CLIENT_TOKENS", '{"a": "sesame", "b": "sesame"}', "two clients have the same token"),
        ("CLIENT_TOKENS", '{"mesh": "sesame"}', "'mesh' is not a valid client name"),
        ("CLIENT_TOKENS", '{"": "sesame"}', "'' is not a valid client name"),
        ("CLIENT_TOKENS", '{"a": "sesame sesame"}', "a.token: a token is one or more visible"),
        ("TOKEN", "sesame\u00e9", "ASSAY_TOKEN: a token is one or more visible ASCII"),
        ("REWARD_TOKEN", "sesame open", "ASSAY_REWARD_TOKEN: a token is one or more visible"),
    ],
)
def test_a_key_that_cannot_be_used_is_refused_without_being_shown(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(f"ASSAY_{variable}", value)
    with pytest.raises(ConfigError, match=message) as raised:
        read_settings(ServiceSettings)
    assert "sesame" not in f"{raised.value} {raised.value!r} {raised.value.__cause__!r}"


def test_a_client_cannot_have_the_token_of_the_service() -> None:
    values = {"judge_token": "sesame", "client_tokens": {"bob": "sesame"}}
    settings = ServiceSettings.model_validate(values)
    assert list(settings.accepted_keys("reward")) == ["bob"]
    with pytest.raises(ConfigError, match="the token of bob is also the service's own token"):
        settings.accepted_keys("judge")


def test_settings_show_no_secret() -> None:
    secrets = {name: "sesame" for name in IN_FILES if name.endswith("token")}
    settings = ServiceSettings.model_validate(
        secrets
        | {"client_tokens": {"bob": "sesame2"}, "redis_url": "redis://:sesame3@redis:6379/0"}
    )
    assert "sesame" not in f"{settings} {settings!r} {settings.accepted_keys('judge')!r}"
    assert "sesame" not in settings.model_dump_json(exclude={"redis_url"})
