"""Templates: text with ``${…}`` in it, parsed once, printed back, resolved often; lookups and nothing else."""

from graphmill.graph.template.lookup import Missing, data_in
from graphmill.graph.template.parser import Literal, Lookup, Reference, Segment, Template, TemplateError, is_name, parse
from graphmill.graph.template.resolver import Value, compile_params, compile_value, entries_of, look_up, text_of

__all__ = [
    "Literal",
    "Lookup",
    "Missing",
    "Reference",
    "Segment",
    "Template",
    "TemplateError",
    "Value",
    "compile_params",
    "compile_value",
    "data_in",
    "entries_of",
    "is_name",
    "look_up",
    "parse",
    "text_of",
]
