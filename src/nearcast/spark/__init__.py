"""The data pipeline on Spark: the same answers as the hub gives, in batch and as a stream, on any number of machines.

Importing it loads nothing of Spark; that happens when something here is used.
"""

# Not lazily: a submodule that somebody imports first would stand in the way of the function of its name.
from nearcast.spark.batch_progress import BatchProgress
from nearcast.spark.dataframe.match import match, match_against, rejected_messages
from nearcast.spark.session import session, warm
from nearcast.spark.stream import Stream, stream

__all__ = ["BatchProgress", "Stream", "match", "match_against", "rejected_messages", "session", "stream", "warm"]
