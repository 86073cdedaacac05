"""Arrow tables in the interchange columns → messages and subscriptions as columns, with the rows that were rejected.

What the columns are called and which values they take: docs/columns.md. A column that is missing or has a type that
cannot serve raises `InvalidColumns` for the whole table; a bad value rejects its row and never stops the rest.
"""

from nearcast.tables.messages import read_messages
from nearcast.tables.rejected_rows import Rejected, RejectedRow
from nearcast.tables.spaces import first_topk, rename, rename_known, space_of
from nearcast.tables.subscriptions import read_subscriptions
from nearcast.tables.values import messages_table, subscriptions_table

__all__ = [
    "Rejected",
    "RejectedRow",
    "first_topk",
    "messages_table",
    "read_messages",
    "read_subscriptions",
    "rename",
    "rename_known",
    "space_of",
    "subscriptions_table",
]
