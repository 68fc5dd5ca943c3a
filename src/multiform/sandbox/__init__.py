"""Running programs that a model has written.

launch   which sandbox they run in, and how a process is started in it
program  runs one program with its tests; the metric pass@k
guest    what runs inside the sandbox
"""

from multiform.sandbox.launch import SANDBOXES, chosen_sandbox, is_sandbox, using_sandbox
from multiform.sandbox.program import CodeEval, Outcome, run_program

__all__ = ["SANDBOXES", "CodeEval", "Outcome", "chosen_sandbox", "is_sandbox", "run_program", "using_sandbox"]
