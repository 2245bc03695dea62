"""What is known of models, and whether they answer."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from graphmill.api.complete import _Alone
from graphmill.core.errors import AttemptError
from graphmill.core.message import message_of
from graphmill.core.model_call import Message, ModelRequest
from graphmill.engine.bridge import blocking
from graphmill.graph.models.asking import told
from graphmill.graph.models.completion import complete
from graphmill.graph.models.target import Target
