from graphmill.report.output_text import output_text


def test_one_text_is_given_as_it_is():
    assert output_text({"only": "two\nlines"}) == "two\nlines"
    assert output_text("plain") == "plain"


def test_several_values_stand_by_name():
    assert output_text({"a": "x", "b": 2, "c": None, "d": True}) == "a: x\nb: 2\nc: null\nd: true"
    assert output_text({"a": "x\ny", "b": []}) == "a: \n  x\n  y\nb: []"


def test_what_is_nested_is_indented_json():
    assert output_text({"a": {"é": [1]}}) == 'a: {\n  "é": [\n    1\n  ]\n}'
    assert output_text([1]) == "[\n  1\n]"
    assert output_text({}) == ""
