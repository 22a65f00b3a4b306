"""Instructions against their portable twins, CRC-32C against crcmod, aarch64 by its assembly."""

import crcmod.predefined
import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchbox import atomics
from matchbox.atomics import U
from matchbox.jit import kernel
from matchbox.memory import address_of, huge

WORDS = st.integers(0, (1 << 64) - 1)
EDGES = [0, 1, 2, 0xFF, 0xFFFFFFFF, 1 << 32, 1 << 63, (1 << 64) - 1, 0x0123456789ABCDEF]


@kernel(entry=True)
def unary(value):
    """Each instruction, then its twin."""
    return (
        (atomics.byte_swap(value), atomics.byte_swap_portable(value)),
        (atomics.trailing_zeros(value), atomics.trailing_zeros_portable(value)),
        (atomics.leading_zeros(value), atomics.leading_zeros_portable(value)),
    )


@kernel(entry=True)
def binary(a, b):
    return (
        (atomics.fold_multiply(a, b), atomics.fold_multiply_portable(a, b)),
        (
            atomics.crc32c_u64(a & U(0xFFFFFFFF), b),
            atomics.crc32c_portable(a & U(0xFFFFFFFF), b, 8),
        ),
        (
            atomics.crc32c_u32(a & U(0xFFFFFFFF), b),
            atomics.crc32c_portable(a & U(0xFFFFFFFF), b, 4),
        ),
    )


@kernel(entry=True)
def crc_of(words, crc):
    for word in words:
        crc = atomics.crc32c_u64(crc, word)
    return crc


@pytest.mark.parametrize("value", EDGES)
def test_edges_of_one_operand(value: int) -> None:
    for instruction, twin in unary(U(value)):
        assert instruction == twin


@given(WORDS)
def test_one_operand(value: int) -> None:
    for instruction, twin in unary(U(value)):
        assert instruction == twin


@given(WORDS, WORDS)
def test_two_operands(a: int, b: int) -> None:
    for instruction, twin in binary(U(a), U(b)):
        assert instruction == twin


def test_meaning_of_bit_counts() -> None:
    swap, trailing, leading = (pair[0] for pair in unary(U(0b1000)))
    assert (swap, trailing, leading) == (0b1000 << 56, 3, 60)
    assert [pair[0] for pair in unary(U(0))] == [0, 64, 64]


@given(st.binary(max_size=200))
def test_crc_is_crc32c(data: bytes) -> None:
    """With the initial and final inversion that chains leave out."""
    data += bytes(-len(data) % 8)
    ours = int(crc_of(np.frombuffer(data, np.uint64), U(0xFFFFFFFF))) ^ 0xFFFFFFFF
    assert ours == crcmod.predefined.mkCrcFun("crc-32c")(data)


@given(st.lists(WORDS, max_size=8), st.lists(WORDS, max_size=8))
def test_crc_goes_on(front: list[int], back: list[int]) -> None:
    """A chain may be cut anywhere."""
    whole, *parts = (np.array(words, np.uint64) for words in (front + back, front, back))
    seed = U(0x12345678)
    assert crc_of(whole, seed) == crc_of(parts[1], crc_of(parts[0], seed))


# -- memory ----------------------------------------------------------------------------------------


@kernel(entry=True)
def pass_through(cells, value):
    """Store and load a value in every ordering, each through a cell of its own."""
    atomics.store_release(cells, U(0), value)
    atomics.store_relaxed(cells, U(1), value)
    atomics.store_ordered(cells, U(2), value)
    atomics.fence()
    atomics.pause()
    atomics.prefetch(cells, U(1) << U(40))
    return (
        atomics.load_acquire(cells, U(0)),
        atomics.load_relaxed(cells, U(1)),
        atomics.load_ordered(cells, U(2)),
    )


@given(WORDS)
def test_shared_cells(value: int) -> None:
    assert pass_through(np.zeros(8, np.uint64), U(value)) == (value,) * 3


@kernel(entry=True)
def store_lines(address, words):
    atomics.store_line(
        address, words[0], words[1], words[2], words[3], words[4], words[5], words[6], words[7]
    )
    atomics.stream_line(
        address + 64, words[0], words[1], words[2], words[3], words[4], words[5], words[6], words[7]
    )
    atomics.stream_fence()


def test_lines() -> None:
    words, target = np.arange(1, 9, dtype=np.uint64) << U(56), huge(24, np.uint64)
    store_lines(address_of(target), words)
    assert target.tolist() == [*words.tolist(), *words.tolist(), *[0] * 8]


@kernel(entry=True)
def poke(address, value):
    atomics.store_u64(address, value)
    atomics.store_u32(address + 9, value)
    atomics.store_u16(address + 15, value)
    atomics.store_u8(address + 19, value)
    atomics.store_u64_big(address + 21, value)
    atomics.store_u32_big(address + 31, value)
    atomics.store_u16_big(address + 37, value)
    return (
        atomics.load_u64(address),
        atomics.load_u32(address + 9),
        atomics.load_u16(address + 15),
        atomics.load_u8(address + 19),
        atomics.load_u64_big(address + 21),
        atomics.load_u32_big(address + 31),
        atomics.load_u16_big(address + 37),
    )


@given(WORDS)
def test_raw_memory_at_any_alignment(value: int) -> None:
    memory = np.zeros(64, np.uint8)
    widths = (8, 4, 2, 1, 8, 4, 2)
    assert poke(address_of(memory) + 1, U(value)) == tuple(
        value & ((1 << 8 * width) - 1) for width in widths
    )
    data = memory.tobytes()[1:]
    places = (0, 9, 15, 19, 21, 31, 37)
    for place, width, order in zip(places, widths, ["little"] * 4 + ["big"] * 3, strict=True):
        expected = (value & ((1 << 8 * width) - 1)).to_bytes(width, order)  # type: ignore[arg-type]
        assert data[place : place + width] == expected


@kernel(entry=True)
def move(target, source, count):
    atomics.copy_bytes(target, source, count)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 24))
def test_copy_of_overlapping_bytes(target: int, source: int, count: int) -> None:
    memory = np.arange(64, dtype=np.uint8)
    expected = bytearray(range(64))
    expected[target : target + count] = bytes(range(64))[source : source + count]
    move(address_of(memory) + target, address_of(memory) + source, count)
    assert memory.tobytes() == bytes(expected)


@kernel(entry=True)
def two_readings():
    first = atomics.cycles()
    return first, atomics.cycles()


def test_cycle_counter_does_not_go_back() -> None:
    first, second = two_readings()
    assert 0 < first <= second


# -- the other architecture ------------------------------------------------------------------------

AARCH64 = "aarch64-unknown-linux-gnu"
CRC_FEATURES = "+crc"


def aarch64_assembly(source: str) -> str:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(f'target triple = "{AARCH64}"\n{source}')
    module.verify()
    machine = llvm.Target.from_triple(AARCH64).create_target_machine(features=CRC_FEATURES)
    return str(machine.emit_assembly(module))


@pytest.mark.parametrize(
    ("name", "instruction"),
    [
        ("load_acquire", "ldar"),
        ("store_release", "stlr"),
        ("fence", "dmb"),
        ("pause", "yield"),
        ("crc32c_u64", "crc32cx"),
        ("crc32c_u32", "crc32cw"),
        ("prefetch", "prfm"),
        ("byte_swap", "rev"),
        ("stream_fence", "dmb"),
        ("stream_line", "stnp"),
        ("cycles", "CNTVCT_EL0"),  # pmccntr_el0 is not readable by user programs
    ],
)
def test_aarch64_instruction(name: str, instruction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the IR that an intrinsic generates there is written by the same function."""
    assert instruction in aarch64_assembly(aarch64_ir(name, monkeypatch))


def aarch64_ir(name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """LLVM IR of one intrinsic, generated as on an aarch64 machine."""
    import importlib.util
    import platform

    from llvmlite import ir
    from numba import types
    from numba.core.registry import cpu_target

    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    spec = importlib.util.spec_from_file_location("atomics_aarch64", atomics.__file__)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.ARM and not module.X86

    u64, i64, array = types.uint64, types.int64, types.Array(types.uint64, 1, "C")
    operands = {
        "load_acquire": (array, u64),
        "store_release": (array, u64, u64),
        "prefetch": (array, u64),
        "crc32c_u64": (u64, u64),
        "crc32c_u32": (u64, u64),
        "byte_swap": (u64,),
        "stream_line": (i64, *[u64] * 8),
    }.get(name, ())
    context = cpu_target.target_context
    signature, generate = getattr(module, name)._defn(None, *operands)
    result = ir.VoidType() if signature.return_type is types.void else ir.IntType(64)
    made = ir.Module(name)
    arguments = [context.get_value_type(operand) for operand in operands]
    function = ir.Function(made, ir.FunctionType(result, arguments), "probe")
    builder = ir.IRBuilder(function.append_basic_block())
    value = generate(context, builder, signature, list(function.args))
    if isinstance(result, ir.VoidType):
        builder.ret_void()
    else:
        builder.ret(value)
    text = str(made)
    return "\n".join(line for line in text.splitlines() if not line.startswith("target "))
