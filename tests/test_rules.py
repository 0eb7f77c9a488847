"""Rules that other systems broke, each with the tests that hold us to it.

An error that was made once in the field is made again: the rule is written down here, and this
file fails when one of its tests is gone.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
OR = "unit/reward/or_debug"

RULES: dict[str, list[str]] = {
    "runs are compared by unshaped outcomes on held-out tasks": [
        "unit/trainer/test_report.py::"
        "test_an_evaluation_counts_what_became_of_answers_and_not_their_rewards",
    ],
    "a switch of the loss changes the loss, and one without effect is seen": [
        "unit/trainer/test_trl_backend.py::"
        "test_a_clip_bound_changes_the_loss_off_policy_and_nothing_on_policy",
    ],
    "rewards carry no noise, and a group without differences teaches nothing": [
        "unit/reward/test_score.py::test_the_same_answers_get_the_same_rewards_every_time",
        f"{OR}/test_rewards.py::test_rewards_are_the_same_every_time",
        "unit/trainer/test_feed.py::test_groups_without_signal_are_replaced_up_to_the_budget",
    ],
    "every action of a policy is carried out and measured, none is guessed": [
        f"{OR}/test_rewards.py::test_every_relax_is_measured_by_the_solver",
    ],
    "relaxing a row never shrinks the feasible set": [
        f"{OR}/test_repair.py::test_a_relaxed_row_never_shrinks_the_feasible_set",
        f"{OR}/test_repair.py::test_relaxing_a_lower_side_lowers_it",
    ],
    "a diagnosis is what was submitted, and no word of the reasoning": [
        f"{OR}/test_episode.py::test_a_diagnosis_is_what_was_submitted_and_no_word_of_the_text",
    ],
    "no name, place or text tells the label": [
        f"{OR}/test_disguise.py::test_guesses_by_place_and_name_are_no_better_than_chance",
        f"{OR}/test_leakage.py::test_what_tells_the_answer_is_found",
        f"{OR}/test_leakage_of_observations.py::test_no_observation_names_a_label_whatever_is_done",
        f"{OR}/test_episode.py::test_the_irreducible_set_comes_only_when_asked_for",
    ],
    "the policy sees the whole model, over as many turns as there really were": [
        f"{OR}/test_leakage_of_observations.py::test_the_prompt_holds_the_whole_model_and_its_rules",
        f"{OR}/test_episode_metrics.py::test_invalid_turns_are_steps",
        "unit/trainer/test_episode.py::test_an_episode_goes_on_until_the_environment_ends_it",
    ],
    "each form of diagnosis accuracy has a name of its own": [
        f"{OR}/test_metrics.py::"
        "test_diagnosis_accuracy_is_recall_and_its_variants_have_names_of_their_own",
        f"{OR}/test_metrics.py::test_an_empty_truth_measures_nothing",
    ],
    "a solver out of time is a failure and never a score": [
        f"{OR}/test_rewards.py::test_a_solver_out_of_time_is_a_failure_and_not_a_score",
        f"{OR}/test_evaluation.py::test_a_solver_fault_is_a_failure_of_the_sample_and_no_miss",
    ],
    "every cell of a benchmark is full, or nothing is made or measured": [
        f"{OR}/test_folder.py::test_a_cell_that_cannot_be_filled_is_an_error_with_its_name_and_counts",
        f"{OR}/test_evaluation.py::test_a_missing_or_empty_cell_is_an_error_and_never_skipped",
    ],
    "a judge that says nothing has given no verdict, and is asked differently": [
        "unit/reward/test_score.py::test_an_abstaining_judge_is_a_failure_of_every_answer",
        "contract/test_judge.py::test_replies_in_vain_are_on_the_bill_and_kept_ones_are_not",
    ],
    "test data cannot be trained on": [
        "unit/trainer/test_dataset.py::test_tasks_that_are_not_for_training_cannot_be_trained_on",
    ],
    "a leak check that can find nothing fails: leaks are planted for it to find": [
        "unit/trainer/test_leaks.py::"
        "test_a_method_that_finds_nothing_whatever_is_there_fails_the_check",
        "unit/trainer/test_leaks.py::test_words_that_hold_on_to_case_fail_the_check",
        "unit/trainer/test_leaks.py::"
        "test_every_kind_of_leak_is_planted_and_no_planted_one_is_counted",
    ],
    "leaks are looked for by words, n-grams and near duplicates, with counts and samples": [
        "unit/trainer/test_leaks.py::test_each_method_finds_what_another_does_not_see",
        "unit/trainer/test_leaks.py::test_a_report_has_counts_samples_and_controls",
        "unit/trainer/test_leaks.py::test_a_task_of_a_template_is_found_however_often_it_leaked",
    ],
    "a sandbox that fails has judged nothing": [
        "integration/test_failures.py::test_a_sandbox_killed_under_a_group_scores_nothing_zero",
        "integration/test_failure_injection.py::"
        "test_survivors_have_the_advantages_they_would_have_without_the_failed",
    ],
    "no figure is given without its interval": [
        f"{OR}/test_intervals.py::test_a_target_is_judged_by_the_interval",
    ],
}


def names_in(file: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_held_by_tests(rule: str) -> None:
    for held_by in RULES[rule]:
        file, _, name = held_by.partition("::")
        assert name in names_in(ROOT / file), held_by
