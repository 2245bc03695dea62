"""``graphmill models``: which models are named, where their providers are, and whether they answer."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from graphmill.api.models import Reached, Tested, reach, test
from graphmill.cli.answer import AsJson, tell, tell_json
from graphmill.cli.exit_code import ExitCode
from graphmill.core.errors import UsageError
from graphmill.graph.models.models import Models
from graphmill.report.models_page import models_lines, models_record, target_lines, target_record
from graphmill.report.text import columns

_MOST_LISTED = 20


def models(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A name, a role, or provider/model.", show_default=False)
    ] = None,
    *,
    is_reached: Annotated[
        bool, typer.Option("--check", help="Ask the providers which models they have; it costs nothing.")
    ] = False,
    is_tested: Annotated[
        bool, typer.Option("--test", help="Ask the model one short question, which is paid for.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the models that are named and the providers that are there, or show one.

    They are named in graphmill.yaml; keys come from the environment, and are never shown. Limits are those that are set, and those
    that answers have told to runs of the journal here.

    Exit status: 0 all that was asked answered, 2 usage, 69 one did not.

    Example: graphmill models openai/gpt-5-mini --test
    """
    if name is None and is_tested:
        raise UsageError("--test asks one model: name it, as in graphmill models NAME --test")
    known = Models.here()
    if name is None:
        _all(known, is_reached=is_reached, as_json=as_json)
    else:
        _one(known, name, is_reached=is_reached, is_tested=is_tested, as_json=as_json)


def _all(known: Models, *, is_reached: bool, as_json: bool) -> None:
    found = {each: reach(each) for each in _askable(known)} if is_reached else {}
    if as_json:
        tell_json(
            models_record(known)
            | ({"check": {each: _reached(way) for each, way in found.items()}} if is_reached else {})
        )
    else:
        tell(
            [
                *models_lines(known),
                *(
                    ["check", *columns([(f"  {each}", _reached_text(way)) for each, way in found.items()])]
                    if found
                    else []
                ),
            ]
        )
    _leave(any(way.problem for way in found.values()))


def _one(known: Models, name: str, *, is_reached: bool, is_tested: bool, as_json: bool) -> None:
    target = known.shown(name)
    way = reach(target.name) if is_reached else None
    tested = test(name) if is_tested else None
    if as_json:
        checks: dict[str, Any] = (
            {} if way is None else {"check": _reached(way) | {"is_listed": target.model in way.models}}
        )
        tell_json(target_record(target) | checks | ({} if tested is None else {"test": tested._asdict()}))
    else:
        rows = [] if way is None else [("  check", _listed_text(target.model, way))]
        tell(
            [
                *target_lines(name, target),
                *columns([*rows, *([] if tested is None else [("  test", _tested_text(tested))])]),
            ]
        )
    _leave(any(each is not None and bool(each.problem) for each in (way, tested)))


def _askable(known: Models) -> list[str]:
    """Name the providers that can be asked: those that are set, and those whose key is there."""
    return [name for name in known.providers if name in known.settings.providers or not known.provider(name).lacking()]


def _reached(way: Reached) -> dict[str, Any]:
    return {"problem": way.problem} if way.problem else {"models": list(way.models)}


def _reached_text(way: Reached) -> str:
    more = f" and {len(way.models) - _MOST_LISTED} more" if len(way.models) > _MOST_LISTED else ""
    return (
        way.problem
        or f"{len(way.models)} model{'' if len(way.models) == 1 else 's'}: {', '.join(way.models[:_MOST_LISTED])}{more}"
    )


def _listed_text(model: str, way: Reached) -> str:
    return way.problem or f"answers, and {'lists' if model in way.models else 'does not list'} {model}"


def _tested_text(tested: Tested) -> str:
    return (
        tested.problem or f"{tested.text!r:.80} from {tested.model}, {tested.tokens:,} tokens, {tested.seconds:.2f} s"
    )


def _leave(has_failed: bool) -> None:  # noqa: FBT001
    if has_failed:
        raise typer.Exit(ExitCode.SERVICE)
