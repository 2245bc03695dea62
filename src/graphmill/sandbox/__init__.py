"""The sandbox: runs untrusted programs, which can neither harm the machine nor forge their results."""
