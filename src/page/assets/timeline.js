// Tasks of workers over time: rows of bars on a canvas, with the bandwidth of loads above them. What it comes to is
// also in the table of functions, for who cannot see it.
"use strict";
{
  const data = JSON.parse($("#timeline-data").textContent);
  const canvas = $("#timeline-canvas"), range = $("#timeline-range");
  const kLeft = 52, kRate = 84, kAxis = 22, kLoad = 1;
  let from = 0, to = data.length, colors = {}, chosen = -2, row = 6, dark = false;
  const name_of = f => f < 0 ? "empty" : data.functions[f];
  const color_of = f => f < 0 ? colors.line : `hsl(${f * 137.5 % 360} 58% ${dark ? 62 : 46}%)`;
  const across = us => kLeft + (us - from) / (to - from) * (canvas.clientWidth - kLeft);
  const by_worker = Array.from({ length: data.workers }, () => []);
  for (const bar of data.bars) by_worker[bar[0]].push(bar);

  function theme() {
    const style = getComputedStyle(canvas);
    const color = token => {
      canvas.style.color = `var(${token})`;
      return style.color;
    };
    colors = { ink: color("--ink"), soft: color("--soft"), line: color("--line"), paper: color("--paper"),
               panel: color("--panel"), rate: color("--block-line") };
    canvas.style.color = "";
    // Of a dark theme the paper is darker than the ink.
    const light = text => text.match(/[\d.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0);
    dark = light(colors.paper) < light(colors.ink);
    for (const mark of $$(".functions i")) mark.style.background = color_of(Number(mark.dataset.function));
    draw();
  }

  function step_of(length) {
    const power = 10 ** Math.floor(Math.log10(length / 6));
    return power * [1, 2, 5, 10].find(times => length / (power * times) <= 8);
  }

  function draw() {
    const width = canvas.clientWidth, ratio = devicePixelRatio || 1;
    row = Math.max(5, Math.min(16, Math.floor(620 / data.workers)));
    const height = kRate + kAxis + row * data.workers;
    canvas.style.height = `${height}px`;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const g = canvas.getContext("2d");
    g.scale(ratio, ratio);
    g.fillStyle = colors.paper;
    g.fillRect(0, 0, width, height);
    g.font = "11px ui-monospace, 'DejaVu Sans Mono', monospace";
    g.textBaseline = "middle";

    const top = kRate + kAxis, step = step_of(to - from);
    g.textAlign = "center";
    for (let us = Math.ceil(from / step) * step; us <= to; us += step) {
      g.fillStyle = colors.line;
      g.fillRect(across(us), kRate, 1, height - kRate);
      g.fillStyle = colors.soft;
      if (across(us) > kLeft + 20 && across(us) < width - 20)
        g.fillText(`${Number(us.toPrecision(6))} µs`, across(us), kRate + kAxis / 2);
    }
    const every = 2 ** Math.ceil(Math.log2(14 / row));
    for (let worker = 0; worker < data.workers; ++worker) {
      const y = top + worker * row;
      if (worker % (2 * every) < every) {
        g.fillStyle = colors.panel;
        g.globalAlpha = 0.6;
        g.fillRect(kLeft, y, width - kLeft, row);
        g.globalAlpha = 1;
      }
      if (worker % every === 0) {
        g.fillStyle = colors.soft;
        g.textAlign = "right";
        g.fillText(worker, kLeft - 8, y + row / 2 + 1);
      }
      for (const [, role, f, begin, length] of by_worker[worker]) {
        if (begin + length < from || begin > to) continue;
        const left = Math.max(across(begin), kLeft), right = across(begin + length), load = role === kLoad;
        g.fillStyle = color_of(f);
        g.globalAlpha = chosen !== -2 && f !== chosen ? 0.12 : load ? 0.75 : 1;
        g.fillRect(left, y + row * (load ? 0.06 : 0.4), Math.max(right - left, 0.4), row * (load ? 0.26 : 0.54));
        g.globalAlpha = 1;
      }
    }

    const most = Math.max(...data.bandwidth, 1), part = data.length / data.bandwidth.length;
    g.fillStyle = colors.rate;
    data.bandwidth.forEach((value, n) => {
      const left = Math.max(across(n * part), kLeft), right = across((n + 1) * part);
      const high = value / most * 56;
      // A little wider, or the edges of neighbours would show as lines.
      if (right > kLeft && left < width) g.fillRect(left, kRate - high, right - left + 0.4, high);
    });
    g.textAlign = "left";
    g.fillStyle = colors.ink;
    g.fillText(`bandwidth of loads, at most ${(most / 1000).toFixed(2)} TB/s`, kLeft + 4, 12);
    g.fillStyle = colors.soft;
    g.textAlign = "right";
    g.fillText("worker", kLeft - 8, kRate + kAxis / 2);
    range.textContent = `${from.toFixed(2)} to ${to.toFixed(2)} µs`;
  }

  function show(a, b) {
    const width = Math.min(Math.max(b - a, data.length / 5000), data.length);
    from = Math.min(Math.max(a, 0), data.length - width);
    to = from + width;
    draw();
  }
  const zoom = (by, at = (from + to) / 2) => show(at - (at - from) * by, at + (to - at) * by);
  const pan = part => show(from + part * (to - from), to + part * (to - from));
  const time_at = e => from + Math.max(0, e.offsetX - kLeft) / (canvas.clientWidth - kLeft) * (to - from);
  const keys = { ArrowLeft: () => pan(-0.2), a: () => pan(-0.2), ArrowRight: () => pan(0.2), d: () => pan(0.2),
                 "+": () => zoom(0.7), w: () => zoom(0.7), "-": () => zoom(1 / 0.7), s: () => zoom(1 / 0.7),
                 0: () => show(0, data.length), Home: () => show(0, to - from),
                 End: () => show(data.length - (to - from), data.length) };
  canvas.onkeydown = e => {
    const move = e.ctrlKey || e.metaKey ? undefined : keys[e.key];
    if (!move) return;
    e.preventDefault();
    move();
  };
  // The wheel scrolls the page until the timeline has the focus, and a scroll that has begun is the page's to its end.
  canvas.addEventListener("wheel", e => {
    if (!e.cancelable || (document.activeElement !== canvas && !e.ctrlKey)) return;
    e.preventDefault();
    if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) pan(e.deltaX / 1000);
    else zoom(Math.exp(e.deltaY / 500), time_at(e));
  }, { passive: false });
  let drag = null;
  canvas.onpointerdown = e => {
    drag = [e.clientX, from, to];
    canvas.setPointerCapture(e.pointerId);
  };
  canvas.onpointerup = () => { drag = null; };
  canvas.onpointermove = e => {
    if (drag) {
      const by = (drag[0] - e.clientX) / (canvas.clientWidth - kLeft) * (drag[2] - drag[1]);
      show(drag[1] + by, drag[2] + by);
    }
    const y = (e.offsetY - kRate - kAxis) / row, worker = Math.floor(y), at = time_at(e);
    if (worker < 0 || worker >= data.workers || e.offsetX < kLeft) return hide_tip();
    const slack = 1.5 * (to - from) / canvas.clientWidth;
    const role = y - worker < 0.36 ? kLoad : 2;
    const hit = by_worker[worker].find(b => b[1] === role && b[3] - slack <= at && at <= b[3] + b[4] + slack);
    if (!hit) return hide_tip();
    show_tip(`${name_of(hit[2])}, ${role === kLoad ? "load" : "compute"}\nworker ${worker}\n` +
             `${hit[4].toFixed(2)} µs, from ${hit[3].toFixed(2)} µs`, e.clientX, e.clientY);
  };
  canvas.onpointerleave = hide_tip;
  const buttons = { in: keys["+"], out: keys["-"], all: keys[0] };
  for (const [id, move] of Object.entries(buttons)) $(`#timeline-${id}`).onclick = move;
  for (const button of $$(".functions button")) {
    button.onclick = () => {
      const f = Number(button.dataset.function);
      chosen = chosen === f ? -2 : f;
      for (const other of $$(".functions button"))
        other.setAttribute("aria-pressed", Number(other.dataset.function) === chosen);
      draw();
    };
  }
  addEventListener("resize", draw);
  document.addEventListener("theme", theme);
  theme();
}
