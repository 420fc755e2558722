#!/usr/bin/env python3
"""The pages that people look at, in Chromium as a person would use them: with a pointer, with the keyboard alone, in
both themes, on a narrow screen. Usage: pages_test.py STRATA TIMELINE_PAGE FAKE_CUDA SOURCE [unittest arguments]

SCREENSHOTS=FOLDER keeps pictures of all pages. Chromium is Debian's: scripts/install.sh installs it, and without it the
test fails."""
import html
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from playwright.sync_api import sync_playwright

CHROMIUM = "/usr/bin/chromium"
SMALL = "graph small {\n  input A: f64[16, 64]\n  B = sqr(A)\n  O = sqr(B)\n  output O\n}\n"

# What is wrong with the structure of a page: what a screen reader needs to make sense of it.
STRUCTURE = """() => {
  const wrong = [];
  const want = (ok, text) => { if (!ok) wrong.push(text); };
  const all = selector => [...document.querySelectorAll(selector)];
  for (const one of ["header", "nav", "main"]) want(all(`body ${one}`).length === 1, `not one ${one}`);
  want(document.documentElement.lang === "en", "no language");
  want(all("h1").length === 1, "not one h1");
  let level = 0;
  for (const heading of all("h1, h2, h3, h4")) {
    const next = Number(heading.tagName[1]);
    want(next <= level + 1, `h${next} after h${level}: ${heading.textContent}`);
    want(heading.textContent.trim() !== "", `an empty h${next}`);
    level = next;
  }
  const ids = all("[id]").map(one => one.id);
  const twice = ids.filter((id, n) => ids.indexOf(id) !== n);
  want(twice.length === 0, `ids twice: ${twice}`);
  for (const name of ["aria-labelledby", "aria-controls", "aria-describedby"]) {
    for (const one of all(`[${name}]`)) {
      for (const id of one.getAttribute(name).split(" "))
        want(document.getElementById(id), `${name}=${id} names nothing`);
    }
  }
  for (const link of all('a[href^="#"]'))
    want(document.querySelector(link.getAttribute("href")), `${link.href} leads nowhere`);
  for (const table of all("table")) {
    want(table.caption && table.caption.textContent.trim(), "a table without a caption");
    for (const head of table.querySelectorAll("th")) want(head.scope, `a heading without scope: ${head.textContent}`);
    const columns = table.tHead.rows[0].cells.length;
    for (const row of table.tBodies[0].rows) want(row.cells.length === columns, "a ragged row");
  }
  for (const svg of all("svg")) {
    want(svg.getAttribute("role") && svg.querySelector(":scope > title") && svg.querySelector(":scope > desc"),
         "an svg without role, title or desc");
  }
  for (const one of all("button, summary, canvas, input, [role=button]")) {
    want((one.getAttribute("aria-label") || one.labels?.[0]?.textContent || one.textContent).trim(),
         `no name: ${one.outerHTML.slice(0, 80)}`);
  }
  return wrong;
}"""

# Texts whose contrast with what is below them is less than 4.5, as they are drawn. Of SVG, texts lie on boxes.
CONTRAST = """() => {
  const made = document.createElement("canvas").getContext("2d", { willReadFrequently: true }), known = new Map();
  const parts = color => {
    if (known.has(color)) return known.get(color);
    made.clearRect(0, 0, 1, 1);
    made.fillStyle = color;
    made.fillRect(0, 0, 1, 1);
    known.set(color, [...made.getImageData(0, 0, 1, 1).data]);
    return known.get(color);
  };
  const linear = value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  // Of a drawing's text the last box that lies below it.
  const box_below = text => {
    const place = text.getBoundingClientRect();
    const x = (place.left + place.right) / 2, y = (place.top + place.bottom) / 2;
    return [...text.ownerSVGElement.querySelectorAll(".box")].filter(box => {
      const { left, right, top, bottom } = box.getBoundingClientRect();
      return left <= x && x <= right && top <= y && y <= bottom && getComputedStyle(box).fill !== "none";
    }).at(-1);
  };
  const below = one => {
    const box = one instanceof SVGElement ? box_below(one) : null;
    if (box) return parts(getComputedStyle(box).fill);
    for (let at = one; at; at = at.parentElement) {
      const color = parts(getComputedStyle(at).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255, 255];
  };
  const wrong = new Set();
  let seen = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const one = text.parentElement;
    if (!text.textContent.trim() || ["SCRIPT", "TITLE", "DESC", "title", "desc"].includes(one.tagName)) continue;
    if (!one.checkVisibility()) continue;
    const style = getComputedStyle(one);
    const [a, b] = [light(parts(one instanceof SVGElement ? style.fill : style.color)), light(below(one))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    ++seen;
    if (ratio < 4.5) wrong.add(`${ratio.toFixed(2)}: ${text.textContent.trim().slice(0, 40)} (${one.tagName})`);
  }
  return [seen, [...wrong]];
}"""


def run(*words, environment=None):
    made = subprocess.run(words, env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=900)
    if made.returncode != 0:
        raise AssertionError(f"{words} ends with {made.returncode}:\n{made.stderr.decode()}")
    return made.stdout


def make_pages(folder):
    """Every kind of page, by the commands that make them: names and paths."""
    strata, source = ARGUMENTS.strata, ARGUMENTS.source
    searched = folder / "rmsnorm"
    run(strata, "optimize", f"{source}/programs/rmsnorm.strata", "-o", searched, "--no-cache", "--profile", "off")
    # Measured rows, on a driver whose kernels take what a script says.
    (folder / "small.strata").write_text(SMALL)
    run(strata, "run", folder / "small.strata", "--seed", "1", "--output", folder / "expected")
    (folder / "O.raw").write_bytes((folder / "expected" / "O.npy").read_bytes()[-8192:])
    (folder / "script").write_text(f"write 1 {folder / 'O.raw'}\ntime 3\n")
    fake = {"STRATA_CUDA_DRIVER": ARGUMENTS.fake_cuda, "STRATA_FAKE_CUDA_SCRIPT": str(folder / "script")}
    run(strata, "optimize", folder / "small.strata", "-o", folder / "measured", "--no-cache", "--disable-pass",
        "emission", environment=fake)
    run(strata, "emit", f"{source}/tests/hlo/attention.hlo", "--output", folder / "module")
    run(strata, "run", f"{source}/tests/hlo/{LOOP}", "--report", folder / "loop.html")
    results = f"{source}/bench/results/nvidia-h200-2026-11-21-emitters.json"
    run(strata, "explain", results, "--html", folder / "bench.html")
    run(strata, "explain", searched, "--html", folder / "again.html")
    graph = f"{source}/tests/data/gqa_fused.strata"
    (folder / "graph.html").write_bytes(run(strata, "show", graph, "--format", "html"))
    (folder / "timeline.html").write_bytes(run(ARGUMENTS.timeline_page))
    return {"search": searched / "report.html", "measured": folder / "measured" / "report.html",
            "module": folder / "module" / "report.html", "loop": folder / "loop.html", "bench": folder / "bench.html",
            "again": folder / "again.html", "graph": folder / "graph.html", "timeline": folder / "timeline.html"}


LOOP = "loop.hlo"
DIFFERENT = ("search", "measured", "module", "loop", "bench", "graph", "timeline")  # "again" is "search"


def setUpModule():
    global FOLDER, PAGES, PLAYWRIGHT, BROWSER  # pylint: disable=global-variable-undefined
    FOLDER = tempfile.TemporaryDirectory()
    PAGES = make_pages(pathlib.Path(FOLDER.name))
    PLAYWRIGHT = sync_playwright().start()
    # --no-sandbox: tests run as root in containers, and the pages are our own.
    BROWSER = PLAYWRIGHT.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


def tearDownModule():
    BROWSER.close()
    PLAYWRIGHT.stop()
    FOLDER.cleanup()


class PageTest(unittest.TestCase):
    def open(self, name, theme="light", width=1400, height=1000):
        # Without smooth scrolling: what is pointed at by its place does not move meanwhile.
        page = BROWSER.new_page(viewport={"width": width, "height": height}, color_scheme=theme,
                                reduced_motion="reduce")
        faults = []
        self.addCleanup(lambda: self.assertEqual(faults, [], name))
        self.addCleanup(page.close)
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        # That canvases are read often is said of these tests, which do so.
        page.on("console", lambda said: faults.append(said.text)
                if said.type in ("error", "warning") and "willReadFrequently" not in said.text else None)
        page.on("request", lambda request: faults.append(f"asks for {request.url}")
                if not request.url.startswith(PAGES[name].as_uri()) else None)
        page.goto(PAGES[name].as_uri())
        return page


class EveryPage(PageTest):
    def test_structure_and_narrow_screens(self):
        for name in DIFFERENT:
            with self.subTest(name):
                page = self.open(name)
                self.assertEqual(page.evaluate(STRUCTURE), [])
                page.set_viewport_size({"width": 390, "height": 800})
                self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 390)

    def test_contrast_in_both_themes(self):
        for name in DIFFERENT:
            page = self.open(name)
            for theme in ("light", "dark"):
                with self.subTest(f"{name}, {theme}"):
                    page.emulate_media(color_scheme=theme)
                    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
                    seen, wrong = page.evaluate(CONTRAST)
                    self.assertGreater(seen, 20)
                    self.assertEqual(wrong, [])
                    if "SCREENSHOTS" in os.environ:
                        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = false)")
                        page.screenshot(path=f"{os.environ['SCREENSHOTS']}/{name}-{theme}.png", full_page=True)

    def test_contrast_is_judged(self):
        page = self.open("bench")
        page.add_style_tag(content="p { color: #999 !important }")
        self.assertNotEqual(page.evaluate(CONTRAST)[1], [])

    def test_theme_is_chosen_and_kept(self):
        page = self.open("search", "dark")
        paper = lambda: page.evaluate("getComputedStyle(document.body).backgroundColor")
        dark = paper()
        button = page.get_by_role("button", name="Theme: system")
        button.click()
        self.assertNotEqual(paper(), dark)
        page.get_by_role("button", name="Theme: light").click()
        self.assertEqual(paper(), dark)
        page.get_by_role("button", name="Theme: dark").press("Enter")
        page.get_by_role("button", name="Theme: system").click()
        light = paper()
        page.reload()
        self.assertEqual(paper(), light)
        self.assertNotEqual(light, dark)

    def test_keyboard_begins_at_the_skip_link_and_shows_where_it_is(self):
        for name in DIFFERENT:
            with self.subTest(name):
                page = self.open(name)
                page.keyboard.press("Tab")
                self.assertEqual(page.evaluate("document.activeElement.textContent"), "Skip to the content")
                page.keyboard.press("Enter")
                page.wait_for_function("location.hash === '#content'")  # page.url follows after a while
                for _ in range(12):
                    page.keyboard.press("Tab")
                    if page.evaluate("document.activeElement === document.body"):
                        break  # past the last
                    width, stroke = page.evaluate("""(() => {
                      const one = document.activeElement;
                      const box = one.querySelector(":scope > .box");
                      const style = getComputedStyle(one);
                      return [style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth),
                              box ? parseFloat(getComputedStyle(box).strokeWidth) : 0];
                    })()""")
                    at = page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
                    self.assertTrue(width >= 2 or stroke >= 3, at)

    def test_sections_are_marked_as_they_are_read(self):
        page = self.open("search")
        page.get_by_role("navigation").get_by_role("link", name="Search").click()
        page.wait_for_function("document.querySelector('nav a[aria-current]').textContent === 'Search'")

    def test_in_a_notebook(self):
        """As Report._repr_html_ of the Python package shows it."""
        frame = html.escape(PAGES["search"].read_text())
        page = BROWSER.new_page(viewport={"width": 1000, "height": 900})
        self.addCleanup(page.close)
        faults = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.set_content(f'<h1>Notebook</h1><iframe title="Report" sandbox="allow-scripts" srcdoc="{frame}" '
                         'style="width:100%;height:720px;border:0"></iframe>')
        inner = page.frame_locator("iframe")
        inner.get_by_role("navigation").get_by_role("link", name="Candidates").click()
        inner.locator("nav a[aria-current]", has_text="Candidates").wait_for()
        inner.get_by_role("button", name="Theme: system").click()
        inner.get_by_role("button", name="Theme: light").wait_for()
        inner.locator("#best .node[aria-label^='matmul']").click()
        self.assertIn("makes ", inner.locator("#best .detail").inner_text())
        self.assertEqual(faults, [])


class Graph(PageTest):
    def box(self, page, label):
        return page.locator("#best .node", has=page.get_by_text(label, exact=True)).last

    def test_the_pointer_tells_shapes_and_maps(self):
        page = self.open("search")
        detail = page.locator("#best .detail")
        self.assertIn("Point at a box", detail.inner_text())
        tiles = page.locator("#best .node[aria-label^='in_iter']")
        told = []
        for n in range(tiles.count()):
            tiles.nth(n).hover()
            told.append(detail.inner_text())
        for said in (r"imap \[\d\]: of the \d+ blocks along grid x, each reads \d+ of 4096 along dimension 1",
                     r"fmap 1: of the \d+ iterations, each reads \d+ of 1024 along dimension 1"):
            self.assertTrue(any(re.search(said, one) for one in told), told)
        self.assertTrue(all("makes " in one and "reads " in one for one in told), told)
        page.locator("#best .node[aria-label^='matmul']").hover()
        self.assertIn("f16[16, ", detail.inner_text())

    def test_a_click_marks_the_lines_of_both_texts(self):
        page = self.open("search")
        node = page.locator("#best .node[aria-label^='matmul']")
        node.click()
        marked = page.locator("#best pre.mugraph span.at")
        self.assertEqual(marked.count(), 1)
        self.assertIn("= matmul(", marked.inner_text())
        page.locator("#best").get_by_role("tab", name="CUDA").click()
        code = page.locator("#best pre.cuda span.at")
        self.assertGreaterEqual(code.count(), 1)
        self.assertIn("= matmul(", code.first.text_content())
        self.assertTrue(code.first.evaluate("""line => {
          const box = line.getBoundingClientRect(), pane = line.closest(".view").getBoundingClientRect();
          return box.top >= pane.top && box.bottom <= pane.bottom;
        }"""))

    def test_every_box_knows_its_line(self):
        for name in ("search", "graph"):
            page = self.open(name)
            wrong = page.evaluate("""() => [...document.querySelectorAll(".split")].flatMap(split =>
              [...split.querySelectorAll(".node")].filter(node => {
                const line = split.querySelectorAll("pre.mugraph > span")[node.dataset.line - 1]?.textContent ?? "";
                const label = node.getAttribute("aria-label").split(", ");
                const operator = label[0].split(" ")[0];
                // Tensors stand where they come in or go out: in a block graph, at the operator that it is of.
                if (/^\w+\[/.test(label[1] ?? "")) return !/^\s*(input|output) | = (block|thread)\(/.test(line);
                return !line.includes(`= ${operator}(`);
              }).map(node => node.getAttribute("aria-label")))""")
            self.assertEqual(wrong, [], name)

    def test_a_line_marks_its_box(self):
        page = self.open("search")
        line = page.locator("#best pre.mugraph span", has_text="= matmul(")
        line.click()
        self.assertIn("matmul", page.locator("#best .node.at").get_attribute("aria-label"))

    def test_by_keyboard(self):
        page = self.open("search")
        page.locator("#best .node[tabindex='0']").focus()
        first = page.evaluate("document.activeElement.getAttribute('aria-label')")
        page.keyboard.press("ArrowDown")
        second = page.evaluate("document.activeElement.getAttribute('aria-label')")
        self.assertNotEqual(first, second)
        page.keyboard.press("Home")
        self.assertEqual(page.evaluate("document.activeElement.getAttribute('aria-label')"), first)
        page.keyboard.press("End")
        self.assertEqual(page.locator("#best .node.at").count(), 1)
        tab = page.locator("#best").get_by_role("tab", name="µGraph")
        tab.focus()
        page.keyboard.press("ArrowRight")
        self.assertEqual(page.evaluate("document.activeElement.textContent"), "CUDA")
        self.assertTrue(page.locator("#best-graph-cuda").is_visible())
        self.assertFalse(page.locator("#best-graph-mugraph").is_visible())

    def test_zoom(self):
        page = self.open("search")
        width = lambda: float(page.locator("#best svg").get_attribute("width"))
        before = width()
        page.locator("#best").get_by_role("button", name="Zoom in").click()
        self.assertAlmostEqual(width(), before * 1.25, delta=1)
        page.locator("#best").get_by_role("button", name="Fit").click()
        self.assertAlmostEqual(width(), before, delta=1)

    def test_code_is_numbered_as_in_its_file(self):
        page = self.open("search")
        code = (PAGES["search"].parent / "best.cu").read_text().splitlines()
        before = int(page.locator("#best pre.cuda").get_attribute("style").split(":")[1])
        self.assertGreater(before, 500)  # the device library
        self.assertEqual(page.locator("#best pre.cuda span").nth(3).text_content().strip(), code[before + 3].strip())


class Tables(PageTest):
    def test_sorting(self):
        page = self.open("bench")
        head = page.locator("#rows th", has=page.get_by_role("button", name="Strata"))
        column = lambda: [float(text) for text in page.locator("#rows tbody tr td:nth-child(2)").all_inner_texts()]
        head.get_by_role("button").click()
        self.assertEqual(head.get_attribute("aria-sort"), "ascending")
        self.assertEqual(column(), sorted(column()))
        head.get_by_role("button").press("Enter")
        self.assertEqual(head.get_attribute("aria-sort"), "descending")
        self.assertEqual(column(), sorted(column(), reverse=True))

    def test_filter(self):
        page = self.open("bench")
        page.get_by_label("Filter rows").fill("layernorm bf16")
        shown = page.locator("#rows tbody tr:visible")
        self.assertTrue(0 < shown.count() < 6)
        self.assertTrue(all("layernorm" in text for text in shown.all_inner_texts()))
        self.assertRegex(page.locator(".filter [role=status]").inner_text(), r"^\d of 36$")

    def test_dots_say_what_they_are(self):
        for name, section in (("bench", "peers"), ("measured", "measured")):
            page = self.open(name)
            dots = page.locator(f"#{section} .dot")
            self.assertGreater(dots.count(), 1, name)
            dots.first.hover(force=True)
            self.assertIn("µs", page.locator("#tip").inner_text())
            page.keyboard.press("Escape")
            self.assertFalse(page.locator("#tip").is_visible())

    def test_candidates_open(self):
        page = self.open("search")
        page.locator("#candidates summary").first.click()
        self.assertIn("graph rmsnorm", page.locator("#candidates details[open] pre").inner_text())


class Pages(PageTest):
    def test_a_page_can_be_made_again_of_its_folder(self):
        self.assertEqual(PAGES["again"].read_text(), PAGES["search"].read_text())

    def test_module_names_its_steps_and_reasons(self):
        report = json.loads((PAGES["module"].parent / "report.json").read_text())
        page = self.open("module")
        rows = page.locator("#steps tbody th").all_inner_texts()
        self.assertEqual(rows, [step["name"] for step in report["steps"]])
        page.locator("#why summary").first.click()
        self.assertIn(report["steps"][0]["reason"], page.locator("#why details[open] pre").inner_text())

    def test_loops_show_their_steps(self):
        page = self.open("loop")
        self.assertGreater(page.locator("#loops tbody tr").count(), 0)

    def test_measured_rows_are_those_of_the_report(self):
        report = json.loads((PAGES["measured"].parent / "report.json").read_text())
        page = self.open("measured")
        self.assertEqual(page.locator("#measured tbody tr").count(), len(report["profile"]["rows"]))
        self.assertEqual(page.locator("#measured tr.chosen").count(), 1)


class Timeline(PageTest):
    def canvas_colors(self, page):
        return page.evaluate("""() => {
          const canvas = document.querySelector("canvas");
          const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          const seen = new Set();
          for (let at = 0; at < data.length; at += 4 * 7) seen.add(`${data[at]},${data[at + 1]},${data[at + 2]}`);
          return [...seen];
        }""")

    def test_is_drawn_in_both_themes(self):
        light, dark = (self.canvas_colors(self.open("timeline", theme)) for theme in ("light", "dark"))
        self.assertGreater(len(light), 8)
        self.assertNotEqual(set(light), set(dark))
        page = self.open("timeline")
        page.get_by_role("button", name="Theme: system").click()
        page.get_by_role("button", name="Theme: light").click()
        self.assertEqual(set(self.canvas_colors(page)), set(dark))

    def test_moves_by_keyboard_and_buttons(self):
        page = self.open("timeline")
        said = lambda: [float(word) for word in re.findall(r"[\d.]+", page.locator("#timeline-range").inner_text())]
        whole = said()
        self.assertEqual(whole[0], 0)
        page.locator("canvas").focus()
        page.keyboard.press("w")
        near = said()
        self.assertLess(near[1] - near[0], whole[1] - whole[0])
        page.keyboard.press("ArrowRight")
        self.assertGreater(said()[0], near[0])
        page.get_by_role("button", name="All").click()
        self.assertEqual(said(), whole)
        page.get_by_role("button", name="Zoom in").click()
        self.assertLess(said()[1] - said()[0], whole[1] - whole[0])

    def test_the_wheel_belongs_to_the_page_until_the_timeline_has_the_focus(self):
        page = self.open("timeline", height=600)
        whole = page.locator("#timeline-range").inner_text()
        canvas = page.locator("canvas")
        canvas.hover(position={"x": 400, "y": 150})
        page.mouse.wheel(0, 100)
        page.wait_for_function("scrollY > 0")
        self.assertEqual(page.locator("#timeline-range").inner_text(), whole)
        canvas.focus()
        canvas.hover(position={"x": 400, "y": 150})
        for _ in range(100):  # the page may still be scrolling: then the wheel is the page's
            page.mouse.wheel(0, -100)
            page.wait_for_timeout(50)
            if page.locator("#timeline-range").inner_text() != whole:
                break
        self.assertNotEqual(page.locator("#timeline-range").inner_text(), whole)

    def test_tasks_say_what_they_are(self):
        page = self.open("timeline")
        page.locator("#timeline").scroll_into_view_if_needed()
        box = page.locator("canvas").bounding_box()
        page.mouse.move(box["x"] + 200, box["y"] + 84 + 22 + 16 * 2 + 11)
        self.assertRegex(page.locator("#tip").inner_text(), r"(product|norm & <rope>|attention), compute\nworker 2\n")

    def test_a_function_alone(self):
        page = self.open("timeline")
        before = set(self.canvas_colors(page))
        button = page.get_by_role("button", name="attention")
        button.click()
        self.assertEqual(button.get_attribute("aria-pressed"), "true")
        self.assertNotEqual(set(self.canvas_colors(page)), before)
        button.click()
        self.assertEqual(button.get_attribute("aria-pressed"), "false")


class Arguments:
    def __init__(self, words):
        self.strata, self.timeline_page, self.fake_cuda, self.source = words


if __name__ == "__main__":
    ARGUMENTS = Arguments(sys.argv[1:5])
    os.environ["STRATA_CUDA_DRIVER"] = "/nowhere/libcuda.so.1"  # on machines with a GPU, too
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
