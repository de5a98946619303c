"""Exceptions that are no answer of vLLM's: the dry load itself could not go on.

Their message is the reason that is told.
"""


class StubCalled(RuntimeError):  # noqa: N818  told as a reason
    """A kernel was to run that is not there."""


class UnknownType(Exception):  # noqa: N818
    """A tensor has a type that this torch has not."""


class NotSimulated(Exception):  # noqa: N818
    """vLLM took a way that the dry load does not follow."""
