from assay_trainer.data.options import set_hash, windows


def test_options_of_consecutive_lines_are_sets() -> None:
    text = "1. What is it?\nA. One\n\n(B) two!\nAnswer: A\n- three\n* one"
    found = set(windows(text, [2]))
    assert found == {
        set_hash(["What is it?", "One"]),
        set_hash(["two", "one"]),
        set_hash(["one", "three"]),
    }
    assert list(windows("A. one\nNothing else", [2])) == []


def test_options_of_signs_are_told_apart() -> None:
    assert set_hash(["+", "-"]) == set_hash(["-", " +"]) != set_hash(["+", "*"])
