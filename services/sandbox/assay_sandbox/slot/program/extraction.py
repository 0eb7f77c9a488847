"""Runs a caller's Python that takes programs out of a completion: the text of a program in a slot.

It reads `given.json` and `logic.py` and writes `blocks.json`, all beside it.
"""

import json
from typing import Any


class CodeBlock:
    """A program that a completion may mean; the one with the highest priority is taken."""

    def __init__(self, priority: int, code: str, language: str) -> None:
        self.priority = priority
        self.code = code
        self.language = language


def main() -> None:
    """Run the caller's Python with the names that SandboxFusion gives it."""
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
