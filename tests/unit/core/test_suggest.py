from graphmill.core.suggest import file_suggestion, suggestion


def test_a_name_that_is_nearly_right_gets_the_nearest_known_one():
    assert suggestion("nods", ["name", "nodes", "outputs"]) == " (did you mean 'nodes'?)"


def test_a_name_that_is_far_from_all_gets_none():
    assert suggestion("zebra", ["name", "nodes"]) == suggestion("nodes", []) == ""


def test_a_missing_file_gets_the_nearest_beside_it(tmp_path):
    (tmp_path / "reviews.jsonl").touch()
    assert file_suggestion(tmp_path / "review.jsonl") == " (did you mean 'reviews.jsonl'?)"
    assert file_suggestion(tmp_path / "other.jsonl") == ""
    assert file_suggestion(tmp_path / "absent" / "review.jsonl") == ""
