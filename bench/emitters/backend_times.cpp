// How long the emitters' backend takes: modules to PTX, to cubin and to code of this processor, and a barrier of
// fibers.
//
// usage: backend_times     medians of 15 runs after one that is not counted, milliseconds of processor time
#include <fmt/format.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/SourceMgr.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include "emitters/backend/cpu_kernel.h"
#include "emitters/backend/ptx.h"

namespace {

using namespace strata::emitters;

constexpr int kRuns = 15;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// Of this process, all threads: other work on the machine is not counted.
double milliseconds() { return static_cast<double>(std::clock()) * 1e3 / CLOCKS_PER_SEC; }

/// out = f(in), `operators` operations on each of 4 neighbouring elements.
std::string elementwise(int operators) {
  std::string text = R"(
define void @k_block(ptr noalias readonly align 16 %in, ptr noalias align 16 %out, i32 %block, i32 %thread, ptr %s) {
  %first = shl i32 %block, 7
  %i = add i32 %first, %thread
  %p = getelementptr <4 x float>, ptr %in, i32 %i
  %x0 = load <4 x float>, ptr %p, align 16
)";
  const char* kinds[] = {"fadd", "fmul", "fsub"};
  for (int i = 0; i < operators; ++i)
    text += fmt::format("  %x{} = {} <4 x float> %x{}, {}\n", i + 1, kinds[i % 3], i,
                        i % 2 ? "%x0" : "<float 1.5, float 1.5, float 1.5, float 1.5>");
  return text + fmt::format(
                    "  %q = getelementptr <4 x float>, ptr %out, i32 %i\n  store <4 x float> %x{}, ptr %q\n"
                    "  ret void\n}}\n",
                    operators);
}

/// Each of 100 rounds: a value to shared memory, a barrier, a neighbour's value, a barrier, a shuffle.
constexpr const char* kMeetings = R"(
declare void @strata_barrier()
declare i32 @strata_shuffle_down(i32, i32)
define void @k_block(ptr noalias readonly align 16 %in, ptr noalias align 16 %out, i32 %block, i32 %thread, ptr %s) {
entry:
  %mine = getelementptr i32, ptr %s, i32 %thread
  %other = xor i32 %thread, 1
  %its = getelementptr i32, ptr %s, i32 %other
  br label %round
round:
  %n = phi i32 [0, %entry], [%n1, %round]
  %v = phi i32 [%thread, %entry], [%w, %round]
  store i32 %v, ptr %mine
  call void @strata_barrier()
  %o = load i32, ptr %its
  call void @strata_barrier()
  %w = call i32 @strata_shuffle_down(i32 %o, i32 1)
  %n1 = add i32 %n, 1
  %more = icmp ult i32 %n1, 100
  br i1 %more, label %round, label %end
end:
  %q = getelementptr i32, ptr %out, i32 %thread
  store i32 %w, ptr %q
  ret void
}
)";

std::unique_ptr<llvm::Module> parse(const std::string& text, llvm::LLVMContext& context) {
  llvm::SMDiagnostic error;
  return llvm::parseAssemblyString(text, error, context);
}

/// Milliseconds of work(module) on a fresh module each time.
template <class Work>
double time(const std::string& text, const Work& work) {
  std::vector<double> times;
  for (int run = 0; run <= kRuns; ++run) {
    llvm::LLVMContext context;
    const auto module = parse(text, context);
    const double start = milliseconds();
    const auto result = work(*module);
    if (!result) {
      fmt::print("{}\n", result.error().to_string());
      return -1;
    }
    if (run > 0) times.push_back(milliseconds() - start);
  }
  return median(times);
}

void compile_times(const char* name, const std::string& text) {
  PtxOptions options;
  options.arch = "sm_90a";
  options.kernels = {{.name = "k", .threads = 128}};
  const std::vector<std::string> names{"k"};
  const double ptx = time(text, [&](llvm::Module& module) { return to_ptx(module, options); });
  const double cubin = time(text, [&](llvm::Module& module) { return to_cubin(module, options); });
  const double cpu1 = time(text, [&](llvm::Module& module) { return compile_for_cpu(module, names, {.level = 1}); });
  const double cpu2 = time(text, [&](llvm::Module& module) { return compile_for_cpu(module, names, {.level = 2}); });
  fmt::print("{:24} PTX {:6.2f}  cubin {:6.2f}  CPU at level 1 {:6.2f}, 2 {:6.2f}\n", name, ptx, cubin, cpu1, cpu2);
}

void run_times() {
  llvm::LLVMContext context;
  const std::vector<std::string> names{"k"};
  const auto plain_module = parse(elementwise(10), context);
  const auto meeting_module = parse(kMeetings, context);
  const auto plain = compile_for_cpu(*plain_module, names);
  const auto meetings = compile_for_cpu(*meeting_module, names);
  if (!plain || !meetings) return;
  std::vector<float> in(1 << 22), out(1 << 22);
  const std::vector<void*> buffers{in.data(), out.data()};
  double start = milliseconds();
  for (int i = 0; i < 10; ++i) (void)plain->at(0).run(buffers, 1 << 13, 128, 0);
  fmt::print("plain kernel: {:.1f} ns a block of 128 threads\n", (milliseconds() - start) * 1e6 / (10 << 13));
  (void)meetings->at(0).run(buffers, 1, 256, 1024);
  start = milliseconds();
  (void)meetings->at(0).run(buffers, 10, 256, 1024);
  fmt::print("fibers: {:.1f} ns a thread and barrier or shuffle\n",
             (milliseconds() - start) * 1e6 / (10.0 * 256 * 300));
}

}  // namespace

int main() {
  compile_times("elementwise, 5 operators", elementwise(5));
  compile_times("elementwise, 50", elementwise(50));
  compile_times("barriers and shuffles", kMeetings);
  run_times();
}
