"""What the tests of clients share."""

from support.certificates import certificates_read_once

__all__ = ["certificates_read_once"]
