"""What the real APIs answer, written from their documentation: a success, errors, and the odd ends of an answer."""

from dataclasses import dataclass, field

OPENAI_ANSWER = {
    "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
    "object": "chat.completion",
    "created": 1741569952,
    "model": "gpt-5-mini-2025-08-07",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Paris.", "refusal": None, "annotations": []},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {
        "prompt_tokens": 1200,
        "completion_tokens": 310,
        "total_tokens": 1510,
        "prompt_tokens_details": {"cached_tokens": 1024, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 256,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    },
    "service_tier": "default",
    "system_fingerprint": "fp_fc9f1d7035",
}
ANTHROPIC_ANSWER = {
    "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5-20250929",
    "content": [{"type": "text", "text": "Paris."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 176,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 1024,
        "output_tokens": 310,
    },
}
GEMINI_ANSWER = {
    "candidates": [
        {
            "content": {"parts": [{"text": "thinking it over", "thought": True}, {"text": "Paris."}], "role": "model"},
            "finishReason": "STOP",
            "index": 0,
            "avgLogprobs": -0.05,
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 1300,
        "candidatesTokenCount": 54,
        "totalTokenCount": 1610,
        "cachedContentTokenCount": 1024,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1042}, {"modality": "IMAGE", "tokenCount": 258}],
        "thoughtsTokenCount": 256,
    },
    "modelVersion": "gemini-2.5-flash",
    "responseId": "mAitaLmkHPPlz7IPvtfUqQ4",
}


def changed(data, *way, to):
    """Copy data with one entry changed."""
    if not way:
        return to
    first, *rest = way
    if isinstance(data, list):
        return [changed(entry, *rest, to=to) if number == first else entry for number, entry in enumerate(data)]
    return {**data, first: changed(data.get(first), *rest, to=to)}


def google_error(status, word, message, details=()):
    return status, {"error": {"code": status, "message": message, "status": word, "details": list(details)}}


def anthropic_error(status, word, message, **more):
    return status, {
        "type": "error",
        "error": {"type": word, "message": message, **more},
        "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy",
    }


def openai_error(status, word, code, message, param=None):
    return status, {"error": {"message": message, "type": word, "param": param, "code": code}}


@dataclass
class Api:
    """One API as the suite knows it: ``errors`` by what they mean, ``ends`` by the finish reason they stand for."""

    answer: dict
    usage: dict
    errors: dict
    ends: dict
    empty: dict
    error_in_answer: dict
    models: dict
    path: str
    key_header: str
    limit_headers: dict = field(default_factory=dict)


OPENAI = Api(
    answer=OPENAI_ANSWER,
    usage={"input_tokens": 1200, "output_tokens": 310, "cached_tokens": 1024, "reasoning_tokens": 256},
    errors={
        "throttled": openai_error(
            429,
            "requests",
            "rate_limit_exceeded",
            "Rate limit reached for gpt-5-mini in organization org-x on requests per min (RPM): Limit 3, Used 3, Requested 1. "
            "Please try again in 20s. Visit https://platform.openai.com/account/rate-limits to learn more.",
        ),
        "overloaded": openai_error(
            503, "server_error", None, "The engine is currently overloaded, please try again later"
        ),
        "server_error": openai_error(
            500, "server_error", None, "The server had an error while processing your request. Sorry about that!"
        ),
        "no_credit": openai_error(
            429,
            "insufficient_quota",
            "insufficient_quota",
            "You exceeded your current quota, please check your plan and billing details.",
        ),
        "key_refused": openai_error(
            401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided: sk-ab********cdef."
        ),
        "model_missing": openai_error(
            404,
            "invalid_request_error",
            "model_not_found",
            "The model `gpt-9` does not exist or you do not have access to it.",
        ),
        "too_long": openai_error(
            400,
            "invalid_request_error",
            "context_length_exceeded",
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 411525 tokens.",
            "messages",
        ),
    },
    ends={
        "length": changed(OPENAI_ANSWER, "choices", 0, "finish_reason", to="length"),
        "refusal": changed(
            OPENAI_ANSWER, "choices", 0, "message", to={"role": "assistant", "content": None, "refusal": "I can not."}
        ),
        "content_filter": changed(OPENAI_ANSWER, "choices", 0, "finish_reason", to="content_filter"),
        "other_end": changed(OPENAI_ANSWER, "choices", 0, "finish_reason", to=None),
    },
    empty=changed(OPENAI_ANSWER, "choices", to=[]),
    error_in_answer={"error": {"message": "Provider returned error", "code": 502, "metadata": {"provider_name": "x"}}},
    models={"object": "list", "data": [{"id": "gpt-5-mini", "object": "model"}, {"id": "o4-mini", "object": "model"}]},
    path="/v1/chat/completions",
    key_header="authorization",
    limit_headers={
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-limit-tokens": "150000",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-remaining-tokens": "149984",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-reset-tokens": "6m0s",
    },
)
ANTHROPIC = Api(
    answer=ANTHROPIC_ANSWER,
    usage={"input_tokens": 1300, "output_tokens": 310, "cached_tokens": 1024, "cache_written_tokens": 100},
    errors={
        "throttled": anthropic_error(
            429,
            "rate_limit_error",
            "This request would exceed your organization's rate limit of 50,000 input tokens per minute.",
        ),
        "overloaded": anthropic_error(529, "overloaded_error", "Overloaded"),
        "server_error": anthropic_error(500, "api_error", "Internal server error"),
        "no_credit": anthropic_error(
            400,
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.",
        ),
        "key_refused": anthropic_error(401, "authentication_error", "invalid x-api-key"),
        "model_missing": anthropic_error(404, "not_found_error", "model: claude-9"),
        "too_long": anthropic_error(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    },
    ends={
        "length": changed(ANTHROPIC_ANSWER, "stop_reason", to="max_tokens"),
        "refusal": {**ANTHROPIC_ANSWER, "content": [], "stop_reason": "refusal"},
        "content_filter": None,
        "other_end": changed(ANTHROPIC_ANSWER, "stop_reason", to="pause_turn"),
    },
    empty=changed(ANTHROPIC_ANSWER, "content", to=[]),
    error_in_answer=anthropic_error(200, "api_error", "Internal server error")[1],
    models={"data": [{"type": "model", "id": "gpt-5-mini"}, {"type": "model", "id": "o4-mini"}], "has_more": False},
    path="/v1/messages",
    key_header="x-api-key",
    limit_headers={
        "date": "Mon, 16 Nov 2026 10:00:00 GMT",
        "anthropic-ratelimit-requests-limit": "60",
        "anthropic-ratelimit-requests-remaining": "59",
        "anthropic-ratelimit-requests-reset": "2026-11-16T10:00:01Z",
        "anthropic-ratelimit-tokens-limit": "150000",
        "anthropic-ratelimit-tokens-remaining": "149984",
        "anthropic-ratelimit-tokens-reset": "2026-11-16T10:06:00Z",
    },
)
_GOOGLE = "type.googleapis.com/google.rpc."
GEMINI = Api(
    answer=GEMINI_ANSWER,
    usage={
        "input_tokens": 1300,
        "output_tokens": 310,
        "cached_tokens": 1024,
        "reasoning_tokens": 256,
        "image_tokens": 258,
    },
    errors={
        "throttled": google_error(
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota, please check your plan and billing details.",
            [
                {
                    "@type": f"{_GOOGLE}QuotaFailure",
                    "violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel", "quotaValue": "10"}],
                },
                {"@type": f"{_GOOGLE}RetryInfo", "retryDelay": "38s"},
            ],
        ),
        "overloaded": google_error(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
        "server_error": google_error(500, "INTERNAL", "An internal error has occurred. Please retry."),
        "no_credit": google_error(
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota.",
            [
                {
                    "@type": f"{_GOOGLE}QuotaFailure",
                    "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}],
                }
            ],
        ),
        "key_refused": google_error(
            400,
            "INVALID_ARGUMENT",
            "API key not valid. Please pass a valid API key.",
            [{"@type": f"{_GOOGLE}ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}],
        ),
        "model_missing": google_error(404, "NOT_FOUND", "models/gemini-9 is not found for API version v1beta."),
        "too_long": google_error(
            400,
            "INVALID_ARGUMENT",
            "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).",
        ),
    },
    ends={
        "length": changed(GEMINI_ANSWER, "candidates", 0, "finishReason", to="MAX_TOKENS"),
        "refusal": None,
        "content_filter": {
            "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
            "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
            "modelVersion": "gemini-2.5-flash",
        },
        "other_end": changed(GEMINI_ANSWER, "candidates", 0, "finishReason", to="MALFORMED_FUNCTION_CALL"),
    },
    empty={"usageMetadata": {"promptTokenCount": 9}, "modelVersion": "gemini-2.5-flash"},
    error_in_answer=google_error(500, "INTERNAL", "An internal error has occurred.")[1],
    models={"models": [{"name": "models/gpt-5-mini"}, {"name": "models/o4-mini"}]},
    path="/v1/models/gpt-5-mini:generateContent",
    key_header="x-goog-api-key",
)
APIS = {"openai": OPENAI, "anthropic": ANTHROPIC, "gemini": GEMINI}
