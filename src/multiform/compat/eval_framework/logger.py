"""The logger."""

import logging

logger = logging.getLogger("eval_framework")
