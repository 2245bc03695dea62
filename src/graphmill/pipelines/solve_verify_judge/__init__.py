"""The workflow solve-verify-judge with its prompts, schemas and rubrics; docs/solve-verify-judge.md describes it."""
