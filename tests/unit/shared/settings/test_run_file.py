from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from assay_shared.errors import ConfigError
from assay_shared.settings.environment import ServiceSettings, read_settings
from assay_shared.settings.run_file import (
    Config,
    apply_override,
    load_config,
    parse_config,
    provenance,
)


class Red(Config):
    kind: Literal["red"] = "red"
    redness: int = 1


class Blue(Config):
    kind: Literal["blue"] = "blue"
    blueness: int = 2


class Section(Config):
    learning_rate: float = Field(default=0.1, gt=0)
    colour: Annotated[Red | Blue, Field(discriminator="kind")] = Red()
    layers: Literal["all"] | Annotated[tuple[str, ...], Field(min_length=1)] = "all"
    is_dry: bool = False


class Files(Config):
    one: Path
    maybe: Path | None = None
    some: tuple[Path, ...] = ()


class Pair(Config):
    a: int
    b: int


class Whole(Config):
    name: str
    section: Section = Section()
    sections: tuple[Section, ...] = ()


def test_a_path_may_begin_with_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    path = tmp_path / "files.yaml"
    path.write_text("one: ~/a\nmaybe: b/~\nsome: [~/c, d]\n")
    assert load_config(Files, path, ("maybe=~/b",)) == Files(
        one=Path("/home/ada/a"),
        maybe=Path("/home/ada/b"),
        some=(Path("/home/ada/c"), Path("d")),
    )
    assert load_config(Files, path).maybe == Path("b/~")
    with pytest.raises(ConfigError, match="one: names a home folder that is not there") as caught:
        load_config(Files, path, ("one=~nobody-of-this-name/a",))
    assert caught.value.field == "one"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text("name: demo\nsection:\n  learning_rate: 0.5\n")
    return path


def test_overrides_are_read_as_yaml(file: Path) -> None:
    config = load_config(
        Whole, file, ("section.learning_rate=1e-2", "section.colour={kind: blue, blueness: 7}")
    )
    assert config.section.learning_rate == 0.01
    assert config.section.colour == Blue(blueness=7)


def test_an_override_makes_a_section_that_the_file_sets_to_null() -> None:
    values: dict[str, object] = {"sft": None}
    apply_override(values, "sft.epochs=2")
    apply_override(values, "grpo.correction.high=3")
    assert values == {"sft": {"epochs": 2}, "grpo": {"correction": {"high": 3}}}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("nmae=x", r"nmae: unknown key in run.yaml \(did you mean name\?\)"),
        ("section.learning_rat=1", r"section.learning_rat: .* \(did you mean learning_rate\?\)"),
        ("section.zzz=1", r"section.zzz: .* \(known keys: colour, is_dry, layers, "),
        ("sections=[{learning_rat: 1}]", r"sections.0.learning_rat: .*did you mean learning_rate"),
        ("section.colour={kind: blue, bluness: 1}", r"did you mean blueness\?"),
        ("section.colour={kind: blue, redness: 1}", r"redness: unknown.*\(did you mean blueness\?"),
        ("section.colour={kind: blue, zzz: 1}", r"zzz: unknown.*\(known keys: blueness, kind\)"),
        ("section.learning_rate=-1", r"section.learning_rate: .* greater than 0, not -1 in run"),
        ("section.colour.kind=green", r"section.colour: .*'green'.*'red', 'blue'"),
        ("name.a=1", r"name.a: name is not a section"),
        ("name", r"must look like section.key=value"),
        ("name=[", r"name: '\[' is not a YAML value"),
        ("name=" + "[" * 5000, r"name: '\[+' is not a YAML value"),
        ("section.colour={kind: blue, blueness: x}", r"section.colour.blueness: .*not 'x' in"),
        ("section.layers=[]", r"^section.layers: List should have at least 1 item"),
        ("section.layers=[1]", r"^section.layers.0: .* valid string, not 1 in"),
        ("section.layers=some", r"^section.layers: .*'all' or a list, not 'some' in"),
    ],
)
def test_bad_overrides_say_what_would_be_right(file: Path, override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(Whole, file, (override,))


def test_all_keys_of_one_mistake_are_named_at_once(file: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(Whole, file, ("nmae=x", "section.learning_rat=1", "section.colour.bluness=1"))
    assert caught.value.field == "section.learning_rat"
    assert caught.value.hint == "did you mean learning_rate?; also unknown: nmae"
    many = tuple(f"key{number}=1" for number in range(9))
    with pytest.raises(ConfigError, match="also unknown: key1, key2, key3, key4, key5 and 3 more"):
        load_config(Whole, file, many)
    with pytest.raises(ConfigError, match=r"^a: missing from x \(also missing: b\)"):
        parse_config(Pair, {}, source="x")


@pytest.mark.parametrize(
    ("override", "kind"),
    [
        ("section.learning_rate=true", "number"),
        ("section.is_dry=1", "boolean"),
        ("section.is_dry='true'", "boolean"),
        ("section.colour={kind: blue, blueness: true}", "integer"),
        ("section.colour={kind: blue, blueness: 3.0}", "integer"),
        ("section.colour={kind: blue, blueness: '3'}", "integer"),
        ("name=1", "string"),
    ],
)
def test_a_value_of_another_kind_is_refused(file: Path, override: str, kind: str) -> None:
    with pytest.raises(ConfigError, match=f": Input should be a valid {kind}, not "):
        load_config(Whole, file, (override,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("section: {}", "name: missing from run.yaml"),
        ("- a", "must hold a mapping of keys, not list"),
        ("a: [", "is not YAML"),
        ("a: " + "[" * 5000, "too deeply nested"),
        ("a: 2026-99-99", "is not YAML"),
        ("name: a\nname: b", "run.yaml: line 2 has the key 'name' again: it stands in 1"),
        ("name: a\nsection: {is_dry: true, is_dry: false}", "is_dry: .* line 2 has the key"),
    ],
)
def test_bad_files_say_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_config(Whole, path)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no file .*nothing\.yaml"):
        load_config(Whole, tmp_path / "nothing.yaml")


def test_a_folder_is_refused_as_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(Whole, tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("name: demo\n", encoding="utf-8-sig")
    assert load_config(Whole, path).name == "demo"


def test_provenance_names_commit_and_packages() -> None:
    facts = provenance()
    packages = facts["packages"]
    assert isinstance(packages, dict)
    assert "pydantic" in packages
    commit = facts["git_commit"]
    assert commit is None or (isinstance(commit, str) and len(commit) == 40)


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_TOKEN", "secret-word")
    monkeypatch.setenv("ASSAY_REWARD_URL", "http://reward:1")
    settings = read_settings(ServiceSettings)
    assert settings.reward_url == "http://reward:1"
    assert "secret-word" not in repr(settings)


def test_a_bad_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_BODY_LIMIT_BYTES", "many")
    with pytest.raises(ConfigError, match="ASSAY_BODY_LIMIT_BYTES: .*integer"):
        read_settings(ServiceSettings)
