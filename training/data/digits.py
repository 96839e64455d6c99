"""The 1,797 handwritten digits that come with this package (see README.md beside the file)."""

from __future__ import annotations

from importlib import resources
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DARKEST = 16
"""The largest grey value of the file; 0 is paper."""


class Examples(NamedTuple):
    """Images [n, 8, 8, 1] float32 in 0..1 and their labels [n] int32 in 0..9."""

    images: NDArray[np.float32]
    labels: NDArray[np.int32]

    def take(self, indices: NDArray[np.int32]) -> Examples:
        """The examples at `indices` [m], in that order."""
        return Examples(self.images[indices], self.labels[indices])


def load_digits() -> Examples:
    """All digits in the order of the file."""
    with resources.files(__package__).joinpath("digits.npz").open("rb") as file, np.load(file) as arrays:
        images, labels = arrays["images"], arrays["labels"]
    return Examples((images / np.float32(DARKEST))[..., np.newaxis].astype(np.float32), labels.astype(np.int32))
