"""Fetches what the page of the server is made with from the npm registry, with licences and hashes.

Run by `make vendor`; needs npm. Writes `src/nearcast/server/page/vendor/` and its `vendor.json`, which a test compares
with the files.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path

TARGET = Path(__file__).parent.parent / "src/nearcast/server/page/vendor"
#: Package and version; of its files, those that are taken and what they are called here.
PACKAGES = {
    ("ol", "10.10.0"): {"dist/ol.js": "ol.js", "ol.css": "ol.css", "LICENSE.md": "ol.LICENSE.md"},
    ("world-atlas", "2.0.2"): {"land-50m.json": "land.json", "LICENSE": "world-atlas.LICENSE"},
}


def main() -> None:
    """Fetch all packages and write the list of files."""
    TARGET.mkdir(parents=True, exist_ok=True)
    listed = []
    for (name, version), files in PACKAGES.items():
        contents = _contents(name, version)
        for source, called in files.items():
            content = contents[f"package/{source}"].replace(b"\n//# sourceMappingURL=ol.js.map", b"")
            (TARGET / called).write_bytes(content)
            sha256 = hashlib.sha256(content).hexdigest()
            listed.append({"file": called, "package": name, "version": version, "sha256": sha256})
    (TARGET / "vendor.json").write_text(json.dumps(listed, indent=1) + "\n")


def _contents(name: str, version: str) -> dict[str, bytes]:
    """Return the files of a package, as the registry has it."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", f"{name}@{version}"], cwd=folder, check=True)
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as packed:
            members = [each for each in packed.getmembers() if each.isfile()]
            return {each.name: packed.extractfile(each).read() for each in members}  # type: ignore[union-attr]


if __name__ == "__main__":
    main()
