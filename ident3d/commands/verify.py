"""``ident3d verify``: is this dataset whole and sound?"""

import sys
from dataclasses import dataclass

import tyro

from ident3d.commandline import EXIT_FAILED, EXIT_OK, write_json
from ident3d.progress import ProgressBar
from ident3d.storage.layouts import resolve_root, splits_of
from ident3d.storage.verification import images_to_verify, verify

__all__ = ["Verify"]


@dataclass(frozen=True)
class Verify:
    """Check a dataset without rendering it again: files, checksums, ids, latents, and that every image decodes.

    Prints one line for each fault, and one for each thing that nothing in the folder allows to check; a dataset is
    sound where there is neither. The exit status is 1 if anything is wrong.

    Examples:
        ident3d verify data/small
        ident3d verify sample --json
    """

    root: tyro.conf.Positional[str]
    """Folder of the dataset, in any layout; "sample" is the one inside the package."""
    pairs: str | None = None
    """The conditional of exact positives as it was given for rendering; needed only where its class is in a module of
    your own, which no dataset makes ident3d import."""
    json: bool = False
    """Print what is found as JSON."""

    def run(self) -> int:
        """Verify; return the exit status."""
        folder = resolve_root(self.root)
        with ProgressBar(images_to_verify(folder), unit="images", label="verifying") as bar:
            found = verify(folder, bar.update, pairs=self.pairs)
        splits = list(splits_of(folder))
        if self.json:
            write_json(
                {"sound": found.is_sound, "splits": splits, "faults": found.faults, "unchecked": found.unchecked}
            )
            return EXIT_FAILED if found.faults else EXIT_OK
        if found.faults:
            verdict = f"{len(found.faults)} fault{'s' if len(found.faults) > 1 else ''}"
        elif found.unchecked:
            verdict = f"no faults in what could be checked ({', '.join(splits)})"
        else:
            verdict = f"sound ({', '.join(splits)})"
        lines = [*found.faults, *(f"unchecked: {line}" for line in found.unchecked), f"{folder}: {verdict}"]
        sys.stdout.writelines(f"{line}\n" for line in lines)
        return EXIT_FAILED if found.faults else EXIT_OK
