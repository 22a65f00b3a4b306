"""Machine instructions that Numba does not offer, as functions that kernels call.

A plain load in a loop is hoisted and never sees another thread's store: every cell that two
threads share is read with `load_acquire` and written with `store_release`. On x86-64 both are
plain moves; on aarch64 they are `ldar` and `stlr`. `store_ordered` is a full fence as well
(x86-64: `xchg`).

Addresses are i64, indices and words u64. The CRC is CRC-32C (Castagnoli, "crc-32c" in crcmod's
terms) without its final inversion: a chain value is passed from one call to the next as it is.

The portable twins at the end say in plain operations what each instruction does; tests hold one
against the other and the CRC against crcmod.
"""

import platform
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from matchbox.jit import kernel

U = np.uint64

X86 = platform.machine() in ("x86_64", "AMD64")
ARM = platform.machine() in ("aarch64", "arm64")
CACHE_LINE_BYTES = 64
CACHE_LINE_WORDS = 8

I8, I16, I32, I64, I128 = (ir.IntType(bits) for bits in (8, 16, 32, 64, 128))
VOID = ir.VoidType()


def pointer(builder: Any, address: Any, bits: int) -> Any:
    return builder.inttoptr(address, ir.IntType(bits).as_pointer())


def item(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """Pointer to array[index]; the caller vouches for the index."""
    view = context.make_array(array_type)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, array_type, view, [index], wraparound=False)


def call(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    """Call an LLVM intrinsic by name."""
    signature = ir.FunctionType(result, [argument.type for argument in arguments])
    function = cgutils.get_or_insert_function(builder.module, signature, name)
    return builder.call(function, arguments)


# -- shared cells of u64 arrays -----------------------------------------------------------------


def _loader(ordering: str) -> Any:
    @intrinsic
    def load(typing, array, index):
        def generate(context, builder, signature, args):
            place = item(context, builder, signature.args[0], *args)
            return builder.load_atomic(place, ordering, 8)

        return array.dtype(array, types.uint64), generate

    return load


def _storer(ordering: str) -> Any:
    @intrinsic
    def store(typing, array, index, value):
        def generate(context, builder, signature, args):
            place = item(context, builder, signature.args[0], args[0], args[1])
            builder.store_atomic(args[2], place, ordering, 8)
            return context.get_dummy_value()

        return types.void(array, types.uint64, array.dtype), generate

    return store


load_acquire = _loader("acquire")
load_relaxed = _loader("monotonic")
load_ordered = _loader("seq_cst")
store_release = _storer("release")
store_relaxed = _storer("monotonic")
store_ordered = _storer("seq_cst")


@intrinsic
def fence(typing):
    """Full fence: stores before it are seen before loads after it are made."""

    def generate(context, builder, signature, args):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def pause(typing):
    """Tell the core that this is a spin loop."""

    def generate(context, builder, signature, args):
        if X86:
            call(builder, "llvm.x86.sse2.pause", VOID, [])
        elif ARM:
            call(builder, "llvm.aarch64.hint", VOID, [I32(1)])
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def cycles(typing):
    """The cycle counter, u64. Constant rate on the machines we serve; convert with a measured
    rate."""

    def generate(context, builder, signature, args):
        return call(builder, "llvm.readcyclecounter", I64, [])

    return types.uint64(), generate


# -- caches -------------------------------------------------------------------------------------


@intrinsic
def prefetch(typing, array, index):
    """Bring in the line of array[index]. Any index is harmless."""

    def generate(context, builder, signature, args):
        place = builder.bitcast(item(context, builder, signature.args[0], *args), I8.as_pointer())
        call(builder, "llvm.prefetch.p0", VOID, [place, I32(0), I32(3), I32(1)])
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate


def _line_store(streaming: bool) -> Any:
    @intrinsic
    def store(typing, address, w0, w1, w2, w3, w4, w5, w6, w7):
        def generate(context, builder, signature, args):
            vector = ir.VectorType(I64, CACHE_LINE_WORDS)
            line = ir.Constant(vector, ir.Undefined)
            for lane in range(CACHE_LINE_WORDS):
                line = builder.insert_element(line, args[1 + lane], I32(lane))
            place = builder.inttoptr(args[0], vector.as_pointer())
            made = builder.store(line, place, align=CACHE_LINE_BYTES)
            if streaming:
                made.set_metadata("nontemporal", builder.module.add_metadata([I32(1)]))
            return context.get_dummy_value()

        word = types.uint64
        return types.void(types.int64, *[word] * CACHE_LINE_WORDS), generate

    return store


store_line = _line_store(streaming=False)
"""store_line(address, w0 … w7): one aligned 64-byte store."""

stream_line = _line_store(streaming=True)
"""The same past the caches, for a line this core will not read again; `stream_fence` before
publishing it."""


@intrinsic
def stream_fence(typing):
    """Make streamed lines visible before the stores that follow."""

    def generate(context, builder, signature, args):
        if X86:
            call(builder, "llvm.x86.sse.sfence", VOID, [])
        else:
            builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


# -- raw memory: addresses handed out by Python, of buffers that outlive the kernel -------------


def _peek(bits: int, swap: bool = False) -> Any:
    @intrinsic
    def load(typing, address):
        def generate(context, builder, signature, args):
            value = builder.load(pointer(builder, args[0], bits), align=1)
            if swap:
                value = builder.bswap(value)
            return builder.zext(value, I64) if bits < 64 else value

        return types.uint64(types.int64), generate

    return load


def _poke(bits: int, swap: bool = False) -> Any:
    @intrinsic
    def store(typing, address, value):
        def generate(context, builder, signature, args):
            value = builder.trunc(args[1], ir.IntType(bits)) if bits < 64 else args[1]
            if swap:
                value = builder.bswap(value)
            builder.store(value, pointer(builder, args[0], bits), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.uint64), generate

    return store


load_u64, load_u32, load_u16, load_u8 = _peek(64), _peek(32), _peek(16), _peek(8)
store_u64, store_u32, store_u16, store_u8 = _poke(64), _poke(32), _poke(16), _poke(8)
load_u64_big, load_u32_big, load_u16_big = _peek(64, True), _peek(32, True), _peek(16, True)
store_u64_big, store_u32_big, store_u16_big = _poke(64, True), _poke(32, True), _poke(16, True)


@intrinsic
def copy_bytes(typing, target, source, count):
    """memmove(target, source, count): the regions may overlap."""

    def generate(context, builder, signature, args):
        target = builder.inttoptr(args[0], I8.as_pointer())
        source = builder.inttoptr(args[1], I8.as_pointer())
        arguments = [target, source, args[2], ir.Constant(ir.IntType(1), 0)]
        call(builder, "llvm.memmove.p0.p0.i64", VOID, arguments)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


# -- arithmetic ---------------------------------------------------------------------------------


@intrinsic
def byte_swap(typing, value):
    """Reverse the 8 bytes of a word."""
    return types.uint64(types.uint64), lambda context, builder, signature, args: builder.bswap(
        args[0]
    )


@intrinsic
def trailing_zeros(typing, value):
    """Number of the lowest set bit; 64 for 0."""
    return types.uint64(types.uint64), lambda context, builder, signature, args: builder.cttz(
        args[0], ir.Constant(ir.IntType(1), 0)
    )


@intrinsic
def leading_zeros(typing, value):
    """63 minus the number of the highest set bit; 64 for 0."""
    return types.uint64(types.uint64), lambda context, builder, signature, args: builder.ctlz(
        args[0], ir.Constant(ir.IntType(1), 0)
    )


@intrinsic
def fold_multiply(typing, a, b):
    """High half xor low half of the 128-bit product (the mixer of wyhash)."""

    def generate(context, builder, signature, args):
        product = builder.mul(builder.zext(args[0], I128), builder.zext(args[1], I128))
        high = builder.trunc(builder.lshr(product, ir.Constant(I128, 64)), I64)
        return builder.xor(builder.trunc(product, I64), high)

    return types.uint64(types.uint64, types.uint64), generate


# -- CRC-32C ------------------------------------------------------------------------------------

CRC_POLYNOMIAL = 0x82F63B78  # Castagnoli, reflected


def _crc_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint64)
    for _ in range(8):
        table = np.where(table & U(1), (table >> U(1)) ^ U(CRC_POLYNOMIAL), table >> U(1))
    return table


CRC_TABLE = _crc_table()


@kernel
def crc32c_portable(crc, value, count):
    """Update a CRC-32C by the low `count` bytes of a word, lowest first."""
    for _ in range(count):
        crc = (crc >> U(8)) ^ CRC_TABLE[(crc ^ value) & U(0xFF)]
        value >>= U(8)
    return crc


if X86:

    @intrinsic
    def crc32c_u64(typing, crc, value):
        """Update a CRC-32C by the 8 bytes of a word, lowest first."""

        def generate(context, builder, signature, args):
            return call(builder, "llvm.x86.sse42.crc32.64.64", I64, list(args))

        return types.uint64(types.uint64, types.uint64), generate

    @intrinsic
    def crc32c_u32(typing, crc, value):
        """Update a CRC-32C by the low 4 bytes of a word, lowest first."""

        def generate(context, builder, signature, args):
            halves = [builder.trunc(argument, I32) for argument in args]
            return builder.zext(call(builder, "llvm.x86.sse42.crc32.32.32", I32, halves), I64)

        return types.uint64(types.uint64, types.uint64), generate

elif ARM:

    @intrinsic
    def crc32c_u64(typing, crc, value):
        """Update a CRC-32C by the 8 bytes of a word, lowest first."""

        def generate(context, builder, signature, args):
            arguments = [builder.trunc(args[0], I32), args[1]]
            return builder.zext(call(builder, "llvm.aarch64.crc32cx", I32, arguments), I64)

        return types.uint64(types.uint64, types.uint64), generate

    @intrinsic
    def crc32c_u32(typing, crc, value):
        """Update a CRC-32C by the low 4 bytes of a word, lowest first."""

        def generate(context, builder, signature, args):
            halves = [builder.trunc(argument, I32) for argument in args]
            return builder.zext(call(builder, "llvm.aarch64.crc32cw", I32, halves), I64)

        return types.uint64(types.uint64, types.uint64), generate

else:

    @kernel
    def crc32c_u64(crc, value):
        return crc32c_portable(crc, value, 8)

    @kernel
    def crc32c_u32(crc, value):
        return crc32c_portable(crc, value, 4)


# -- portable twins -----------------------------------------------------------------------------


@kernel
def byte_swap_portable(value):
    result = U(0)
    for _ in range(8):
        result = (result << U(8)) | (value & U(0xFF))
        value >>= U(8)
    return result


@kernel
def trailing_zeros_portable(value):
    count = U(0)
    while count < U(64) and not (value >> count) & U(1):
        count += U(1)
    return count


@kernel
def leading_zeros_portable(value):
    count = U(0)
    while count < U(64) and not (value >> (U(63) - count)) & U(1):
        count += U(1)
    return count


@kernel
def fold_multiply_portable(a, b):
    """Schoolbook product of 32-bit halves."""
    low_mask = U(0xFFFFFFFF)
    a0, a1, b0, b1 = a & low_mask, a >> U(32), b & low_mask, b >> U(32)
    low = a0 * b0
    middle = a1 * b0 + (low >> U(32))
    carry = a0 * b1 + (middle & low_mask)
    high = a1 * b1 + (middle >> U(32)) + (carry >> U(32))
    return high ^ ((carry << U(32)) | (low & low_mask))
