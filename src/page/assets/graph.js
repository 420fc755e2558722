// Graphs beside their source: what the pointer or the keyboard is on is described below and marked in the text, and
// lines of the text mark what they are in the graph.
"use strict";
for (const split of $$(".split")) {
  const view = $(".drawing", split), svg = $("svg", view), detail = $(".detail", split);
  const nodes = $$(".node", svg);
  const natural = svg.viewBox.baseVal;
  const level = $(".zoom", split);
  let scale = 1;
  function zoom(to) {
    scale = Math.min(Math.max(to, 0.1), 3);
    svg.setAttribute("width", natural.width * scale);
    svg.setAttribute("height", natural.height * scale);
    level.textContent = `${Math.round(scale * 100)} %`;
  }
  // As large as it fits, but legible: a tall graph fits in its width.
  const fit = () => zoom(Math.min(1, Math.max(0.55, (view.clientWidth - 4) / natural.width)));
  $('[data-zoom="in"]', split).onclick = () => zoom(scale * 1.25);
  $('[data-zoom="out"]', split).onclick = () => zoom(scale / 1.25);
  $('[data-zoom="fit"]', split).onclick = fit;
  fit();
  // A wide graph begins where its first box is.
  const first = nodes[0]?.getBoundingClientRect(), frame = view.getBoundingClientRect();
  if (first && first.right > frame.right) view.scrollLeft += first.left - frame.left - view.clientWidth / 2;

  const tabs = $$('[role="tab"]', split);
  const panels = tabs.map(tab => document.getElementById(tab.getAttribute("aria-controls")));
  function choose(n) {
    tabs.forEach((tab, i) => {
      tab.setAttribute("aria-selected", i === n);
      tab.tabIndex = i === n ? 0 : -1;
      panels[i].hidden = i !== n;
    });
    show_marked();
  }
  tabs.forEach((tab, n) => {
    tab.onclick = () => choose(n);
    tab.onkeydown = e => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
      if (!by) return;
      const next = (n + by + tabs.length) % tabs.length;
      choose(next);
      tabs[next].focus();
    };
  });

  const text = $$("pre.mugraph > span", split), cuda = $$("pre.cuda > span", split);
  // Generated code says of each operator which statement of the µGraph it is.
  const said = new Map();
  cuda.forEach(line => {
    const found = /^\s*\/\/ (\w+(?:, \w+)*) = /.exec(line.textContent);
    if (found) said.set(found[1], [...(said.get(found[1]) ?? []), line]);
  });
  const lines_of = node => {
    const line = text[node.dataset.line - 1];
    if (!line) return [];
    const made = /^\s*(\w+(?:, \w+)*) = /.exec(line.textContent);
    const name = node.dataset.kernel && new RegExp(`\\b${node.dataset.kernel}(_block|_kernel)?\\(`);
    const kernel = name && cuda.find(one => name.test(one.textContent));
    return [line, ...(made ? said.get(made[1]) ?? [] : []), ...(kernel ? [kernel] : [])];
  };
  let marked = [], current = 0;
  function mark(node, follow) {
    for (const one of marked) one.classList.remove("at");
    marked = node ? [node, ...lines_of(node)] : [];
    for (const one of marked) one.classList.add("at");
    detail.textContent = node ? node.dataset.detail : detail.dataset.empty;
    if (follow) show_marked();
  }
  // Scrolls the text that is seen to the first line that is marked.
  function show_marked() {
    const line = marked.find(one => one.localName === "span" && one.checkVisibility());
    if (!line) return;
    const pane = line.closest(".view");
    pane.scrollTop += line.getBoundingClientRect().top - pane.getBoundingClientRect().top - pane.clientHeight / 3;
  }
  function focus(n) {
    nodes[current].tabIndex = -1;
    current = n;
    nodes[current].tabIndex = 0;
    nodes[current].focus();
  }
  nodes.forEach((node, n) => {
    node.tabIndex = n === 0 ? 0 : -1;
    node.addEventListener("pointerover", e => { e.stopPropagation(); mark(node, false); });
    node.addEventListener("click", e => { e.stopPropagation(); focus(n); mark(node, true); });
    node.addEventListener("focus", () => mark(node, true));
    node.addEventListener("keydown", e => {
      const next = { ArrowDown: n + 1, ArrowRight: n + 1, ArrowUp: n - 1, ArrowLeft: n - 1, Home: 0,
                     End: nodes.length - 1 }[e.key];
      if (next === undefined) return;
      e.preventDefault();
      focus(Math.min(Math.max(next, 0), nodes.length - 1));
    });
  });
  svg.addEventListener("pointerleave", () => {
    const focused = document.activeElement;
    mark(nodes.includes(focused) ? focused : null, false);
  });
  text.forEach((line, n) => {
    line.addEventListener("click", () => {
      const node = nodes.find(one => Number(one.dataset.line) === n + 1);
      if (!node) return;
      mark(node, false);
      const box = node.getBoundingClientRect(), frame = view.getBoundingClientRect();
      view.scrollTop += box.top - frame.top - view.clientHeight / 3;
      view.scrollLeft += box.left - frame.left - view.clientWidth / 3;
    });
  });
  mark(null);
}
