"""The format number of stored state: written at the head of manifests, pickles and prepared stores, and read first.

Pickles name modules and classes, so a file of another version must be refused before anything of it is unpickled.
"""

from __future__ import annotations

import json

from nearcast.errors import IncompatibleStore

#: Raised whenever stored files change their form, or a class that is pickled its name, module or fields.
#: 1 had no checksums. In 2 pickles carried no number, and they name modules that have moved since. In 3 names carried
#: no epoch, and manifests said nothing of the sources of a batch. In 4 directories and changes had no times of reports.
#: In 5 changes named their sources. In 6 streams had no id, and for lists of top-k that ran short the window was
#: searched at once: a replay searches at the end of a portion. In 7 columns of changes were written out.
STATE_FORMAT = 8
_OTHER_CHECKPOINT = "go on with the version of nearcast that wrote it, or begin anew with another checkpoint"


def check_format(found: object, called: str, advice: str = _OTHER_CHECKPOINT) -> None:
    """Refuse a format number that is not the one this version writes, older or newer, with advice what to do."""
    if found != STATE_FORMAT:
        said = "no format number" if found is None else f"format {found!r}"
        raise IncompatibleStore(f"{called} has {said}, this version reads {STATE_FORMAT}; {advice}")


def format_in(data: bytes) -> object:
    """Return the format number of a JSON object; ValueError if it is none, or has none."""
    try:
        return json.loads(data)["format"]
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError("it is no JSON object with a format number") from error
