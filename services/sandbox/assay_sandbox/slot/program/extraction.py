"""Text of a program in a slot: it runs a caller's Python to extract programs from a completion.

It reads `given.json` and `logic.py` and writes `blocks.json`, all in the current folder.
"""

import json
from typing import Any


class CodeBlock:
    """A candidate program of a completion; the candidate with the highest priority wins."""

    def __init__(self, priority: int, code: str, language: str) -> None:
        self.priority = priority
        self.code = code
        self.language = language


def main() -> None:
    """Run the caller's Python with the names given by SandboxFusion."""
    with open("given.json") as file:
        given = json.load(file)
    with open("logic.py") as file:
        logic = file.read()
    submitted: list[CodeBlock] = []

    def extract_fenced_code(completion: str) -> list[CodeBlock]:
        return [CodeBlock(**block) for block in given["fenced"]]

    names: dict[str, Any] = {
        "CodeBlock": CodeBlock,
        "completion": given["completion"],
        "submit_code_blocks": submitted.extend,
        "extract_fenced_code": extract_fenced_code,
    }
    exec(compile(logic, "custom_extract_logic", "exec"), names)
    with open("blocks.json", "w") as file:
        json.dump([vars(block) for block in submitted], file)


if __name__ == "__main__":
    main()
