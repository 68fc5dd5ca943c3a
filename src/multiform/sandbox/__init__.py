"""Running programs that a model has written.

program  which sandbox they run in, how a process is started in it, and one program with its tests; the metric pass@k
guest    what runs inside the sandbox
"""

from multiform.sandbox.program import (
    SANDBOXES,
    CodeEval,
    Outcome,
    chosen_sandbox,
    is_sandbox,
    run_program,
    using_sandbox,
)

__all__ = ["SANDBOXES", "CodeEval", "Outcome", "chosen_sandbox", "is_sandbox", "run_program", "using_sandbox"]
