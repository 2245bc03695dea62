import msgspec
import pytest

from graphmill.core.errors import Permanent, Transient
from graphmill.core.model_call import FinishReason, Image, Message, ModelResponse, Text
from graphmill.core.usage import RateLimits, Usage

USED = Usage(requests=1, input_tokens=9)
LIMITS = RateLimits(retry_after_s=1.0)


@pytest.mark.parametrize("reason", [FinishReason.STOP, FinishReason.TOOL_CALLS])
def test_an_answer_that_came_to_its_end_is_no_error(reason):
    assert ModelResponse(text="yes", finish_reason=reason).error() is None


@pytest.mark.parametrize(
    ("reason", "kind", "message"),
    [
        (
            FinishReason.LENGTH,
            Permanent,
            "the answer was cut at max_tokens; raise max_tokens, or ask for less: it ran on",
        ),
        (FinishReason.REFUSAL, Permanent, "the model refused: it ran on"),
        (FinishReason.CONTENT_FILTER, Permanent, "the provider's content filter stopped the answer: it ran on"),
        (FinishReason.OTHER, Transient, "the model stopped before the answer was complete: it ran on"),
    ],
)
def test_any_other_end_is_an_error_that_tells_what_was_used(reason, kind, message):
    error = ModelResponse(text="ye", finish_reason=reason, usage=USED, limits=LIMITS, reason="it ran on").error()
    assert (type(error), str(error), error.usage, error.limits) == (kind, message, USED, LIMITS)


def test_every_finish_reason_is_a_success_or_an_error():
    whole = [reason for reason in FinishReason if ModelResponse(text="", finish_reason=reason).error() is None]
    assert whole == [FinishReason.STOP, FinishReason.TOOL_CALLS]


def test_a_message_is_read_from_data_and_knows_its_text():
    data = {
        "role": "user",
        "content": [
            {"type": "text", "text": "what is"},
            {"type": "image", "url": "u"},
            {"type": "text", "text": "this?"},
        ],
    }
    message = msgspec.convert(data, Message)
    assert message == Message("user", (Text("what is"), Image(url="u"), Text("this?")))
    assert (message.text, Message("user", "plain").text) == ("what is\nthis?", "plain")
