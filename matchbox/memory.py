"""Large zeroed arrays on memory that the kernel may back with huge pages. Plain Python.

Anonymous memory is taken private: shared anonymous memory (Python's default) is shmem and gets no
huge pages. Pages are touched only when used, unless `prefault` asks for all of them now.
"""

import mmap

import numpy as np

HUGE_PAGE_BYTES = 1 << 21
PAGE_BYTES = mmap.PAGESIZE
MADV_POPULATE_WRITE = 23


def huge(count: int, dtype: np.typing.DTypeLike, prefault: bool = False) -> np.ndarray:
    """A zeroed array of `count` items; 2 MiB aligned on huge pages if that large, else 4 KiB
    aligned.

    The array owns its mapping: the memory goes when the last view does.
    """
    dtype = np.dtype(dtype)
    size = count * dtype.itemsize
    large = size >= HUGE_PAGE_BYTES
    span = max(size, 1) + (HUGE_PAGE_BYTES if large else 0)
    mapping = mmap.mmap(-1, span, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if large:
        mapping.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(mapping, np.uint8)
    skip = -whole.ctypes.data % HUGE_PAGE_BYTES if large else 0
    array = whole[skip : skip + size]
    if prefault:
        array[::PAGE_BYTES] = 0
    return array.view(dtype)


def address_of(array: np.ndarray) -> int:
    """Address of an array's first byte; the caller keeps the array alive."""
    return array.ctypes.data


def sparse(count: int, dtype: np.typing.DTypeLike) -> np.ndarray:
    """A zeroed array on small pages, 4 KiB aligned, for many buffers of which few are ever full."""
    dtype = np.dtype(dtype)
    size = max(count * dtype.itemsize, 1)
    mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(mapping, np.uint8)[: count * dtype.itemsize].view(dtype)
