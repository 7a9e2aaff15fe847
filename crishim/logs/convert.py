"""From the engine's json-file lines to the lines of a CRI log.

    {"log":"TEXT\n","stream":"stdout","time":"TIME"}     ->     TIME stdout F TEXT
    {"log":"TEXT","stream":"stderr","time":"TIME"}       ->     TIME stderr P TEXT

A pure function of whole lines: converting two blocks gives what converting both at once gives. What was written before
a crash is recognized by converting again.

Whole blocks are converted by a few passes of C code over all lines at once. What makes that safe is the engine's own
encoding: within a text each quote is escaped and no control character is raw, so that the separators between fields
cannot occur in it. Blocks with anything unusual are converted line by line.
"""

from __future__ import annotations

from itertools import repeat

PART = 16384
"""Most bytes of text in a line of the log; longer ones are cut, and all parts but the last are tagged P."""

_BEGIN = b'{"log":"'
_SLASH, _QUOTE = b"\x01", b"\x02"
"""Stand for an escaped backslash or quote meanwhile; the engine escapes control characters, so no block holds them."""
_SIMPLE = (
    (b"\\r", b"\r"),
    (b"\\t", b"\t"),
    (b"\\b", b"\b"),
    (b"\\f", b"\f"),
    (b"\\/", b"/"),
)
_LIMIT_OF_CODES = 64
"""Different \\u escapes in one block: beyond that, line by line is cheaper."""


def convert(block: bytes) -> tuple[bytes, int]:
    """The log's lines for a block of whole spool lines, and how many of these were damaged and are left out."""
    return _convert_ordinary(block) or _convert_block(block) or _convert_lines(block)


def _convert_ordinary(block: bytes) -> tuple[bytes, int] | None:
    """Lines that all came from one stream and hold nothing escaped; None if one is different."""
    if not (block.startswith(_BEGIN) and block.endswith(b'"}\n')):
        return None
    stream = b"stdout" if block.rfind(b'"stdout","time":"', -64) > 0 else b"stderr"
    body = block[8:-3].replace(b'\\n","stream":"%b","time":"' % stream, b"\n")
    fields = body.replace(b'"}\n{"log":"', b"\n").split(b"\n")
    if len(fields) != 2 * block.count(b"\n"):
        return None
    texts, times = fields[0::2], fields[1::2]
    lines = b"\n".join(map((b" %b F " % stream).join, zip(times, texts, strict=True)))
    # A quote that is not escaped is of a field that is not known here.
    if b"\\" in lines or b'"' in lines or len(max(texts, key=len)) > PART:
        return None
    if not all(times) or b" " in b"".join(times):
        return None
    return lines + b"\n", 0


def _convert_block(block: bytes) -> tuple[bytes, int] | None:
    """All lines at once; None if there is anything that needs a closer look."""
    if not (block.startswith(_BEGIN) and block.endswith(b'"}\n')) or _SLASH in block or _QUOTE in block:
        return None
    count = block.count(b"\n")
    escaped = b"\\\\" in block
    if escaped:
        block = block.replace(b"\\\\", _SLASH)
    quoted = b'\\"' in block
    if quoted:
        block = block.replace(b'\\"', _QUOTE)
    block = block[8:-3].replace(b'\\n","stream":"', b"\nF\n")
    partial = b'","stream":"' in block
    if partial:
        block = block.replace(b'","stream":"', b"\nP\n")
    # Text, tag, stream and time of each line; any other shape of a line gives another number of fields.
    fields = block.replace(b'","time":"', b"\n").replace(b'"}\n{"log":"', b"\n").split(b"\n")
    if len(fields) != 4 * count:
        return None
    texts, tags, streams, times = fields[0::4], fields[1::4], fields[2::4], fields[3::4]
    if not {b"stdout", b"stderr"}.issuperset(streams) or not {b"F", b"P"}.issuperset(tags):
        return None
    if len(max(texts, key=len)) > PART or b" " in b"".join(times) or not all(times):
        return None
    if partial:
        lines = b"\n".join(map(b" ".join, zip(times, streams, tags, texts, strict=True)))
    elif streams.count(streams[0]) == count:
        lines = b"\n".join(map((b" %b F " % streams[0]).join, zip(times, texts, strict=True)))
    else:
        lines = b"\n".join(map(b" ".join, zip(times, streams, repeat(b"F", count), texts, strict=True)))
    if b'"' in lines:
        return None  # not escaped: of a field that is not known here, or what a crash of the engine left
    if b"\\" in lines:
        plain = _unescape(lines)
        if plain is None:
            return None
        lines = plain
    if quoted:
        lines = lines.replace(_QUOTE, b'"')
    if escaped:
        lines = lines.replace(_SLASH, b"\\")
    return lines + b"\n", 0


def _unescape(text: bytes) -> bytes | None:
    """Without escapes; None where one stands for a line's end, half a character, or one of the stand-ins."""
    for escape, plain in _SIMPLE:
        if escape in text:
            text = text.replace(escape, plain)
    if b"\\u" in text:
        codes = {part[:4] for part in text.split(b"\\u")[1:]}
        if len(codes) > _LIMIT_OF_CODES:
            return None
        for code in codes:
            try:
                number = int(code, 16)
            except ValueError:
                return None
            if number in (0x01, 0x02, 0x0A, 0x5C) or 0xD800 <= number < 0xE000:
                return None
            text = text.replace(b"\\u" + code, chr(number).encode())
    return None if b"\\" in text else text


def _convert_lines(block: bytes) -> tuple[bytes, int]:
    out: list[bytes] = []
    damaged = 0
    for line in block[:-1].split(b"\n"):
        if not _add_entry(out, line):
            damaged += 1
            # An engine that was killed within a line goes on behind what there is of it.
            if (start := line.rfind(_BEGIN)) > 0:
                _add_entry(out, line[start:])
    return b"".join(out), damaged


def _add_entry(out: list[bytes], line: bytes) -> bool:
    """Add the lines of one entry; False where it is none."""
    from json import loads

    try:
        entry = loads(line)
        text, stream, time = entry["log"], entry["stream"], entry["time"]
        # A lone surrogate is what the engine never writes and UTF-8 cannot hold.
        head, body = f"{time} {stream} ".encode(), text.encode(errors="replace")
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
    if head.count(b" ") != 2 or b"\n" in head or stream not in ("stdout", "stderr"):
        return False
    _add_parts(out, head, body)
    return True


def _add_parts(out: list[bytes], head: bytes, text: bytes) -> None:
    """Add one entry's text as lines: cut at line ends, and at `PART` bytes but never within a character."""
    whole, newline, rest = text.rpartition(b"\n")
    lines = [(line, b"F ") for line in whole.split(b"\n")] if newline else []
    if rest or not newline:
        lines.append((rest, b"P "))
    for line, tag in lines:
        start = 0
        while len(line) - start > PART:
            end = start + PART
            while end > start + PART - 4 and line[end] & 0xC0 == 0x80:
                end -= 1
            out.append(b"%b%b%b\n" % (head, b"P ", line[start:end]))
            start = end
        out.append(b"%b%b%b\n" % (head, tag, line[start:]))
