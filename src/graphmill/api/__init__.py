"""The facade: what every door and every program calls."""

from graphmill.api.batch import abatch, batch
from graphmill.api.resume import aresume, aretry, resume, retry

__all__ = ["abatch", "aresume", "aretry", "batch", "resume", "retry"]
