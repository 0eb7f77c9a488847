"""The scripted model over HTTP: each asker gets the script from its beginning."""

import json
import urllib.error
import urllib.request

from assay_shared.tryout.given import ScriptedReply, TrialAnswer, TrialGroup
from assay_shared.tryout.judging_model import JudgingModel
from assay_shared.types import Label, Task
from assay_shared.verdicts.compared import Nature


def group() -> TrialGroup:
    script = (
        ScriptedReply(trouble="empty"),
        ScriptedReply(trouble="busy"),
        ScriptedReply(trouble="cut"),
        ScriptedReply(says=Label.INCORRECT, thinks="CORRECT?"),
    )
    right = (ScriptedReply(says=Label.CORRECT),)
    answers = (
        TrialAnswer(nature=Nature.WRONG, note="n", text="a sieve", judge=script),
        TrialAnswer(nature=Nature.RIGHT, note="n", text="the reference", judge=right),
    )
    return TrialGroup(name="g", task=Task(prompt="p", rubric="qa"), answers=answers)


def ask(model: JudgingModel, asker: str, prompt: str) -> tuple[int, str, str]:
    """Return status, content and finish reason."""
    body = json.dumps({"messages": [{"role": "user", "content": prompt}]}).encode()
    request = urllib.request.Request(f"{model.url(asker)}/chat/completions", body)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            choice = json.load(answer)["choices"][0]
            return 200, choice["message"]["content"], choice["finish_reason"]
    except urllib.error.HTTPError as error:
        return error.code, "", ""


def test_replies_come_in_order_for_each_asker_and_the_last_is_repeated() -> None:
    prompt = "the reference\n\na sieve"
    with JudgingModel([group()]) as model:
        got = [ask(model, "judge", prompt) for _ in range(5)]
        assert [one[0] for one in got] == [200, 503, 200, 200, 200]
        assert got[0][1:] == ("", "stop")
        assert got[2][1].startswith("<think>")
        assert got[2][2] == "length"
        assert json.loads(got[3][1].partition("</think>")[2])["verdict"] == "INCORRECT"
        assert got[4] == got[3]
        assert ask(model, "usual", prompt)[1:] == ("", "stop"), "another asker begins again"
        assert "CORRECT" in ask(model, "usual", "a sieve; the reference")[1], "the last one counts"
        assert ask(model, "usual", "nothing known")[0] == 400
