#include "emitters/backend/ptx.h"

#include <fmt/format.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/OptBisect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <optional>
#include <string_view>

#include "emitters/backend/block_function.h"
#include "emitters/backend/delay_stores.h"
#include "emitters/backend/llvm_guard.h"
#include "emitters/backend/nvptx_atomics.h"
#include "emitters/backend/nvptx_casts.h"
#include "emitters/backend/nvptx_small_integers.h"
#include "emitters/backend/share_sums.h"
#include "emitters/backend/target_machines.h"
#include "machine/target.h"
#include "runtime/nv_jit_link.h"

namespace strata::emitters {
namespace {

constexpr unsigned kGlobal = 1;  // address spaces of NVPTX
constexpr unsigned kShared = 3;
constexpr int kWarp = 32;
constexpr const char* kSharedName = "strata_shared";

Result<void> check(const PtxKernel& kernel, const PtxOptions& options) {
  const auto allowed = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$'; };
  if (kernel.name.empty() || std::isdigit(static_cast<unsigned char>(kernel.name[0])) ||
      !std::all_of(kernel.name.begin(), kernel.name.end(), allowed))
    return invalid("'{}' is no name for a kernel in PTX", kernel.name);
  if (kernel.threads < 1 || kernel.threads > kMostBlockThreads)
    return invalid("kernel {}: {} threads in a block; expected 1 to {}", kernel.name, kernel.threads,
                   kMostBlockThreads);
  if (kernel.blocks < 0 || kernel.blocks > std::numeric_limits<int32_t>::max())
    return invalid("kernel {}: {} blocks; expected at most 2^31-1", kernel.name, kernel.blocks);
  if (kernel.min_blocks > 0 && options.max_registers > 0)
    return invalid("kernel {}: PTX takes either the least number of blocks or the most registers", kernel.name);
  return {};
}

/// All kernels share the name: it is the start of whatever the launch gives.
llvm::GlobalVariable* shared_memory(llvm::Module& module) {
  if (llvm::GlobalVariable* shared = module.getNamedGlobal(kSharedName)) return shared;
  auto* type = llvm::ArrayType::get(llvm::Type::getInt8Ty(module.getContext()), 0);
  auto* shared = new llvm::GlobalVariable(module, type, false, llvm::GlobalValue::ExternalLinkage, nullptr, kSharedName,
                                          nullptr, llvm::GlobalValue::NotThreadLocal, kShared);
  shared->setAlignment(llvm::Align(16));
  return shared;
}

void annotate(llvm::Function& kernel, const char* name, int value) {
  llvm::LLVMContext& context = kernel.getContext();
  llvm::Metadata* fields[] = {
      llvm::ValueAsMetadata::get(&kernel), llvm::MDString::get(context, name),
      llvm::ValueAsMetadata::get(llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), value))};
  kernel.getParent()->getOrInsertNamedMetadata("nvvm.annotations")->addOperand(llvm::MDNode::get(context, fields));
}

/// A special register whose values are in [0, count).
llvm::Value* index_register(llvm::IRBuilder<>& builder, llvm::Intrinsic::ID id, int64_t count) {
  llvm::CallInst* value = builder.CreateIntrinsic(id, {}, {});
  const uint64_t end = count > 0 ? static_cast<uint64_t>(count) : std::numeric_limits<int32_t>::max();
  value->setMetadata(llvm::LLVMContext::MD_range,
                     llvm::MDBuilder(builder.getContext()).createRange(llvm::APInt(32, 0), llvm::APInt(32, end)));
  return value;
}

llvm::Value* as_type(llvm::IRBuilder<>& builder, llvm::Value* pointer, llvm::Type* type) {
  return pointer->getType() == type ? pointer : builder.CreateAddrSpaceCast(pointer, type);
}

void add_kernel(const BlockFunction& block, const PtxKernel& launch, const PtxOptions& options) {
  llvm::Function& body = *block.function;
  llvm::Module& module = *body.getParent();
  llvm::LLVMContext& context = module.getContext();
  // Buffers lie in global memory: said here, it is known to all that comes.
  const std::vector<llvm::Type*> types(block.buffers, llvm::PointerType::get(context, kGlobal));
  auto* kernel = llvm::Function::Create(llvm::FunctionType::get(llvm::Type::getVoidTy(context), types, false),
                                        llvm::GlobalValue::ExternalLinkage, launch.name, module);
  kernel->setCallingConv(llvm::CallingConv::PTX_Kernel);
  kernel->addFnAttr(llvm::Attribute::NoUnwind);
  if (block.waits) kernel->setConvergent();
  for (const char* mode : {"denormal-fp-math", "denormal-fp-math-f32"})
    if (body.hasFnAttribute(mode)) kernel->addFnAttr(body.getFnAttribute(mode));
  llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context, "", kernel));
  std::vector<llvm::Value*> arguments;
  for (unsigned i = 0; i < block.buffers; ++i) {
    kernel->addParamAttrs(i, llvm::AttrBuilder(context, body.getAttributes().getParamAttrs(i)));
    arguments.push_back(as_type(builder, kernel->getArg(i), body.getArg(i)->getType()));
  }
  arguments.push_back(index_register(builder, llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, launch.blocks));
  arguments.push_back(index_register(builder, llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, launch.threads));
  arguments.push_back(as_type(builder, shared_memory(module), body.getArg(block.buffers + 2)->getType()));
  builder.CreateCall(&body, arguments);
  builder.CreateRetVoid();
  for (const char* dimension : {"reqntidy", "reqntidz"}) annotate(*kernel, dimension, 1);
  annotate(*kernel, "reqntidx", launch.threads);
  if (launch.min_blocks > 0) annotate(*kernel, "minctasm", launch.min_blocks);
  if (options.max_registers > 0) annotate(*kernel, "maxnreg", options.max_registers);
}

/// Neither the module nor the GPU's system has the function: found here, it is named.
Result<void> check_calls(std::string_view ptx) {
  constexpr std::string_view kExternal = ".extern .func";
  for (size_t at = ptx.find(kExternal); at != std::string_view::npos; at = ptx.find(kExternal, at + 1)) {
    const std::string_view line = ptx.substr(at, ptx.find('\n', at) - at);
    const std::string_view name = line.substr(line.find_last_of(" \t") + 1);
    if (name != "vprintf" && name != "__assertfail")
      return invalid("a kernel calls {}, which neither the module nor the math library defines", name);
  }
  return {};
}

/// Each kernel begins by letting the next one start and waiting for the one before; and loads are none of memory that
/// nobody writes (".nc"): what the kernel before writes may be read, and ptxas moves such loads to before the wait
/// (seen with CUDA 13.0). In the text: LLVM moves them across an assembly statement too.
std::string with_overlap(std::string_view ptx) {
  constexpr std::string_view kStart = "\tgriddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;\n";
  constexpr std::string_view kConstantLoad = "ld.global.nc";
  std::string made;
  bool in_header = false;  // of a kernel: its parameters, launch bounds and declarations
  bool in_body = false;
  while (!ptx.empty()) {
    const size_t end = std::min(ptx.find('\n'), ptx.size() - 1) + 1;
    const std::string_view line = ptx.substr(0, end);
    ptx.remove_prefix(end);
    if (line.find(".entry") != std::string_view::npos) in_header = true;
    const size_t first = line.find_first_not_of(" \t\n");
    if (in_body && first != std::string_view::npos && line[first] != '.' && !line.substr(first).starts_with("//")) {
      made += kStart;
      in_header = in_body = false;
    }
    const size_t load = line.find(kConstantLoad);
    if (load == std::string_view::npos) {
      made += line;
    } else {
      made += fmt::format("{}ld.global{}", line.substr(0, load), line.substr(load + kConstantLoad.size()));
    }
    if (in_header && first != std::string_view::npos && line[first] == '{') in_body = true;
  }
  return made;
}

/// Keeps LLVM's code generator from reducing the strength of loops: where bits are rotated, it takes each round's sum
/// for a number that grows with the loop's counter, and adds up again what it comes from, as reassociation does
/// (optimize.cpp): three additions a round instead of one.
class WithoutStrengthReduction : public llvm::OptPassGate {
 public:
  explicit WithoutStrengthReduction(llvm::LLVMContext& context) : context_(context), before_(context.getOptPassGate()) {
    context_.setOptPassGate(*this);
  }
  ~WithoutStrengthReduction() override { context_.setOptPassGate(before_); }
  WithoutStrengthReduction(const WithoutStrengthReduction&) = delete;
  WithoutStrengthReduction& operator=(const WithoutStrengthReduction&) = delete;

  bool isEnabled() const override { return true; }
  bool shouldRunPass(llvm::StringRef pass, llvm::StringRef) override { return pass != "Loop Strength Reduction"; }

 private:
  llvm::LLVMContext& context_;
  llvm::OptPassGate& before_;
};

Result<std::string> assemble(llvm::Module& module, llvm::TargetMachine& machine) {
  std::optional<WithoutStrengthReduction> gate;
  if (llvm::any_of(module, rotates)) gate.emplace(module.getContext());
  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream out(text);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return environment("LLVM was built without PTX");
  passes.run(module);
  std::string ptx(text.begin(), text.end());
  STRATA_CHECK(check_calls(ptx));
  return ptx;
}

Result<std::string> generate(llvm::Module& module, const PtxOptions& options) {
  STRATA_TRY(const std::unique_ptr<llvm::TargetMachine> machine, nvptx_machine(options.arch, options.ptx_version));
  STRATA_TRY(const Target* target, find_target(options.arch));
  if (options.optimize.dump) options.optimize.dump("input", module);
  STRATA_CHECK(verify(module));
  STRATA_CHECK(prepare_device_functions(module));
  std::vector<std::string> names{kSharedName};
  for (const PtxKernel& kernel : options.kernels) {
    STRATA_CHECK(check(kernel, options));
    if (module.getNamedValue(kernel.name)) return invalid("the module has a {} of its own already", kernel.name);
    STRATA_TRY(const BlockFunction block, prepare_block_function(module, kernel.name));
    if (block.shuffles && kernel.threads % kWarp != 0)
      return invalid("kernel {}: shuffles take whole warps, and a block has {} threads", kernel.name, kernel.threads);
    add_kernel(block, kernel, options);
    names.push_back(kernel.name);
  }
  define_nvptx_device_functions(module);
  convert_small_integers(module);  // before loads are cut and merged
  STRATA_CHECK(optimize(module, *machine, names, options.optimize));
  share_sums(module);
  lower_vector_atomics(module, target->vector_atomics);
  break_half_casts(module, *machine);
  load_eight_bytes_at_once(module);
  std::vector<std::pair<std::string, int64_t>> stores;
  for (const PtxKernel& kernel : options.kernels)
    stores.emplace_back(kernel.name, registers_for_stores(*target, kernel.threads, kernel.min_blocks));
  delay_stores(module, *machine, stores);
  if (options.optimize.dump) options.optimize.dump("lowered", module);
  STRATA_CHECK(verify(module));
  STRATA_TRY(std::string ptx, assemble(module, *machine));
  return options.overlap ? with_overlap(ptx) : ptx;
}

}  // namespace

Result<std::string> to_ptx(llvm::Module& module, const PtxOptions& options) {
  std::string ptx;
  STRATA_CHECK(guard_llvm(module.getContext(), [&]() -> Result<void> {
    STRATA_TRY(ptx, generate(module, options));
    return {};
  }));
  return ptx;
}

Result<std::vector<char>> to_cubin(llvm::Module& module, const PtxOptions& options) {
  STRATA_TRY(const std::string ptx, to_ptx(module, options));
  return link_ptx(ptx, options.arch);
}

}  // namespace strata::emitters
