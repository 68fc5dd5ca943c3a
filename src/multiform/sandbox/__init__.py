"""Running programs that a model has written.

sandbox    which sandbox they run in, and the command that starts it
program    runs one program with its tests, and says whether it passed
guest      what happens inside of the sandbox
code_eval  the metric pass@k over programs and their tests
"""

from multiform.sandbox.command import SANDBOXES, chosen_sandbox, is_sandbox, using_sandbox
from multiform.sandbox.program import CodeEval, Outcome, run_program

__all__ = ["SANDBOXES", "CodeEval", "Outcome", "chosen_sandbox", "is_sandbox", "run_program", "using_sandbox"]
