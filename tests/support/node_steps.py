"""Short ways to check and run one step of a node type from a test, without a workflow around it."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest

import graphmill as gm
from graphmill.graph.node_params import param_problems
from graphmill.graph.node_type import Context, Output, ParamError, Site
from graphmill.graph.registry import find_node_type
from graphmill.graph.run.step import read_params

SITE = Site(id="n")
ONCE = gm.Policy(retry=gm.Retry(attempts=1))


def check(type_name, **params):
    """Check params as written, as the compiler does."""
    node_type = find_node_type(type_name)
    assert param_problems(node_type, params) == []
    node_type.check(params, SITE)


def problem_of(type_name, **params):
    """Give place and message of the problem that a type finds in params."""
    with pytest.raises(ParamError) as caught:
        check(type_name, **params)
    return caught.value.at, str(caught.value)


def call_of(type_name, **params):
    """Give how a step with these params is run."""
    node_type = find_node_type(type_name)
    return node_type.call(read_params(node_type, params), Context("n"))


def output_of_step(type_name, **params):
    """Run a step that runs in place; give its output."""
    call = call_of(type_name, **params)
    assert call.isolation is None
    made = asyncio.run(call.function(call.value))
    return Output(made) if isinstance(made, Mapping) else made


def result_of_step(type_name, *, policy=ONCE, **params):
    """Run a step as the job of a batch, in place or in a worker process as its type says; give the result."""
    call = call_of(type_name, **params)
    (result,) = gm.batch(call.function, [call.value], policy=replace(policy, isolation=call.isolation)).results()
    return result
