"""eval-framework's interface for tasks and metrics, provided by Multiform; docs/styles.md lists what there is."""

#: The version of eval-framework whose interface this is.
__version__ = "0.9.1"
__multiform__ = True

__all__ = ["__version__"]
