"""Where tests do not interrupt: code of others that is left broken for the whole process, whatever we do."""

import os

_FOREIGN = (f"{os.sep}numba{os.sep}", "importlib")


def is_unsafe(frame):
    """Tell whether a kernel is being compiled or loaded, or a module imported, in one of the calls under way."""
    while frame is not None:
        if any(name in frame.f_code.co_filename for name in _FOREIGN):
            return True
        frame = frame.f_back
    return False
