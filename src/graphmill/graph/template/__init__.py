"""Templates: text with ``${…}`` in it, parsed once, printed back, resolved often; lookups and nothing else."""

from graphmill.graph.template.missing import Missing
from graphmill.graph.template.parser import TemplateError, is_name, parse
from graphmill.graph.template.resolver import Value, compile_params, compile_value, entries_of, look_up, text_of
from graphmill.graph.template.syntax import Literal, Lookup, Reference, Segment, Template
from graphmill.graph.template.walk import data_in

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
