"""The workflow language: documents, grammar, reader, problems."""
