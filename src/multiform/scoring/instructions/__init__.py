"""Rules of instructions that a program can check, such as "use no commas".

texts    sentences, words, languages and the like
ifeval   the rules of IFEval
"""

from multiform.scoring.instructions import ifeval
from multiform.scoring.instructions.rules import follows, register_rule, rules

__all__ = ["follows", "ifeval", "register_rule", "rules"]
