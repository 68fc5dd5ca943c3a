"""lm-eval's Python interface, provided by Multiform; docs/lm-eval.md lists what there is."""

#: The version of lm-eval whose interface this is.
__version__ = "0.4.13"
__multiform__ = True

__all__ = ["__version__"]
