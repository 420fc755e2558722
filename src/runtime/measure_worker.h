// The other side of measure.h: `strata measure-worker`. It writes a line when it starts,
//   {"device": "…", "driver": 13000, "cublas_lt": "13.1.0", "cudnn": "9.15.1"}   or   {"failed": "no GPU …"}
// and ends in the second case. Where a library is missing, "without_cublas_lt" or "without_cudnn" says why. Then it
// reads one request a line,
//   {"cubin": FILE, "manifest": FILE, "inputs": {NAME: FILE, …}, "expected": {…}, "save": {…}}
// and answers {"ready": true} when the files are read, once more before each step of the measurement, and then one of
//   {"outputs": {NAME: {"error": 1e-4, "tolerance": 5e-3}, …}, "cold_us": …, "hot_us": …}     without times where wrong
//   {"failed": "why"}                                  and, with "lost": true, ends: its context is of no more use
// Errors that are not finite are null.
#pragma once

namespace strata {

/// Serves requests from `in` until it ends. The exit code of the process.
int run_measure_worker(int in, int out);

}  // namespace strata
