"""The search for the same instruction, or one near to it."""

from assay_trainer.demonstrations.instructions.screening.novelty import KnownInstructions

TEXT = "Write a short letter to the mayor about the broken street lamps in the old town of Bern."


def test_the_same_words_and_near_ones_are_found() -> None:
    known = KnownInstructions(0.7)
    known.add("seed 1", TEXT)
    same = known.find(TEXT.upper().replace(" ", "  "))
    assert same is not None
    assert (same.name, same.similarity) == ("seed 1", 1.0)
    near = known.find(TEXT.replace("short ", ""))
    assert near is not None
    assert 0.7 <= near.similarity < 1.0
    assert known.find("Write a long poem for the baker about fresh bread in the morning.") is None


def test_planted_near_duplicates_are_found() -> None:
    known = KnownInstructions(0.7)
    for number in range(30):
        known.add(f"{number}", f"{TEXT} Mention the {number} lamps of street number {number * 7}.")
    assert known.check() == 20


def test_of_an_instruction_of_usual_length_a_near_duplicate_is_planted() -> None:
    known = KnownInstructions(0.7)
    known.add("a", "How many blue whales swim past the old harbour of Lund in a usual spring?")
    assert known.check() == 1
