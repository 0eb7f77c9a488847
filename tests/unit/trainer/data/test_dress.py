from assay_trainer.data.dress import versions


def test_numbers_of_lines_and_url_encoding_are_taken_off() -> None:
    assert list(versions(["a", "plain 5"])) == [["a", "plain 5"]]
    assert list(versions(["7 a\n8 b\n9 3 c", "x"]))[1] == ["a\nb\n3 c", "x"]
    assert list(versions(["1 a\n3 b\n9 c"])) == [["1 a\n3 b\n9 c"]]
    assert list(versions(["50%25 a%20b"]))[1] == ["50% a b"]
