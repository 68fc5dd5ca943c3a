"""Running programs that a model has written.

program    starts each in a process of its own, and says whether it passed
child      what that process does: give up every right that it can, then run the program
code_eval  the metric pass@k over programs and their tests
"""

from multiform.execution.code_eval import CodeEval
from multiform.execution.program import Outcome, run_program

__all__ = ["CodeEval", "Outcome", "run_program"]
