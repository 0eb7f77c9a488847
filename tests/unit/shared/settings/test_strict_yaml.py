"""YAML without duplicate keys."""

import pytest
import yaml

from assay_shared.settings.strict_yaml import RepeatedKey, read_strict_yaml


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("a: 1\nb: 2\na: 3", "a"),
        ("a: [{b: 1, b: 1}]", "b"),
        ("'a': 1\na: 2", "a"),
        ("1: a\n0x1: b", "1"),
    ],
)
def test_a_key_that_stands_twice_is_refused(text: str, key: str) -> None:
    with pytest.raises(RepeatedKey) as raised:
        read_strict_yaml(text)
    assert raised.value.key == key


@pytest.mark.parametrize(
    "text",
    [
        "a: {x: 1}\nb: {x: 1}",
        "1: a\n'1': b",
        "base: &base {x: 1}\nown: {<<: *base, x: 2}\nmore: {<<: *base, y: 1}",
        "a: {deep: &a {<<: &b {x: 1}, x: 2}}\nc: {<<: *a, x: 3}",
        "",
    ],
)
def test_other_keys_are_read_as_ever(text: str) -> None:
    assert read_strict_yaml(text) == yaml.safe_load(text)


def test_a_key_that_overrides_a_merged_one_counts() -> None:
    found = read_strict_yaml("base: &base {x: 1}\nown: {<<: *base, x: 2}")
    assert found["own"] == {"x": 2}
