"""Rules broken by other systems: each is held by the tests with its marker.

An error made once in the field is made again. A test holds a rule by
`@pytest.mark.rule("the rule's sentence")`; this file fails when the last test of a rule is gone.
"""

from tests.support.markers import sentences

RULES = (
    "runs are compared by unshaped outcomes on held-out tasks",
    "a switch of the loss changes the loss, and one without effect is seen",
    "rewards carry no noise, and a group without differences teaches nothing",
    "every action of a policy is carried out and measured, none is guessed",
    "relaxing a row never shrinks the feasible set",
    "a diagnosis is what was submitted, and no word of the reasoning",
    "no name, place or text tells the label",
    "the policy sees the whole model, over as many turns as there really were",
    "each form of diagnosis accuracy has its own name",
    "a solver out of time is a failure and never a score",
    "every cell of a benchmark is full, or nothing is made or measured",
    "a judge that says nothing has given no verdict, and is asked differently",
    "test data cannot be trained on",
    "a leak check that can find nothing fails: leaks are planted for it to find",
    "leaks are sought by words, n-grams and near duplicates, with counts and samples",
    "a sandbox that fails has judged nothing",
    "no figure is given without its interval",
    "the loss is TRL's, in every form",
    "what is trained on is as long as what was sampled",
    "a released checkpoint is trained in float32 and served in its own type",
)


def test_each_rule_is_held_by_a_test_and_each_marker_names_a_rule() -> None:
    held = sentences("rule")
    assert held.keys() == set(RULES)
