"""The tree of a search: values, experience with edits, and the choice of a parent."""

import random
from collections import Counter

from assay_reward.workflows.search.nodes import NodeRecord, SearchTree


def tree_of(*rewards: tuple[int | None, float | None, str]) -> SearchTree:
    """A tree of nodes, each with its parent, its reward and the kind of its edit."""
    tree = SearchTree()
    for number, (parent, reward, edit) in enumerate(rewards):
        tree.add(
            NodeRecord(
                number=number, parent=parent, edit=edit, source=str(number), reward=reward,
                tokens=100 + number,
            )
        )  # fmt: skip
    return tree


def test_what_a_node_scored_is_told_to_all_above_it() -> None:
    tree = tree_of((None, 0.5, ""), (0, 0.9, "swap"), (1, 0.1, "plan"))
    assert [one.visits for one in tree.nodes] == [3, 2, 1]
    assert tree.nodes[1].value == (0.9 + 0.5) / 2
    assert tree.nodes[0].value == (0.5 + 0.5) / 2


def test_a_better_node_is_chosen_more_often_and_a_spent_one_never() -> None:
    tree = tree_of((None, 0.2, ""), (0, 0.9, "swap"), (0, 0.3, "plan"))
    rng = random.Random(1)
    chosen = Counter(node.record.number for _ in range(300) if (node := tree.select(rng)))
    assert chosen[1] > chosen[2] > 0
    assert chosen[0] > 0, "the first workflow stays among the choices"
    tree.nodes[1].is_spent = True
    later = Counter(node.record.number for _ in range(100) if (node := tree.select(rng)))
    assert set(later) == {0, 2}
    for node in tree.nodes:
        node.is_spent = True
    assert tree.select(rng) is None


def test_kinds_of_edits_that_gained_are_tried_more() -> None:
    tree = tree_of((None, 0.5, ""), (0, 0.9, "swap"), (0, 0.2, "plan"))
    gained, lost, untried = tree.weights(["swap", "plan", "review"])
    assert gained > untried > lost > 0


def test_a_node_without_a_reward_is_counted_nowhere() -> None:
    tree = tree_of((None, 0.5, ""), (0, None, "swap"))
    assert tree.nodes[0].visits == 1
    assert tree.kinds == {}
    assert [one.record.number for one in tree.best(3)] == [0]


def test_of_equal_nodes_the_cheaper_one_is_best() -> None:
    tree = tree_of((None, 0.5, ""), (0, 0.9, "swap"), (0, 0.9, "plan"))
    assert [one.record.number for one in tree.best(2)] == [1, 2]
