#!/usr/bin/env python3
"""Prints what the machine code of our kernels asks of a GPU, from object files that nvcc made. Needs neither GPU nor toolkit.

    tools/machine_code.py build/release/liblathe.a [KERNEL...]

A row per kernel and architecture, for the worst instance of its template: registers, shared memory, stack (what is spilled lies
there), the part of an SM's threads that can be there at once, the widest access to global memory, and the instructions per 16 bytes
of global memory in the loop that moves most of them, the worst of the instances with the widest access. The last column says what to look at first.

The format is nvcc's own and was read from files of nvcc 13.0: fat binaries, in which cubins, ELF files, lie alone or compressed by
Zstandard; opcodes and sizes of accesses as cuobjdump prints them, compared with it for sm_90.
"""
import collections
import ctypes
import pathlib
import re
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from kernel_report import demangle, short_name  # noqa: E402

FATBIN = b"\x50\xed\x55\xba\x01\x00\x10\x00"  # magic number, version, size of the header
CUBIN, ZSTANDARD, COMPRESSED = 2, 0x8000, 0xF000
REGISTERS, STACK, THREADS = 0x2F, 0x11, 0x05  # attributes in .nv.info
LOADS, STORES = {0x381, 0x981, 0x380, 0x980}, {0x386, 0x986, 0x385, 0x985}  # LDG, LD; STG, ST
BRANCH = 0x947
BYTES = (1, 1, 2, 2, 4, 8, 16, 16)  # of the sizes U8, S8, U16, S16, 32, 64, 128

# Of an SM: threads, blocks, bytes of shared memory (CUDA C++ Programming Guide, Compute Capabilities). All have 65,536 registers.
SM = {75: (1024, 16, 65536), 80: (2048, 32, 167936), 86: (1536, 16, 102400), 87: (1536, 16, 167936), 89: (1536, 24, 102400),
      90: (2048, 32, 233472), 100: (2048, 32, 233472), 103: (2048, 32, 233472), 120: (1536, 32, 102400)}
BLOCK = 256  # threads of kernels without __launch_bounds__

# threads: of __launch_bounds__ if it is `bounded`, else BLOCK.
Kernel = collections.namedtuple("Kernel", "symbol architecture registers shared stack threads code bounded")
Loop = collections.namedtuple("Loop", "instructions bytes widest")


def decompress(data, made):
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_decompress.restype = ctypes.c_size_t
    out = ctypes.create_string_buffer(made)
    got = library.ZSTD_decompress(out, ctypes.c_size_t(made), data, ctypes.c_size_t(len(data)))
    if got != made:
        raise ValueError(f"{made} bytes of machine code do not come out of the file")
    return out.raw


def cubins(data):
    """(architecture, ELF file) for each in a file that holds fat binaries, such as an object, a program or a static library."""
    at = data.find(FATBIN)
    while at >= 0:
        content, = struct.unpack_from("<Q", data, at + 8)
        entry, end = at + 16, at + 16 + content
        while entry < end:
            kind, _, head, size, packed = struct.unpack_from("<HHIQI", data, entry)
            architecture, = struct.unpack_from("<I", data, entry + 28)
            flags, _, made = struct.unpack_from("<QQQ", data, entry + 40)
            if kind == CUBIN:
                body = data[entry + head:entry + head + size]
                if flags & COMPRESSED not in (0, ZSTANDARD):
                    raise ValueError(f"machine code is compressed in an unknown way: flags {flags:#x}")
                yield architecture, decompress(body[:packed], made) if flags & COMPRESSED else body
            entry += head + size
        at = data.find(FATBIN, end)


def attributes(info):
    """(attribute, 32-bit numbers) of a section .nv.info."""
    at = 0
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == 4:  # the others hold their value in place of a size
            yield attribute, struct.unpack_from(f"<{size // 4}I", info, at)
            at += size


def kernels_in(elf, architecture):
    table, = struct.unpack_from("<Q", elf, 40)
    _, count, names_at = struct.unpack_from("<HHH", elf, 58)
    rows = [struct.unpack_from("<IIQQQQIIQQ", elf, table + 64 * i) for i in range(count)]

    def text(section, offset):
        begin = rows[section][4] + offset
        return elf[begin:elf.index(b"\0", begin)].decode()

    sections = {text(names_at, row[0]): row for row in rows}
    content = {name: elf[row[4]:row[4] + row[5]] for name, row in sections.items() if row[1] != 8}  # not NOBITS
    symbols = sections[".symtab"]
    symbol = [text(symbols[6], struct.unpack_from("<I", content[".symtab"], at)[0]) for at in range(0, symbols[5], 24)]
    of = {kind: {symbol[v[0]]: v[1] for a, v in attributes(content[".nv.info"]) if a == kind} for kind in (REGISTERS, STACK)}
    for name in sections:
        if name.startswith(".text."):
            own = name[len(".text."):]
            bounds = [v for a, v in attributes(content.get(f".nv.info.{own}", b"")) if a == THREADS]
            shared = sections.get(f".nv.shared.{own}")
            yield Kernel(own, architecture, of[REGISTERS].get(own, 0), shared[5] if shared else 0, of[STACK].get(own, 0),
                         bounds[0][0] * bounds[0][1] * bounds[0][2] if bounds else BLOCK, content[name], bool(bounds))


def kernels_of(path):
    return [kernel for architecture, elf in cubins(pathlib.Path(path).read_bytes()) for kernel in kernels_in(elf, architecture)]


def instructions(code):
    """(opcode, low word, high word) of each; 16 bytes since sm_70."""
    for low, high in struct.iter_unpack("<QQ", code):
        yield low & 0xFFF, low, high


def access_bytes(high):
    return BYTES[high >> 9 & 7]


def branch_target(index, low):
    """The index of the instruction that a branch at `index` leads to."""
    beyond = low >> 34 & ((1 << 30) - 1)
    offset = (beyond - (1 << 30) if beyond >> 29 else beyond) << 8 | low >> 16 & 0xFF
    return index + 1 + offset // 4


def loops(code):
    """The innermost loops that move global memory; the whole kernel if there is none."""
    words = list(instructions(code))
    ranges = [(branch_target(i, low), i) for i, (opcode, low, _) in enumerate(words) if opcode == BRANCH]
    ranges = [r for r in ranges if 0 <= r[0] < r[1]]
    innermost = [a for a in ranges if not any(a[0] <= b[0] and b[1] <= a[1] and a != b for b in ranges)]
    found = []
    for begin, end in innermost + [(0, len(words) - 1)]:
        moved = [access_bytes(high) for opcode, _, high in words[begin:end + 1] if opcode in LOADS | STORES]
        if moved:
            found.append(Loop(end - begin + 1, sum(moved), max(moved)))
    return found[:-1] or found


def hottest(kernel):
    """The loop that moves most at once: the one for whole packets, where there is another for the rest."""
    return max(loops(kernel.code), key=lambda loop: (loop.widest, loop.bytes), default=Loop(len(kernel.code) // 16, 0, 0))


def fits(kernel):
    """How many blocks fit into an SM, by what limits them."""
    threads, blocks, shared = SM[kernel.architecture]
    warps = -(-kernel.threads // 32)
    registers = -(-max(kernel.registers, 1) * 32 // 256) * 256 * warps  # given to warps in units of 256
    return {"threads": min(threads // (32 * warps), blocks), "registers": 65536 // registers, "shared memory": shared // (kernel.shared + 1024)}


def occupancy(kernel):
    """The part of an SM's threads that blocks of this kernel can fill."""
    return min(fits(kernel).values()) * -(-kernel.threads // 32) * 32 / SM[kernel.architecture][0]


def advice(kernel, loop):
    if kernel.stack:
        return "stack"
    if occupancy(kernel) < 0.5:
        return min(fits(kernel), key=fits(kernel).get)
    if not loop.bytes:
        return "moves nothing"
    if loop.widest < 16:
        return "narrow accesses"
    # An H100 makes 170 instructions of a thread in the time in which a copy moves 16 bytes.
    return "instructions" if 16 * loop.instructions / loop.bytes > 85 else "memory"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        kernels = kernels_of(sys.argv[1])
    except (OSError, ValueError, struct.error) as error:
        sys.exit(f"machine_code.py: {sys.argv[1]}: {error}")
    if not kernels:
        sys.exit(f"machine_code.py: {sys.argv[1]} holds no machine code for a GPU")
    names = demangle([k.symbol for k in kernels])
    rows = collections.defaultdict(list)
    for kernel in kernels:
        name = short_name(names[kernel.symbol])
        if not sys.argv[2:] or name in sys.argv[2:]:
            rows[name, kernel.architecture].append(kernel)
    print(f"{'kernel':<34} sm_ instances registers  shared  stack occupancy widest instructions/16 B  look at")
    for (name, architecture), row in sorted(rows.items()):
        worst = max(row, key=lambda k: (k.stack, -occupancy(k), k.registers))
        widest = max((hottest(k) for k in row), key=lambda loop: (loop.widest, loop.instructions / max(loop.bytes, 1)))
        per16 = f"{16 * widest.instructions / widest.bytes:.0f}" if widest.bytes else "-"
        print(f"{name:<34} {architecture:>3} {len(row):>9} {max(k.registers for k in row):>9} {max(k.shared for k in row):>7} {worst.stack:>6} "
              f"{occupancy(worst):>8.0%}  {widest.widest:>6} {per16:>18}  {advice(worst, widest)}")


if __name__ == "__main__":
    main()
