"""The dataset classes of KITTI Masks: binary masks with their latents, pedestrian by pedestrian.

On disk they are one Parquet file, ``data/train-00000-of-00001.parquet``, which ``datasets.load_dataset`` reads too:
a PNG of one bit a pixel, the latents, and the numbers of pedestrian and frame. The file holds a checksum of what it
shows. In memory a mask is kept as bits, 512 bytes for 64x64.
"""

import hashlib
import json
import logging
import operator
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int64, UInt8
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from ident3d.errors import DatasetError
from ident3d.factors import Factor, Factors
from ident3d.files import atomic_file, check_disk_space, open_regular, sha256_of
from ident3d.kitti.archive import MASK_SIZE, Pedestrian, read_archive
from ident3d.storage.images import PNG_SIGNATURE

__all__ = ["ARCHIVE_NAME", "FRAMES_NAME", "MASK_FACTORS", "PUBLISHED_PAIRS", "KittiMasks", "MaskSequences"]

_LOG = logging.getLogger(__name__)

ARCHIVE_NAME = "kitti_peds_v2.pickle"
"""The file of the published archive."""

FRAMES_NAME = "data/train-00000-of-00001.parquet"
"""What it is converted to, once."""

PUBLISHED_PAIRS = 82_506
"""Frames of the published archive that have a successor."""

MASK_FACTORS = Factors(
    (
        Factor("centre_y", "position", 0.0, MASK_SIZE - 1.0, "px"),
        Factor("centre_x", "position", 0.0, MASK_SIZE - 1.0, "px"),
        Factor("area", "size", 0.0, float(MASK_SIZE**2), "px^2"),
    )
)
"""The latents of a mask. Their columns hold physical values, in pixels and square pixels, as the archive does."""

_RECORD = "ident3d-kitti"
_IMAGE_FEATURES = {
    "image": {"_type": "Image"},
    "latents": {"feature": {"dtype": "float32", "_type": "Value"}, "length": 3, "_type": "List"},
    "pedestrian": {"dtype": "int32", "_type": "Value"},
    "frame": {"dtype": "int32", "_type": "Value"},
}
_ROWS_PER_GROUP = 4096
_BYTES_PER_FRAME = 400  # on disk, measured on walkers: 250
_HEADER = struct.pack(">IIBBBBB", MASK_SIZE, MASK_SIZE, 1, 0, 0, 0, 0)  # grey of one bit a pixel, not interlaced
_ROW_BYTES = 1 + MASK_SIZE // 8
_MOST_FRAMES = 2**26


class MaskSequences(Dataset[tuple[Any, Tensor]]):
    """Binary masks of many pedestrians, frame by frame, each with its latents.

    An item is ``(image, latents)``: a PIL image, 0 and 255, or what ``transform`` makes of it, and a (3,) float32
    tensor. :class:`~ident3d.FramePairs` draws positive pairs of two frames of one pedestrian.

    Args:
        pedestrians: the sequences.
        transform: applied to the PIL image of an item; None leaves it as it is.

    Attributes:
        latents: (N, 3) float32: vertical and horizontal centre in pixels, and area in square pixels.
        lengths: (P,) int64, the number of frames of each pedestrian; frames are in order, pedestrian by pedestrian.
        bits: (N, 512) uint8, the masks as bits, row by row.
        factors: what the columns of the latents are.
        layout: "decoded": an image costs no more than a copy.

    Raises:
        ValueError: if there are no pedestrians.
    """

    layout = "decoded"
    factors = MASK_FACTORS

    def __init__(
        self, pedestrians: Iterable[Pedestrian], transform: Callable[[Image.Image], Any] | None = None
    ) -> None:
        held = list(pedestrians)
        if not held:
            raise ValueError("expected the frames of one pedestrian or more, not of none")
        self.transform = transform
        self.lengths = torch.tensor([len(item.masks) for item in held], dtype=torch.int64, device="cpu")
        self.latents = torch.from_numpy(np.concatenate([item.latents for item in held]))
        self.bits = np.concatenate([_packed(item.masks) for item in held])

    def __len__(self) -> int:
        return len(self.latents)

    def __getitem__(self, index: int) -> tuple[Any, Tensor]:
        if not isinstance(index, SupportsIndex):
            raise TypeError(f"an index of a dataset is an integer, not {index!r}")
        given = operator.index(index)
        row = given + len(self) if given < 0 else given
        if not 0 <= row < len(self):
            raise IndexError(f"index {index} of a dataset of {len(self)} masks")
        image = Image.fromarray(self.pixels(torch.tensor([row], dtype=torch.int64, device="cpu")).numpy()[0, ..., 0])
        return (image if self.transform is None else self.transform(image)), self.latents[row].clone()

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {len(self):,} masks of {len(self.lengths):,} pedestrians"

    @property
    def pedestrians(self) -> Int64[Tensor, " frames"]:
        """(N,) the number of the pedestrian that each frame shows, from 0."""
        return torch.repeat_interleave(torch.arange(len(self.lengths), dtype=torch.int64, device="cpu"), self.lengths)

    def pixels(self, rows: Int64[Tensor, " batch"]) -> UInt8[Tensor, "batch 64 64 1"]:
        """Return the masks of rows in [0, N), 0 and 255.

        Raises:
            IndexError: if a row is out of range.
        """
        asked = np.asarray(rows, np.int64).reshape(-1)
        if asked.size and not (asked.min() >= 0 and asked.max() < len(self)):
            raise IndexError(f"rows {asked.min()} to {asked.max()} asked of a dataset of {len(self)} masks")
        shown = np.unpackbits(self.bits[asked])
        np.negative(shown, out=shown)  # of a byte: 255 for 1
        return torch.from_numpy(shown.reshape(len(asked), MASK_SIZE, MASK_SIZE, 1))

    def save(self, root: str | Path) -> Path:
        """Write the masks to the folder ``root`` as Parquet, whole or not at all; return the file.

        Raises:
            OSError: if the disk is too small or cannot be written to.
        """
        return _write(self, Path(root).expanduser(), {})


class KittiMasks(MaskSequences):
    """KITTI Masks: the masks of pedestrians in traffic, cut out and scaled to 64x64.

    The archive is read without running anything of it, converted to Parquet once, and read from there afterwards.

    Example:
        >>> import ident3d, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:  # as a stand-in for the archive, walkers in the same files
        ...     path = ident3d.walkers(3).save(folder)
        ...     masks = ident3d.KittiMasks(folder)
        >>> len(masks.lengths), masks.factors.names
        (3, ('centre_y', 'centre_x', 'area'))

    Args:
        root: folder of ``kitti_peds_v2.pickle``, or of what was converted from it or written by :meth:`save`.
        download: fetch the archive into ``root`` first, unless it is there.
        transform: applied to the PIL image of an item; None leaves it as it is.

    Attributes:
        root: the folder.
        latents: (N, 3) float32: vertical and horizontal centre in pixels, and area in square pixels.
        lengths: (P,) int64, the number of frames of each pedestrian.
        factors: what the columns of the latents are.

    Raises:
        FileNotFoundError: if neither file is in ``root``.
        DatasetError: if a file is damaged, or the archive holds anything but arrays, lists and dicts.
        OSError: if the disk is too small for the converted file, or cannot be written to.

    Reference:
        Klindt et al., Towards Nonlinear Disentanglement in Natural Data with Temporal Sparse Coding, ICLR 2021;
        Zenodo record 3931823.
    """

    def __init__(
        self, root: str | Path, *, download: bool = False, transform: Callable[[Image.Image], Any] | None = None
    ) -> None:
        if transform is not None and not callable(transform):
            raise TypeError(f"a transform is a function of a PIL image, not {transform!r}")
        self.root = Path(root).expanduser()
        frames, archive = self.root / FRAMES_NAME, self.root / ARCHIVE_NAME
        if not frames.exists():
            if download and not archive.exists():
                from ident3d.download import download_kitti_masks

                download_kitti_masks(self.root)
            if not archive.exists():
                raise FileNotFoundError(
                    f"{self.root} holds neither {FRAMES_NAME} nor {ARCHIVE_NAME}; download=True fetches the archive"
                )
            _convert(archive, self.root)
        self.bits, latents, lengths = _read(frames)
        self.latents, self.lengths = torch.from_numpy(latents), torch.from_numpy(lengths)
        self.transform = transform


def _convert(archive: Path, root: Path) -> None:
    held = MaskSequences(read_archive(archive))
    pairs = int((held.lengths - 1).sum())
    if pairs != PUBLISHED_PAIRS:
        _LOG.warning(
            "%s has %s frames with a successor, the published one %s: it is another set",
            archive,
            pairs,
            PUBLISHED_PAIRS,
        )
    file = _write(held, root, {"archive_sha256": sha256_of(archive)})
    _LOG.info("%s: %s masks of %s pedestrians written to %s", archive, len(held), len(held.lengths), file)


def _write(data: MaskSequences, root: Path, source: dict[str, str]) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_disk_space(root, _BYTES_PER_FRAME * len(data), f"writing {len(data):,} masks")
    bits, lengths, latents = data.bits, data.lengths.numpy(), data.latents.numpy()
    frames = np.concatenate([np.arange(length) for length in lengths])
    columns = [
        pa.array([{"bytes": _encoded(mask), "path": None} for mask in bits], _image_type()),
        pa.FixedSizeListArray.from_arrays(pa.array(latents.reshape(-1), pa.float32()), latents.shape[1]),
        pa.array(data.pedestrians.numpy(), pa.int32()),
        pa.array(frames, pa.int32()),
    ]
    record = json.dumps({"sha256": _digest(bits, latents, lengths), **source})
    metadata = {"huggingface": json.dumps({"info": {"features": _IMAGE_FEATURES}}), _RECORD: record}
    fields = [pa.field(name, column.type) for name, column in zip(_IMAGE_FEATURES, columns, strict=True)]
    table = pa.Table.from_arrays(columns, schema=pa.schema(fields, metadata=metadata))
    path = root / FRAMES_NAME
    with atomic_file(path) as file:
        pq.write_table(table, file, row_group_size=_ROWS_PER_GROUP, compression="none", write_page_checksum=True)
    return path


def _read(path: Path) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Return bits, latents and lengths, checked against the checksum."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open_regular(path) as file:
            source = pq.ParquetFile(file, page_checksum_verification=True)
            record = json.loads((source.schema_arrow.metadata or {}).get(_RECORD.encode(), b"null"))
            is_ours = isinstance(record, dict) and source.metadata.num_rows <= _MOST_FRAMES
            table = source.read() if is_ours else None
        if table is None:
            raise ValueError("it was not written by ident3d")  # noqa: TRY301 - said like all that is wrong with it
        images = table.column("image").combine_chunks().field("bytes").to_pylist()
        latents = table.column("latents").combine_chunks().flatten().to_numpy().reshape(len(table), -1)
        pedestrians = table.column("pedestrian").to_numpy().astype(np.int64)
        bits = np.stack([_decoded(image) for image in images])
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's, and not pyarrow's of a damaged page
        raise DatasetError(f"{path} cannot be read ({error}); remove it, and it is converted again") from error
    lengths = np.bincount(pedestrians).astype(np.int64)
    if record.get("sha256") != _digest(bits, latents, lengths):
        raise DatasetError(f"{path} does not hold what was written to it; remove it, and it is converted again")
    return bits, np.array(latents, np.float32), lengths


def _digest(bits: npt.NDArray[np.uint8], latents: npt.NDArray[np.float32], lengths: npt.NDArray[np.int64]) -> str:
    digest = hashlib.sha256()
    for values, kind in ((bits, "u1"), (latents, "<f4"), (lengths, "<i8")):
        digest.update(np.ascontiguousarray(values, kind).tobytes())
    return digest.hexdigest()


def _image_type() -> Any:
    import pyarrow as pa

    return pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())])


def _packed(masks: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    return np.packbits(masks, axis=2).reshape(len(masks), -1)


def _encoded(bits: npt.NDArray[np.uint8]) -> bytes:
    """Return a PNG of one bit a pixel; its rows are the bits as they are."""
    rows = np.zeros((MASK_SIZE, _ROW_BYTES), np.uint8)
    rows[:, 1:] = bits.reshape(MASK_SIZE, -1)
    chunks: Sequence[tuple[bytes, bytes]] = (
        (b"IHDR", _HEADER),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    return PNG_SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


_DATA = len(PNG_SIGNATURE) + 12 + len(_HEADER) + 8


def _decoded(encoded: bytes) -> npt.NDArray[np.uint8]:
    """Return the (512,) bits of a mask that :func:`_encoded` wrote."""
    if encoded[16:29] != _HEADER:
        raise ValueError("a mask is not a PNG of 64x64 pixels of one bit")
    inflater = zlib.decompressobj()
    rows = np.frombuffer(inflater.decompress(encoded[_DATA:], MASK_SIZE * _ROW_BYTES + 1), np.uint8)
    if rows.size != MASK_SIZE * _ROW_BYTES:
        raise ValueError("a mask is cut")
    return rows.reshape(MASK_SIZE, _ROW_BYTES)[:, 1:].reshape(-1)
