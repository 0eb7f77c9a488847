"""YAML without duplicate keys: of two values for a key, the first would be lost in silence."""

from typing import Any

import yaml

_MOST_SHOWN = 80
_MERGE = "tag:yaml.org,2002:merge"


class RepeatedKey(ValueError):
    """A mapping with two values for the same key."""

    def __init__(self, key: object, line: int, first_line: int) -> None:
        self.key = str(key)[:_MOST_SHOWN]
        super().__init__(f"line {line} has the key {self.key!r} again: it stands in {first_line}")


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses duplicate keys.

    It checks while it composes: later, keys that a mapping merges (`<<`) would look like its own.
    """

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        lines: dict[object, int] = {}
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.tag != _MERGE:
                key, line = self.construct_object(key_node), key_node.start_mark.line + 1
                if key in lines:
                    raise RepeatedKey(key, line, lines[key])
                lines[key] = line
        return node


def read_strict_yaml(text: str) -> Any:
    """Return the value of a YAML text.

    Raises:
        RepeatedKey: a mapping has a key twice.
        yaml.YAMLError, ValueError, RecursionError: the text is not YAML that can be read.
    """
    return yaml.load(text, _Loader)
