"""Whether a right program gets full marks and a wrong one does not: reward and sandbox together."""

import json
import os
import sys
import urllib.request

request = urllib.request.Request(
    os.environ["ASSAY_REWARD_URL"] + "/v1/score",
    data=json.dumps(
        {
            "task": {
                "id": "double",
                "dataset": "helm-test",
                "role": "train",
                "rubric": "code.dense",
                "prompt": "Write double(x).",
                "tests": [{"kind": "call", "function": "double", "args": [4], "expected": 8}],
            },
            "answers": ["def double(x):\n    return x * 2", "def double(x):\n    return 0"],
        }
    ).encode(),
    headers={
        "content-type": "application/json",
        "authorization": "Bearer " + os.environ.get("ASSAY_REWARD_TOKEN", ""),
    },
)
with urllib.request.urlopen(request, timeout=120) as response:
    rewards = json.load(response)["rewards"]
print(json.dumps(rewards))
if [reward.get("outcome") for reward in rewards] != ["accepted", "wrong_answer"]:
    sys.exit("these are not the outcomes of a right and a wrong program")
