"""Serves a scripted executor: its operators have known accuracies and tokens.

    python -m bench.scripted_executor PROBLEMS ADDRESS

PROBLEMS is a JSON list of texts with a right answer and wrong ones. ADDRESS is a file that gets the
service's address.
"""

import json
import random
import re
import socket
import sys
from pathlib import Path

import uvicorn

from assay_shared.runtime.processes import raise_descriptor_limit, tie_to_parent
from tests.support.known_executor import KnownExecutor, KnownProblem, KnownSkill

#: By the operator's prompt file; votes and `Format` make no mistakes.
SKILLS: dict[str, KnownSkill] = {
    "answer_generate": KnownSkill(0.45, 120),
    "custom": KnownSkill(0.35, 60),
    "programmer": KnownSkill(0.9, 160),
    "code_generate": KnownSkill(0.4, 200),
    "review": KnownSkill(0.7, 80),
    "revise": KnownSkill(0.55, 140),
    "reflect": KnownSkill(0.5, 200),
}
_NUMBER = re.compile(r"-?\d[\d,.]*")
_PROPOSED = "Proposed solution:\n"


class ScriptedExecutor(KnownExecutor):
    """Knows all problems of a run. A prompt without one gets a reply that answers nothing."""

    def _said(self, name: str, prompt: str, skill: KnownSkill, rng: random.Random) -> str:
        if name in ("sc_ensemble", "md_ensemble", "format"):
            return super()._said(name, prompt, skill, rng)
        problem = next((one for one in self.problems if one.text in prompt), None)
        if problem is None:
            return "unknown"
        if name == "review":
            # Of the numbers, a part of another one is not the answer.
            found = _NUMBER.findall(prompt.rpartition(_PROPOSED)[2])
            is_right = problem.right in (one.rstrip(",.") for one in found)
            seen = is_right if rng.random() < skill.accuracy else not is_right
            return "RIGHT" if seen else "WRONG: look again"
        return super()._said(name, prompt, skill, rng)


def main(problems: Path, address: Path) -> None:
    tie_to_parent()
    raise_descriptor_limit()
    known = [
        KnownProblem(text, right, tuple(wrong))
        for text, right, wrong in json.loads(problems.read_text())
    ]
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    written = address.with_suffix(".new")
    written.write_text("http://{}:{}".format(*listener.getsockname()))
    written.rename(address)
    app = ScriptedExecutor(known, SKILLS).app
    uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).run([listener])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
