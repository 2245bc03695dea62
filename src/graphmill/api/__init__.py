"""The facade: what every door and every program calls."""

from graphmill.api.batch import abatch, batch
from graphmill.api.resume import aresume, aretry, resume, retry
from graphmill.api.run import arun, run
from graphmill.api.score import ascore, score
from graphmill.api.stream import stream

__all__ = ["abatch", "aresume", "aretry", "arun", "ascore", "batch", "resume", "retry", "run", "score", "stream"]
