"""solve-verify-judge over a whole problem set on a bad day: answers, scores and stop reasons are those of a good day."""

import signal
from collections import Counter

from support.command import IMPATIENT, Command, answered, rows, write_items
from support.skilled_agents import FAULTS, SkilledAgents, problems

COUNT = 500
CONCURRENCY = 32


def asking(run_id):
    scored = ["--scorer", "numeric", "--scorer", "math"]
    return ["batch", "solve-verify-judge", "-s", "items.jsonl", "-c", CONCURRENCY, *scored, "--run-id", run_id]


def outcomes(project, run_id):
    """What came out of each problem, and how it was scored."""
    answered(project, "export", run_id, f"{run_id}.jsonl")
    found = rows(project / f"{run_id}.jsonl")
    assert len(found) == COUNT
    return {row["id"]: (row["output"], row["scores"]) for row in found}


def debates(project, run_id):
    """Of each problem the answers that counted, from its one trajectory."""
    answered(project, "export", run_id, f"{run_id}-debates", "--format", "trajectory")
    files = list((project / f"{run_id}-debates").iterdir())
    assert len(files) == COUNT
    found = {}
    for records in map(rows, files):
        ((run, item),) = {(record["run"], record["item"]) for record in records}
        assert run == run_id
        good = [record for record in records if record["error"] is None and record["problem"] is None]
        found[item] = Counter((record["agent"], record["round"], record["answer"]) for record in good)
    return found


def test_a_problem_set_with_every_fault_and_two_kills_comes_to_what_it_comes_to_without(tmp_path):
    write_items(tmp_path, problems(COUNT))
    with SkilledAgents() as agents:
        (tmp_path / "graphmill.yaml").write_text(agents.settings)
        answered(tmp_path, *asking("calm"), argv=IMPATIENT)
        needed = agents.answered.total()
        agents.answered.clear()
        agents.has_faults = True
        for share in (0.2, 0.6):
            with Command(tmp_path, *asking("wild"), argv=IMPATIENT) as killed:
                killed.until(lambda: agents.answered.total() >= share * needed)  # noqa: B023
                killed.send(signal.SIGKILL)
                killed.wait()
        answered(tmp_path, *asking("wild"), argv=IMPATIENT)
    assert agents.faults.keys() == FAULTS.keys()
    assert (
        agents.answered.total() - needed <= 2 * 2 * CONCURRENCY
    )  # at each kill, what ran and what was not yet durable
    calm = outcomes(tmp_path, "calm")
    assert {output["stop"] for output, _ in calm.values()} == {"passed", "circular", "max_rounds"}
    assert {scores["math"]["value"] for _, scores in calm.values()} == {0.0, 1.0}
    assert outcomes(tmp_path, "wild") == calm
    calm = debates(tmp_path, "calm")
    assert sum(map(Counter.total, calm.values())) == needed
    assert debates(tmp_path, "wild") == calm
