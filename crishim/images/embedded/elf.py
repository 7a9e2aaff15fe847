"""The few pieces of ELF that the pause program needs: read an assembler's object file, write an executable.

Writing the header ourselves instead of linking makes the file the same byte for byte, whatever version of the
assembler translated the source.
"""

from __future__ import annotations

import struct

MACHINES = {"amd64": 62, "arm64": 183}
"""Architecture as Go and the engines name it → e_machine."""

_BASE = 0x400000  # where the file is mapped
_PAGE = 0x10000  # the largest page size of these machines; a segment's file offset and address agree modulo this
_EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
_PHDR = struct.Struct("<IIQQQQQQ")
_SHDR = struct.Struct("<IIQQQQIIQQ")
_IDENT = b"\x7fELF\x02\x01\x01" + bytes(9)  # 64 bit, little endian, version 1, System V
_ET_REL, _ET_EXEC = 1, 2
_PT_LOAD, _PT_GNU_STACK = 1, 0x6474E551
_R, _W, _X = 4, 2, 1
_SHT_RELA, _SHT_REL = 4, 9
_SHF_ALLOC = 2


def text_of(obj: bytes, arch: str) -> bytes:
    """Return the code of an object file whose only content is its `.text`, with nothing left to relocate.

    Raises ValueError for an object of another machine, with other loaded sections, or with relocations.
    """
    ident, kind, machine, *_ = header = _EHDR.unpack_from(obj)
    if not ident.startswith(_IDENT[:6]) or kind != _ET_REL or machine != MACHINES[arch]:
        raise ValueError(f"not an object file for {arch}")
    offset, size, count, names_at = header[6], header[11], header[12], header[13]
    sections = [_SHDR.unpack_from(obj, offset + size * index) for index in range(count)]
    names = sections[names_at][4]
    text = b""
    for name_at, section_kind, flags, _, start, length, *_ in sections:
        name = obj[names + name_at : obj.index(b"\0", names + name_at)].decode("ascii")
        if section_kind in (_SHT_RELA, _SHT_REL) and name.endswith(".text"):
            raise ValueError(f"{name}: the code needs a linker")
        if name == ".text":
            text = obj[start : start + length]
        elif flags & _SHF_ALLOC and length and not name.startswith(".note."):
            raise ValueError(f"{name}: only .text is used")
    return text


def executable(code: bytes, arch: str) -> bytes:
    """Return a static executable that starts at the first byte of `code`: one segment, not writable, no sections."""
    start = _EHDR.size + 2 * _PHDR.size
    size = start + len(code)
    header = _EHDR.pack(
        _IDENT, _ET_EXEC, MACHINES[arch], 1, _BASE + start, _EHDR.size, 0, 0, _EHDR.size, _PHDR.size, 2, 0, 0, 0
    )
    load = _PHDR.pack(_PT_LOAD, _R | _X, 0, _BASE, _BASE, size, size, _PAGE)
    stack = _PHDR.pack(_PT_GNU_STACK, _R | _W, 0, 0, 0, 0, 0, 16)  # the stack is not executable
    return header + load + stack + code
