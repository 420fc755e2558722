#include "report/html_text.h"

namespace strata {

std::string_view glossary() {
  return R"(<dl>
<dt>µGraph</dt><dd>A program at three levels: a kernel graph of operators on tensors in device memory, block graphs of
what one thread block does with tiles in shared memory, thread graphs of what one thread does in registers.</dd>
<dt>kernel</dt><dd>One launch: an operator of the kernel graph, of this program's code or of a library's.</dd>
<dt>grid, imap, omap</dt><dd>How many blocks run, and which dimension of an input (imap) or output (omap)
each dimension
of the grid cuts; _ cuts none, so that every block has all of it.</dd>
<dt>for-loop, fmap</dt><dd>How often a block goes through its loop, and which dimension of an input the
iterations cut;
without one, each iteration reads the same tile. accum adds up over the iterations.</dd>
<dt>estimate</dt><dd>Microseconds by the cost model, for the target that is named above. The estimate of a
graph includes
the schedules of its kernels and what libraries compute, and is the same wherever the graph is listed. The search
works with a coarser one, before schedules are chosen; only the line “left out” quotes it.</dd>
<dt>input</dt><dd>The program as given, each operator a kernel, as it would run: products and convolutions by
a library
where the model rates that better.</dd>
<dt>device-memory bytes</dt><dd>What must cross between device memory and the chip: every operand of every
kernel once,
every result once.</dd>
<dt>cold, hot</dt><dd>Measured microseconds of one run: with inputs that no cache holds, and with inputs that
were just
used.</dd>
<dt>schedule</dt><dd>How a kernel does what its block graph says: tiles of warps, stages of copies, clusters.</dd>
<dt>error bound</dt><dd>The probability that a wrong graph passes the random tests over finite fields. A proof by the
solver has no such probability, and holds at the shapes that it names.</dd>
<dt>space</dt><dd>A unit of the search: graphs of one grid and one loop. Pruned: ruled out without being
built, by shapes,
memory, abstract expressions (what could not become the program), axes, or stability (overflow for large inputs).</dd>
<dt>part, cut</dt><dd>Large programs are split into parts, which are searched one by one; a cut is a value
that goes from
one part to another.</dd>
</dl>
)";
}

std::string_view drawing_legend() {
  return "<p>Read from top to bottom. Grey boxes are tensors of the program, white ones operators with the tensors "
         "that "
         "they make, blue ones block graphs, green ones thread graphs; what lies in the dashed frame is "
         "repeated.</p>\n";
}

}  // namespace strata
