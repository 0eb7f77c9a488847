"""Episodes of several turns, with a policy and an environment under the test's orders."""

import pytest
from pydantic import ValidationError

from assay_shared.errors import AssayError, InvalidInput, NotFound, Overloaded, TimedOut
from assay_shared.types import (
    Answer,
    EnvironmentTask,
    FailureClass,
    GenerateRequest,
    GenerateResponse,
    GroupRequest,
    Message,
    PolicyVersion,
    Rollout,
    RolloutSpan,
    SamplingParams,
    Scored,
    StepRequest,
    StepResponse,
    Unscored,
    VersionSpan,
)
from assay_trainer.rollouts.worker import run_group
from tests.support.fakes import (
    POLICY,
    FakeGenerator,
    FakeRewarder,
    make_completion,
    make_rollout,
    make_task,
)

REQUEST = GroupRequest(
    key="k",
    run="run",
    task=make_task(environment=EnvironmentTask(name="echo", instance={}, max_turns=3)),
    sampling=SamplingParams(n=2, seed=1),
)


class TalkingGenerator(FakeGenerator):
    """First its given texts, a text per sample; then `replies` to an observation's last word.

    A further message takes two ids.
    """

    def __init__(self, texts: list[str], replies: dict[str, str], context: int = 100) -> None:
        super().__init__(texts)
        self.replies = replies
        self.context = context

    async def generate(self, request: GenerateRequest) -> GenerateResponse:
        if request.token_ids is None:
            return await super().generate(request)
        self.requests.append(request)
        if len(request.token_ids) > self.context:
            raise InvalidInput("no room", field="sampling.max_tokens")
        (message,) = request.then
        text = self.replies[message.content.split()[-1]]
        ids = (*request.token_ids, 90, 91)
        completion = make_completion(text, self.policy)
        return GenerateResponse(prompt_token_ids=ids, completions=(completion,))


@pytest.mark.rule("the policy sees the whole model, over as many turns as there really were")
async def test_an_episode_goes_on_until_the_environment_ends_it() -> None:
    generator = TalkingGenerator(["go", "stop"], {"go": "stop"})
    rewarder = FakeRewarder({})
    scored = await run_group(REQUEST, generator, rewarder, "w")
    long, short = scored.group.rollouts
    assert [turn.text for turn in long.turns] == ["go", "stop"]
    assert [turn.observation for turn in long.turns] == ["you said go", "you said stop"]
    assert long.token_ids == (5, 6, 90, 91, 5, 6)
    assert long.logprobs == (-0.5, -0.25, 0.0, 0.0, -0.5, -0.25)
    assert long.sampled_mask == (True, True, False, False, True, True)
    assert [(turn.start, turn.end) for turn in long.turns] == [(0, 2), (4, 6)]
    assert (short.token_ids, len(short.turns)) == ((5, 6), 1)
    assert rewarder.requests[0].answers == (
        Answer(text=("go", "stop"), num_tokens=4, truncated=False),
        Answer(text=("stop",), num_tokens=2, truncated=False),
    )
    assert rewarder.requests[0].run == "run"
    further = generator.requests[1]
    assert further.token_ids == (1, 2, 3, 5, 6), "what was sampled is sent as it was"
    assert further.then == (Message(role="user", content="you said go"),)
    assert further.sampling.n == 1


async def test_turns_have_a_limit_and_seeds_of_their_own() -> None:
    generator = TalkingGenerator(["go"], {"go": "go"})
    scored = await run_group(REQUEST, generator, FakeRewarder({}), "w")
    assert [len(completion.turns) for completion in scored.group.rollouts] == [3, 3]
    assert scored.group.rollouts[0].turns[-1].observation == ""
    seeds = [request.sampling.seed for request in generator.requests]
    assert len(seeds) == len(set(seeds)) == 5
    again = TalkingGenerator(["go"], {"go": "go"})
    await run_group(REQUEST, again, FakeRewarder({}), "w")
    assert {request.sampling.seed for request in again.requests} == set(seeds)


async def test_an_episode_that_fills_the_context_ends_there_and_is_scored() -> None:
    generator = TalkingGenerator(["go"], {"go": "go"}, context=5)
    scored = await run_group(REQUEST, generator, FakeRewarder({}), "w")
    assert [len(completion.turns) for completion in scored.group.rollouts] == [2, 2]
    assert all(isinstance(reward, Scored) for reward in scored.rewards)


class FailingRewarder(FakeRewarder):
    """Its environment fails the episodes with `fail`."""

    def __init__(self, error: AssayError) -> None:
        super().__init__({})
        self.failure = error

    async def step(self, request: StepRequest) -> StepResponse:
        if request.turns[-1] == "fail":
            raise self.failure
        return await super().step(request)


async def test_an_episode_that_breaks_off_has_no_reward_and_spoils_no_other() -> None:
    rewarder = FailingRewarder(TimedOut("the solver took too long", service="reward"))
    scored = await run_group(REQUEST, TalkingGenerator(["stop", "fail"], {}), rewarder, "w")
    whole, broken = scored.rewards
    assert isinstance(whole, Scored)
    assert isinstance(broken, Unscored)
    assert broken.failure.failure_class is FailureClass.NETWORK
    assert [answer.text for answer in rewarder.requests[0].answers] == [("stop",)]
    assert len(scored.group.rollouts) == 2


async def test_a_group_of_broken_episodes_alone_asks_for_no_score() -> None:
    rewarder = FailingRewarder(Overloaded("full"))
    scored = await run_group(REQUEST, TalkingGenerator(["fail"], {}), rewarder, "w")
    assert scored.failure is None
    assert [type(reward) for reward in scored.rewards] == [Unscored, Unscored]
    assert rewarder.requests == []


async def test_a_task_that_can_never_be_played_fails_as_a_group() -> None:
    rewarder = FailingRewarder(NotFound("no environment is called echo"))
    scored = await run_group(REQUEST, TalkingGenerator(["fail"], {}), rewarder, "w")
    assert scored.failure is not None
    assert not scored.failure.retryable


async def test_an_episode_tells_which_version_sampled_which_tokens() -> None:
    class Updated(TalkingGenerator):
        async def generate(self, request: GenerateRequest) -> GenerateResponse:
            response = await super().generate(request)
            self.policy = PolicyVersion(version=2, digest="d2")
            return response

    scored = await run_group(REQUEST, Updated(["go"], {"go": "stop"}), FakeRewarder({}), "w")
    spans = scored.group.rollouts[0].spans
    assert [(span.policy and span.policy.version, span.num_tokens) for span in spans] == [
        (1, 2),
        (None, 2),
        (2, 2),
    ]


async def test_two_versions_within_a_turn_stay_apart() -> None:
    newer = PolicyVersion(version=2, digest="d2")
    mixed = tuple(VersionSpan(policy=by, num_tokens=1) for by in (POLICY, newer))

    class Updated(TalkingGenerator):
        """New weights take over while it samples a reply."""

        async def generate(self, request: GenerateRequest) -> GenerateResponse:
            response = await super().generate(request)
            late = {"policy": newer, "versions": mixed}
            completions = tuple(one.model_copy(update=late) for one in response.completions)
            return response.model_copy(update={"completions": completions})

    scored = await run_group(REQUEST, Updated(["go"], {"go": "stop"}), FakeRewarder({}), "w")
    rollout = scored.group.rollouts[0]
    assert [(span.policy, span.num_tokens) for span in rollout.spans] == [
        (POLICY, 1),
        (newer, 1),
        (None, 2),
        (POLICY, 1),
        (newer, 1),
    ]
    assert rollout.policies == {POLICY, newer}
    assert rollout.sampled_mask == (True, True, False, False, True, True)
    assert rollout.mask(lambda policy: policy == newer) == (
        *(False, True),
        *(False, False),
        *(False, True),
    )


def test_the_spans_of_a_rollout_add_up_to_its_tokens() -> None:
    whole = make_rollout()
    spans = (*whole.spans, RolloutSpan(policy=None, num_tokens=1))
    with pytest.raises(ValidationError, match="the spans must add up to the tokens"):
        Rollout.model_validate(whole.model_dump() | {"spans": spans})
