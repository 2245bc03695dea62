"""Templates: text with ``${…}``, parsed once and resolved often; they look values up and do nothing else."""

from graphmill.graph.template.parser import (
    Literal,
    Placeholder,
    Reference,
    Segment,
    Template,
    TemplateError,
    is_name,
    parse,
)
from graphmill.graph.template.resolver import (
    CompiledValue,
    Missing,
    compile_params,
    compile_value,
    data_in,
    entries_of,
    look_up,
    text_of,
)

__all__ = [
    "CompiledValue",
    "Literal",
    "Missing",
    "Placeholder",
    "Reference",
    "Segment",
    "Template",
    "TemplateError",
    "compile_params",
    "compile_value",
    "data_in",
    "entries_of",
    "is_name",
    "look_up",
    "parse",
    "text_of",
]
