import json

from hypothesis import given
from hypothesis import strategies as st

from graphmill.core.model_call import Image, Message, ModelRequest
from graphmill.providers.concealing import without_secrets

words = st.text(st.sampled_from("abcdefé"), min_size=16, max_size=40)
letters = st.text(st.sampled_from("abcdef \n\"'é"), max_size=60)


def told(text, *secrets, prompt=None):
    request = None if prompt is None else ModelRequest(model="m", messages=(Message("user", prompt),))
    return without_secrets(text, secrets, request)


def test_a_key_is_hidden_whole_and_in_part():
    assert told("key sk-0123456789 is wrong", "sk-0123456789") == "key … is wrong"
    assert told("key 23456789 is wrong", "sk-0123456789") == "key … is wrong"
    assert told("key 6789 is wrong", "sk-0123456789") == "key 6789 is wrong"


def test_a_prompt_is_hidden_as_it_may_be_written():
    prompt = 'Say "hello" to\nMrs Müller of Lübeck, please'
    assert "Müller" not in told(f"bad input: {prompt!r}", prompt=prompt)
    assert "bad input" in told(f"bad input: {prompt!r}", prompt=prompt)
    assert "hello" not in told('bad: Say "hello" to Mrs M', prompt=prompt)


def test_a_short_prompt_is_hidden_as_a_whole_and_words_by_chance_are_not():
    assert told("no tokens left in bucket", prompt="tokens left") == "no … in bucket"
    assert told("rate limit reached", prompt="what is a limit of a rate?") == "rate limit reached"
    assert told("a hi there", prompt="hi") == "a hi there"


def test_a_formula_is_hidden_as_it_is_and_as_json():
    prompt = r"Let $\nabla f$ be $\tau$ \text{and} \rho \beta"
    assert told(f"bad: {prompt}", prompt=prompt) == "bad: …"
    assert told(f"bad: {json.dumps(prompt)}", prompt=prompt) in ('bad: "…"', "bad: …", 'bad: …"', 'bad: "…')


def test_an_image_is_a_part_of_the_prompt():
    parts = (Image(data="iVBORw0KGgoAAAANSUhEUgAA" * 1000), Image(url="https://example.org/private/a.png"))
    request = ModelRequest(model="m", messages=(Message("user", parts),))
    text = "bad image data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAiVB or https://example.org/private/a.png"
    assert without_secrets(text, (), request) == "bad image data:image/png;base64,… or …"


@given(
    letters,
    letters,
    letters,
    words,
    st.sampled_from([str, repr, json.dumps, lambda text: json.dumps(text, ensure_ascii=False)]),
)
def test_no_part_that_is_long_enough_is_ever_left_however_it_is_written(before, after, rest, secret, written):
    text = told(f"{before}{written(secret)}{after}", prompt=f"{rest}{secret}{rest}")
    assert secret not in text
    assert written(secret)[2:-2] not in text
    assert not any(
        text[at : at + 16] in f"{rest}{secret}{rest}"
        for at in range(len(text) - 15)
        if len("".join(text[at : at + 16].split())) == 16
    )
