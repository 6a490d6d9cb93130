"""``ident3d verify``: is this dataset whole and sound?"""

import sys
from dataclasses import dataclass

import tyro
from tqdm import tqdm

from ident3d.commandline import EXIT_FAILED, EXIT_OK, write_json
from ident3d.storage.layouts import resolve_root, splits_of
from ident3d.storage.verification import verify

__all__ = ["Verify"]


@dataclass(frozen=True)
class Verify:
    """Check a dataset without rendering it again: files, checksums, ids, latents, and that every image decodes.

    Prints one line for each thing that is wrong, and ends with exit status 1 if there is any.

    Examples:
        ident3d verify data/small
        ident3d verify sample --json
    """

    root: tyro.conf.Positional[str]
    """Folder of the dataset, in any layout; "sample" is the one inside the package."""
    json: bool = False
    """Print what is found as JSON."""

    def run(self) -> int:
        """Verify; return the exit status."""
        folder = resolve_root(self.root)
        with tqdm(unit="row", unit_scale=True, disable=None) as bar:
            faults = verify(folder, bar.update)
        if self.json:
            write_json({"sound": not faults, "splits": list(splits_of(folder)), "faults": faults})
        elif faults:
            sys.stdout.writelines(f"{fault}\n" for fault in faults)
            sys.stdout.write(f"{folder}: {len(faults)} fault{'s' if len(faults) > 1 else ''}\n")
        else:
            sys.stdout.write(f"{folder}: sound ({', '.join(splits_of(folder))})\n")
        return EXIT_FAILED if faults else EXIT_OK
