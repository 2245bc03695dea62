"""The facade: what every door and every program calls."""

from graphmill.api.batch import abatch, batch
from graphmill.api.resume import aresume, aretry, resume, retry
from graphmill.api.run import arun, run

__all__ = ["abatch", "aresume", "aretry", "arun", "batch", "resume", "retry", "run"]
