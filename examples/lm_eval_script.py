"""An unchanged script for lm-eval: Multiform provides `import lm_eval` while it runs.

    python -m multiform.compat.run examples/lm_eval_script.py

prints::

    capitals acc,none 0.5
"""

from __future__ import annotations

from pathlib import Path

import lm_eval
from lm_eval.tasks import TaskManager

if __name__ == "__main__":
    manager = TaskManager(include_path=str(Path(__file__).parent), include_defaults=False)
    results = lm_eval.simple_evaluate(model="dummy", tasks=["capitals"], task_manager=manager, bootstrap_iters=0)
    for task, scores in results["results"].items():
        print(task, "acc,none", round(scores["acc,none"], 3))
