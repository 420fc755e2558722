// What every page does: the theme, where one is among the sections, tables that sort and filter.
"use strict";
const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

// Storage is missing in a notebook's frame: the choice then lasts as long as the page.
const kept = {
  get() { try { return localStorage.getItem("strata-theme"); } catch { return null; } },
  set(value) { try { localStorage.setItem("strata-theme", value); } catch { /* not kept */ } },
};
const themes = ["system", "light", "dark"];
function show_theme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  $("#theme").textContent = `Theme: ${theme}`;
  document.dispatchEvent(new Event("theme"));
}
let theme = themes.includes(kept.get()) ? kept.get() : "system";
show_theme(theme);
$("#theme").hidden = false;
$("#theme").onclick = () => {
  theme = themes[(themes.indexOf(theme) + 1) % themes.length];
  kept.set(theme);
  show_theme(theme);
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("theme")));

// In a notebook's frame (about:srcdoc) an address of a section would be one of the notebook.
for (const link of $$('a[href^="#"]')) {
  link.addEventListener("click", e => {
    if (location.protocol !== "about:") return;
    e.preventDefault();
    const to = $(link.getAttribute("href"));
    to.scrollIntoView();
    to.focus({ preventScroll: true });
  });
}

const links = $$("nav a");
const sections = links.map(link => $(link.getAttribute("href")));
function mark_section() {
  let now = 0;
  sections.forEach((section, n) => { if (section.getBoundingClientRect().top < innerHeight / 3) now = n; });
  if (innerHeight + scrollY >= document.documentElement.scrollHeight - 2) now = sections.length - 1;
  links.forEach((link, n) => {
    if (n === now) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  });
}
if (links.length > 0) {
  addEventListener("scroll", mark_section, { passive: true });
  mark_section();
}

// A cell sorts by the number that it shows, or by its text.
function key_of(row, column) {
  const cell = row.cells[column];
  const text = cell.dataset.sort ?? cell.textContent.trim();
  const number = parseFloat(text.replace(/[, ]/g, ""));
  return cell.classList.contains("n") ? (Number.isNaN(number) ? Infinity : number) : text;
}
function sort(table, column, down) {
  const body = table.tBodies[0];
  const rows = [...body.rows].map(row => [key_of(row, column), row]);
  rows.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1));
  body.append(...rows.map(([, row]) => row));
}
for (const table of $$("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.onclick = () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      sort(table, column, down);
    };
  });
  if (table.tBodies[0].rows.length < 13) continue;
  const rows = [...table.tBodies[0].rows];
  const label = document.createElement("label");
  label.className = "filter";
  const input = document.createElement("input");
  input.type = "search";
  const count = document.createElement("span");
  count.setAttribute("role", "status");
  label.append("Filter rows", input, count);
  table.parentElement.before(label);
  input.oninput = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every(word => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = words.length > 0 ? `${shown} of ${rows.length}` : "";
  };
}

// Says beside the pointer, or beside what has the focus, what a thing is: all that have data-tip.
const tip = $("#tip");
function show_tip(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 10) : y + 18}px`;
}
const hide_tip = () => { tip.hidden = true; };
for (const one of $$("[data-tip]")) {
  one.addEventListener("pointermove", e => show_tip(one.dataset.tip, e.clientX, e.clientY));
  one.addEventListener("pointerleave", hide_tip);
  one.addEventListener("focus", () => {
    const box = one.getBoundingClientRect();
    show_tip(one.dataset.tip, box.left, box.bottom - 14);
  });
  one.addEventListener("blur", hide_tip);
}
addEventListener("keydown", e => { if (e.key === "Escape") hide_tip(); });
