"""Rules of instructions that a program can check, such as "use no commas".

texts    sentences, words, languages and the like
ifeval   the rules of IFEval
ifbench  the rules of IFBench
"""

from multiform.scoring.instructions import ifbench, ifeval
from multiform.scoring.instructions.rules import follows, register_rule, rules

__all__ = ["follows", "ifbench", "ifeval", "register_rule", "rules"]
