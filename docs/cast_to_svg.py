#!/usr/bin/env python3
"""The last frame of a recorded screen as an SVG: cast_to_svg.py RECORDING OUT.svg [--light]

Reads the output of `retain chat --record` (asciicast version 2) and supports the sequences that
retain writes: cursor positions, colours, clearing. Blocks become rectangles without gaps."""
import json
import re
import sys
from xml.sax.saxutils import escape

CELL_W, CELL_H, FONT = 7.2, 15, 12
DARK, LIGHT = "#16181d", "#d6d8dd"  # background and text; exchanged by --light
DIM = "#8a8d94"
SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])")
EIGHTHS = "▁▂▃▄▅▆▇"
SHADES = {"█": 1, "▓": 0.9, "▒": 0.8, "░": 0.7}
BASIC = ["#000000", "#cd3131", "#0dbc79", "#e5e510", "#2472c8", "#bc3fbc", "#11a8cd", "#e5e5e5"]


def color(index):
    if index < 16:
        return BASIC[index % 8]
    if index >= 232:
        level = 8 + 10 * (index - 232)
        return f"#{level:02x}{level:02x}{level:02x}"
    index -= 16
    levels = (0, 95, 135, 175, 215, 255)
    r, g, b = levels[index // 36], levels[index // 6 % 6], levels[index % 6]
    return f"#{r:02x}{g:02x}{b:02x}"


class Screen:
    def __init__(self, width, height):
        self.resize(width, height)
        self.style = (None, None, False)

    def resize(self, width, height):
        self.width, self.height, self.x, self.y = width, height, 0, 0
        self.cursor = True
        self.cells = [[(" ", (None, None, False))] * width for _ in range(height)]

    def sgr(self, codes):
        fg, bg, bold, reverse, dim = None, None, False, False, False
        codes = [int(c or 0) for c in codes.split(";")]
        i = 0
        while i < len(codes):
            if codes[i] in (38, 48):
                true = codes[i + 1] == 2
                value = "#%02x%02x%02x" % tuple(codes[i + 2:i + 5]) if true else color(codes[i + 2])
                if codes[i] == 38:
                    fg = value
                else:
                    bg = value
                i += 4 if true else 2
            elif codes[i] == 1:
                bold = True
            elif codes[i] == 2:
                dim = True
            elif codes[i] == 7:
                reverse = True
            i += 1
        if reverse:
            fg, bg = bg or DARK, fg or LIGHT
        self.style = (DIM if dim else fg, bg, bold)

    def feed(self, text):
        at = 0
        while at < len(text):
            m = SEQUENCE.match(text, at)
            if not m:
                self.put(text[at])
                at += 1
                continue
            at = m.end()
            if m[2] == "H":
                row, column = (m[1] or "1;1").split(";")
                self.y, self.x = int(row) - 1, int(column) - 1
            elif m[2] == "m":
                self.sgr(m[1])
            elif m[2] == "J":
                self.resize(self.width, self.height)
            elif m[1] == "?25":
                self.cursor = m[2] == "h"

    def put(self, char):
        if self.y < self.height and self.x < self.width:
            self.cells[self.y][self.x] = (char, self.style)
        self.x += 1


def parts(char, style):
    """The fills of a cell from its top: (colour or None, opacity, height)."""
    fg, bg, _ = style
    if char in SHADES:
        return ((fg or LIGHT, SHADES[char], 1),)
    if char == "▀":
        return ((fg or LIGHT, 1, 0.5), (bg, 1, 0.5))
    if char in EIGHTHS:
        height = (EIGHTHS.index(char) + 1) / 8
        return ((bg, 1, 1 - height), (fg or LIGHT, 1, height))
    return ((bg, 1, 1),)


def rectangles(screen):
    """(colour, opacity, x, y, w, h) of backgrounds and blocks, neighbours joined."""
    for y, row in enumerate(screen.cells):
        run = None
        for x, cell in enumerate(row + [(" ", (None, None, False))]):
            fills = parts(*cell)
            if run and run[0] == fills:
                run[2] += 1
                continue
            if run:
                cells, at, width = run
                top = y
                for fill, opacity, height in cells:
                    if fill:
                        yield fill, opacity, at, top, width, height
                    top += height
            run = [fills, x, 1]


def texts(screen):
    """(colour, bold, x, y, text), one for each run of a style."""
    for y, row in enumerate(screen.cells):
        x = 0
        while x < len(row):
            style = row[x][1]
            end = x
            while end < len(row) and (row[end][1] == style or row[end][0] == " "):
                end += 1
            text = "".join(" " if c in SHADES or c in "▀" + EIGHTHS else c for c, _ in row[x:end])
            if text.strip():
                lead = len(text) - len(text.lstrip())
                yield style[0] or LIGHT, style[2], x + lead, y, text.strip()
            x = end


def number(value):
    return f"{value:.1f}".rstrip("0").rstrip(".")


def svg(screen):
    w, h = screen.width * CELL_W + 16, screen.height * CELL_H + 16
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(w)} {number(h)}" '
        f'width="{number(w)}" height="{number(h)}" font-family="ui-monospace,Menlo,Consolas,'
        f'DejaVu Sans Mono,monospace" font-size="{FONT}" xml:space="preserve">',
        f'<rect width="100%" height="100%" rx="6" fill="{DARK}"/>',
        '<g transform="translate(8 8)" shape-rendering="crispEdges">',
    ]
    for fill, opacity, x, y, width, height in rectangles(screen):
        extra = f' fill-opacity="{number(opacity)}"' if opacity < 1 else ""
        out.append(
            f'<rect x="{number(x * CELL_W)}" y="{number(y * CELL_H)}" '
            f'width="{number(width * CELL_W)}" height="{number(height * CELL_H)}" '
            f'fill="{fill}"{extra}/>'
        )
    out.append('</g><g transform="translate(8 8)">')
    for fill, bold, x, y, text in texts(screen):
        weight = ' font-weight="bold"' if bold else ""
        out.append(
            f'<text x="{number(x * CELL_W)}" y="{number(y * CELL_H + 11)}" fill="{fill}"{weight} '
            f'textLength="{number(len(text) * CELL_W)}">{escape(text)}</text>'
        )
    if screen.cursor:
        out.append(
            f'<rect x="{number(screen.x * CELL_W)}" y="{number(screen.y * CELL_H)}" '
            f'width="{CELL_W}" height="{CELL_H}" fill="{LIGHT}" fill-opacity=".6"/>'
        )
    out.append("</g></svg>")
    return "\n".join(out) + "\n"


def main():
    global DARK, LIGHT
    if "--light" in sys.argv:
        sys.argv.remove("--light")
        DARK, LIGHT = "#fbfbfa", "#24262b"
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as f:
        header = json.loads(f.readline())
        screen = Screen(header["width"], header["height"])
        for line in f:
            _, kind, text = json.loads(line)
            if kind == "o":
                screen.feed(text)
            elif kind == "r":
                screen.resize(*map(int, text.split("x")))
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        f.write(svg(screen))


if __name__ == "__main__":
    main()
