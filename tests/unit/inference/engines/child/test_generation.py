"""A request in several calls, of a vLLM under the test's orders."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

from assay_inference.engines.child.generation import ChildGeneration
from assay_inference.engines.child.http import Drawn
from assay_inference.engines.vllm.child import VllmReplica
from assay_shared.errors import EngineFault, NotReady
from assay_shared.types import FinishReason, PolicyVersion, SamplingParams, VersionSpan

OLD, NEW = (PolicyVersion(version=number, digest=f"d{number}") for number in (1, 2))


class Letters:
    """Ids are the letters' own numbers."""

    end_ids = frozenset({0})

    def decode(self, token_ids: list[int]) -> str:
        return "".join(map(chr, token_ids))


@dataclass
class ScriptedApi:
    """Answers each call with the next of its texts; a text with `|` at its end was given up."""

    texts: list[str]
    asked: list[tuple[list[int], SamplingParams]] = field(default_factory=list)

    async def generate(
        self, prompt: list[int], sampling: SamplingParams, ends: frozenset[int], timeout_s: float
    ) -> list[Drawn]:
        self.asked.append((prompt, sampling))
        return [self._next(sampling) for _ in range(sampling.n)]

    def _next(self, sampling: SamplingParams) -> Drawn:
        text = self.texts.pop(0)
        ids = list(map(ord, text.rstrip("|")))
        reason = None if text.endswith("|") else FinishReason.LENGTH
        return Drawn(ids, [-1.0] * len(ids), reason)


def replica(api: ScriptedApi, policy: PolicyVersion) -> VllmReplica:
    checkpoint = SimpleNamespace(vocabulary=Letters(), policy=policy)
    return cast(VllmReplica, SimpleNamespace(api=api, checkpoint=checkpoint))


async def test_each_sample_goes_on_by_itself_with_what_is_left() -> None:
    api = ScriptedApi(["ab|", "cdefgh", "|", "ijklmn", "opqrstuv"])
    sampling = SamplingParams(n=3, max_tokens=8, seed=5)
    drawing = ChildGeneration([1], sampling, None, 1.0)
    await drawing.go_on(replica(api, OLD))
    assert not drawing.is_finished
    await drawing.go_on(replica(api, NEW))
    assert drawing.is_finished
    assert api.asked[0] == ([1], sampling)
    (prompt, first), (other_prompt, third) = api.asked[1:]
    assert prompt == [1, *map(ord, "ab")]
    assert other_prompt == [1]
    assert (first.n, first.max_tokens, third.max_tokens) == (1, 6, 8)
    assert len({sampling.seed, first.seed, third.seed}) == 3, "no seed is used twice"
    a, b, c = drawing.completions()
    assert (a.text, b.text, c.text) == ("abijklmn", "cdefgh", "opqrstuv")
    assert a.versions == (
        VersionSpan(policy=OLD, num_tokens=2),
        VersionSpan(policy=NEW, num_tokens=6),
    )
    assert (a.policy, b.policy, c.policy) == (NEW, OLD, NEW)
    assert b.versions == c.versions == (), "one version drew all"


async def test_a_stop_string_across_the_seam_ends_the_sample_there() -> None:
    api = ScriptedApi(["abST|", "OPxyz"])
    drawing = ChildGeneration([1], SamplingParams(max_tokens=9, stop=("STOP",)), None, 1.0)
    await drawing.go_on(replica(api, OLD))
    await drawing.go_on(replica(api, NEW))
    (completion,) = drawing.completions()
    assert completion.text == "ab"
    assert completion.finish_reason is FinishReason.STOP
    assert Letters().decode(list(completion.token_ids)) == "abSTOP"
    assert len(completion.logprobs) == 6
    assert [span.num_tokens for span in completion.versions] == [4, 2]


async def test_a_redraw_starts_anew_so_often_and_then_no_more() -> None:
    api = ScriptedApi(["ab|"] * 40)
    drawing = ChildGeneration([1], SamplingParams(max_tokens=9), None, 1.0)
    for _ in range(16):
        await drawing.go_on(replica(api, OLD))
        drawing.redraw()
    with pytest.raises(NotReady, match="new weights came 16 times") as raised:
        drawing.redraw()
    assert raised.value.retryable
    assert {tuple(prompt) for prompt, _ in api.asked} == {(1,)}


@pytest.mark.parametrize("rule", [{"presence_penalty": 1.0}, {"min_tokens": 4}])
async def test_what_counts_its_own_tokens_is_drawn_whole_under_new_weights(
    rule: dict[str, float],
) -> None:
    """The server would read earlier tokens as a part of the prompt."""
    api = ScriptedApi(["ab|", "cdefgh"])
    drawing = ChildGeneration(
        [1], SamplingParams.model_validate(rule | {"max_tokens": 6}), None, 1.0
    )
    await drawing.go_on(replica(api, OLD))
    await drawing.go_on(replica(api, NEW))
    (completion,) = drawing.completions()
    assert (completion.text, completion.policy, completion.versions) == ("cdefgh", NEW, ())
    assert [prompt for prompt, _ in api.asked] == [[1], [1]]


@pytest.mark.parametrize(("text", "stop"), [("ab\0", ()), ("abST", ("ST",))])
async def test_what_ends_at_the_limit_has_come_to_its_end(text: str, stop: tuple[str, ...]) -> None:
    drawing = ChildGeneration([1], SamplingParams(max_tokens=len(text), stop=stop), None, 1.0)
    await drawing.go_on(replica(ScriptedApi([text]), OLD))
    (completion,) = drawing.completions()
    assert completion.finish_reason is FinishReason.STOP
    assert len(completion.token_ids) == len(text)


async def test_log_probabilities_that_are_no_numbers_are_a_fault_and_no_sample() -> None:
    class Overflowing(ScriptedApi):
        def _next(self, sampling: SamplingParams) -> Drawn:
            return Drawn([97], [float("nan")], FinishReason.LENGTH)

    drawing = ChildGeneration([1], SamplingParams(max_tokens=1), None, 1.0)
    with pytest.raises(EngineFault, match="version 1 gives log-probabilities") as fault:
        await drawing.go_on(replica(Overflowing([]), OLD))
    assert fault.value.retryable
