"""The verdicts of lm-eval's implementation of IFEval; run by an interpreter with lm-eval.

In: JSON lines with a row of IFEval's file and its `answers`. Out: for each row a JSON line with two
lists of booleans for each answer: the instructions it follows strictly, and loosely.

The package's own `__init__` imports torch and more, none of it needed for checking: the modules
are found without it. The data of the sentence splitter comes with `llama-index-core`.
"""

import importlib
import json
import sys
import types
from importlib.metadata import distribution

_PACKAGES = {
    "lm_eval": "lm_eval",
    "lm_eval.tasks": "lm_eval/tasks",
    "lm_eval.tasks.ifeval": "lm_eval/tasks/ifeval",
}
_SPLITTER = "llama_index/core/_static/nltk_cache"


def main() -> None:
    """Answer each line of the standard input."""
    for name, folder in _PACKAGES.items():
        package = types.ModuleType(name)
        package.__path__ = [str(distribution("lm_eval").locate_file(folder))]
        sys.modules[name] = package
    data = str(distribution("llama-index-core").locate_file(_SPLITTER))
    importlib.import_module("nltk").data.path.insert(0, data)
    importlib.import_module("langdetect").DetectorFactory.seed = 0
    utils = importlib.import_module("lm_eval.tasks.ifeval.utils")
    for line in sys.stdin:
        row = json.loads(line)
        example = utils.InputExample(
            row["key"], row["instruction_id_list"], row["prompt"], row["kwargs"]
        )
        found = [
            (
                utils.test_instruction_following_strict(example, answer).follow_instruction_list,
                utils.test_instruction_following_loose(example, answer).follow_instruction_list,
            )
            for answer in row["answers"]
        ]
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
