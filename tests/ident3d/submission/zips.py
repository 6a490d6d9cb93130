"""Zip archives, and the files in them, as others may write them."""

import io
import zipfile

import numpy as np


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path, changes, compression=zipfile.ZIP_STORED):
    content = members(path) | changes
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in content.items():
            if data is not None:
                archive.writestr(name, data)


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()
