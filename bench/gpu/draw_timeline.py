#!/usr/bin/env python3
"""Draws a part of a mega-kernel's step: draw_timeline.py TRACE.json OUT.svg [--layers FIRST-LAST] [--workers N].

TRACE.json is what `strata decode --trace TRACE.json` writes. Of the last step that was recorded, the picture has the
time from the first compute of layer FIRST to the last one of layer LAST. Above, the bandwidth of all workers' loads,
each of which counts evenly over its time. Below, N workers at equal distances: for each a thin row of loads above a row
of computes, in the colour of their operator. Python alone is needed.
"""
import argparse
import json
import pathlib
import sys

COLOURS = {"norm_qkv": "#4477aa", "attention": "#ee6677", "combine": "#aa3377", "output_projection": "#ccbb44",
           "gated_up": "#228833", "down": "#66ccee", "head": "#999933"}
OTHER = "#bbbbbb"
WIDTH, LEFT, ROW = 1000, 70, 14
TOP, STRIP = 30, 60  # of what lies below the legend; of the bandwidth
PARTS = 150
MOST = 5  # TB/s at the strip's top


def operator(event):
    return event["name"].split(".")[0]


def layer(event):
    parts = event["name"].split(".")
    return int(parts[1]) if len(parts) > 1 else None


def events_of_last_step(path):
    events = json.loads(pathlib.Path(path).read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    events = [e for e in events if e.get("ph") == "X"]
    if not events:
        sys.exit(f"{path}: no task was recorded")
    last = max(e["args"]["epoch"] for e in events)
    return [e for e in events if e["args"]["epoch"] == last]


def rectangle(x, y, width, height, colour, title):
    return (f'<rect x="{x:.1f}" y="{y}" width="{max(width, 0.4):.1f}" height="{height}" fill="{colour}">'
            f"<title>{title}</title></rect>")


def bandwidth(events, begin, end):
    """TB/s of loads in PARTS equal parts of the time from begin to end, in µs."""
    part = (end - begin) / PARTS
    found = [0.0] * PARTS
    for event in events:
        bytes_of_load = event["args"].get("bytes", 0)
        length = max(event["dur"], 1e-3)
        first = max(int((event["ts"] - begin) / part), 0)
        for n in range(first, PARTS if bytes_of_load else 0):
            low, high = begin + n * part, begin + (n + 1) * part
            shared = min(event["ts"] + length, high) - max(event["ts"], low)
            if low >= event["ts"] + length:
                break
            if shared > 0:  # the first part may lie before, by rounding
                found[n] += bytes_of_load * shared / length / part / 1e6
    return found


def strip(values, scale_x):
    """The bandwidth as a line, with a grid line at each TB/s."""
    height = lambda value: TOP + STRIP - STRIP * min(value, MOST) / MOST
    out = []
    for n in range(MOST + 1):
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{height(n):.1f}" y2="{height(n):.1f}" stroke="#ddd"/>')
    for n in (0, MOST):
        out.append(f'<text x="{LEFT - 6}" y="{height(n) + 4:.1f}" text-anchor="end">{n} TB/s</text>')
    points = " ".join(f"{scale_x(n + 0.5):.1f},{height(value):.1f}" for n, value in enumerate(values))
    out.append(f'<polyline points="{points}" fill="none" stroke="#444" stroke-width="1.2"/>')
    return out


def draw(events, first, last, count):
    inside = [e for e in events if e["cat"] == "compute" and layer(e) is not None and first <= layer(e) <= last]
    if not inside:
        sys.exit(f"no layer from {first} to {last} was recorded")
    begin, end = min(e["ts"] for e in inside), max(e["ts"] + e["dur"] for e in inside)
    scale = (WIDTH - LEFT - 10) / (end - begin)
    place = lambda time: LEFT + (min(max(time, begin), end) - begin) * scale
    workers = sorted({e["pid"] for e in inside})
    shown = [workers[i * len(workers) // count] for i in range(min(count, len(workers)))]
    rows = {worker: TOP + STRIP + 10 + i * ROW for i, worker in enumerate(shown)}
    height = TOP + STRIP + 10 + len(shown) * ROW
    out = strip(bandwidth(events, begin, end), lambda n: LEFT + n * (WIDTH - LEFT - 10) / PARTS)
    for worker, y in rows.items():
        out.append(f'<text x="{LEFT - 6}" y="{y + 9}" text-anchor="end">worker {worker}</text>')
    for event in sorted(events, key=lambda e: e["ts"]):
        if event["pid"] not in rows or event["ts"] + event["dur"] < begin or event["ts"] > end:
            continue
        load = event["cat"] == "load"
        x = place(event["ts"])
        y = rows[event["pid"]] + (0 if load else 4)
        title = f'{event["name"]}, {event["cat"]}, {event["dur"]:.1f} µs'
        out.append(rectangle(x, y, place(event["ts"] + event["dur"]) - x, 3 if load else 7,
                             COLOURS.get(operator(event), OTHER), title))
    step = next(s for s in (5, 10, 20, 50, 100, 200, 500, 1000) if (end - begin) / s <= 12)
    for n in range(int((end - begin) / step) + 1):
        x = place(begin + n * step)
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="26" y2="{height}" stroke="#ddd"/>')
        out.append(f'<text x="{x:.1f}" y="{height + 12}" text-anchor="middle">{n * step} µs</text>')
    names = [name for name in COLOURS if any(operator(e) == name for e in inside)]
    x = LEFT
    for name in names:
        out.append(rectangle(x, 6, 10, 10, COLOURS[name], name))
        out.append(f'<text x="{x + 14}" y="15">{name}</text>')
        x += 24 + 7 * len(name)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height + 18}" font-family="sans-serif" '
            f'font-size="10">\n<rect width="{WIDTH}" height="{height + 18}" fill="white"/>\n' + "\n".join(out) +
            "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("out")
    parser.add_argument("--layers", default="10-11")
    parser.add_argument("--workers", type=int, default=16)
    options = parser.parse_args()
    first, _, last = options.layers.partition("-")
    pathlib.Path(options.out).write_text(
        draw(events_of_last_step(options.trace), int(first), int(last or first), options.workers))


if __name__ == "__main__":
    main()
