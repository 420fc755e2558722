#include "emitters/backend/cpu_code.h"

#include <fmt/format.h>
#include <llvm/ADT/SCCIterator.h>
#include <llvm/Analysis/CallGraph.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Utils/LowerAtomic.h>

#include "emitters/backend/block_function.h"
#include "emitters/backend/fiber.h"
#include "emitters/backend/llvm_guard.h"
#include "emitters/backend/target_machines.h"

namespace strata::emitters {
namespace {

// The rest is for functions of libm, and of this folder with all that sanitizers put into their frames.
constexpr uint64_t kMaxStackBytes = Fiber::kStackBytes - 32 * 1024;

/// void NAME(ptr buffers, i32 block, i32 thread or number of threads, ptr shared): of one thread or of all.
void add_entry(const BlockFunction& block, const std::string& name, bool one_thread) {
  llvm::Function& body = *block.function;
  llvm::LLVMContext& context = body.getContext();
  llvm::Type* pointer = llvm::PointerType::get(context, 0);
  llvm::Type* i32 = llvm::Type::getInt32Ty(context);
  auto* entry = llvm::Function::Create(
      llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer, i32, i32, pointer}, false),
      llvm::GlobalValue::ExternalLinkage, name, body.getParent());
  entry->addFnAttr(llvm::Attribute::NoUnwind);
  for (const llvm::StringRef mode : {"denormal-fp-math", "denormal-fp-math-f32"})
    if (body.hasFnAttribute(mode)) entry->addFnAttr(body.getFnAttribute(mode));
  llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context, "", entry));
  std::vector<llvm::Value*> arguments;
  for (unsigned i = 0; i < block.buffers; ++i)
    arguments.push_back(builder.CreateLoad(pointer, builder.CreateConstInBoundsGEP1_64(pointer, entry->getArg(0), i)));
  arguments.insert(arguments.end(), {entry->getArg(1), entry->getArg(2), entry->getArg(3)});
  if (one_thread) {
    builder.CreateCall(&body, arguments);
    builder.CreateRetVoid();
    return;
  }
  llvm::BasicBlock* before = builder.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(context, "threads", entry);
  auto* end = llvm::BasicBlock::Create(context, "end", entry);
  builder.CreateBr(loop);
  builder.SetInsertPoint(loop);
  llvm::PHINode* thread = builder.CreatePHI(i32, 2);
  thread->addIncoming(builder.getInt32(0), before);
  arguments[block.buffers + 1] = thread;
  builder.CreateCall(&body, arguments);
  llvm::Value* next = builder.CreateAdd(thread, builder.getInt32(1), "", /*HasNUW=*/true, /*HasNSW=*/true);
  thread->addIncoming(next, loop);
  builder.CreateCondBr(builder.CreateICmpSLT(next, entry->getArg(2)), loop, end);
  builder.SetInsertPoint(end);
  builder.CreateRetVoid();
}

/// Nothing else runs while a kernel does, and LLVM has no atomic vectors for this processor.
void make_atomics_plain(llvm::Module& module) {
  std::vector<llvm::Instruction*> atomics;
  for (llvm::Function& function : module)
    for (llvm::Instruction& instruction : llvm::instructions(function))
      if (instruction.isAtomic()) atomics.push_back(&instruction);
  for (llvm::Instruction* instruction : atomics) {
    if (auto* rmw = llvm::dyn_cast<llvm::AtomicRMWInst>(instruction)) {
      llvm::lowerAtomicRMWInst(rmw);
    } else if (auto* exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(instruction)) {
      llvm::lowerAtomicCmpXchgInst(exchange);
    } else if (auto* load = llvm::dyn_cast<llvm::LoadInst>(instruction)) {
      load->setAtomic(llvm::AtomicOrdering::NotAtomic);
    } else if (auto* store = llvm::dyn_cast<llvm::StoreInst>(instruction)) {
      store->setAtomic(llvm::AtomicOrdering::NotAtomic);
    } else {
      instruction->eraseFromParent();  // a fence
    }
  }
}

/// A thread's stack is known before it runs: no recursion, no frames of variable size.
Result<void> check_frames(llvm::Module& module) {
  llvm::CallGraph graph(module);
  for (auto component = llvm::scc_begin(&graph); !component.isAtEnd(); ++component)
    if (component.hasCycle())
      if (const llvm::Function* function = component->front()->getFunction())
        return unsupported("{} is recursive", function->getName().str());
  for (llvm::Function& function : module) {
    if (!function.isDeclaration()) function.addFnAttr("warn-stack-size", "0");
    for (const llvm::Instruction& instruction : llvm::instructions(function))
      if (const auto* frame = llvm::dyn_cast<llvm::AllocaInst>(&instruction); frame && !frame->isStaticAlloca())
        return unsupported("{} has a frame of variable size", function.getName().str());
  }
  return {};
}

Result<std::unique_ptr<llvm::MemoryBuffer>> assemble(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream out(object);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::ObjectFile))
    return environment("LLVM makes no object code for this processor");
  passes.run(module);
  return std::make_unique<llvm::SmallVectorMemoryBuffer>(std::move(object), "kernel", false);
}

struct Compiled {
  std::vector<KernelCode> kernels;
  std::unique_ptr<llvm::MemoryBuffer> object;
};

Result<Compiled> generate(llvm::Module& module, std::span<const std::string> names, const OptimizeOptions& options) {
  STRATA_TRY(const std::unique_ptr<llvm::TargetMachine> machine, host_machine(options.level));
  if (options.dump) options.dump("input", module);
  STRATA_CHECK(verify(module));
  STRATA_CHECK(prepare_device_functions(module));
  Compiled result;
  for (const std::string& name : names) {
    if (module.getNamedValue(name)) return invalid("the module has a {} of its own already", name);
    STRATA_TRY(const BlockFunction block, prepare_block_function(module, name));
    KernelCode kernel{name, nullptr, nullptr, block.waits, {}, 0};
    for (unsigned i = 0; i < block.buffers; ++i)
      kernel.alignments.push_back(block.function->getParamAlign(i).valueOrOne().value());
    add_entry(block, name, block.waits);
    result.kernels.push_back(std::move(kernel));
  }
  make_atomics_plain(module);
  STRATA_CHECK(optimize(module, *machine, names, options));
  STRATA_CHECK(check_frames(module));
  STRATA_TRY(result.object, assemble(module, *machine));
  return result;
}

Result<std::string> assembly_text(llvm::Module& module, const std::string& name, const OptimizeOptions& options) {
  STRATA_TRY(const std::unique_ptr<llvm::TargetMachine> machine, host_machine(options.level));
  STRATA_CHECK(verify(module));
  STRATA_CHECK(prepare_device_functions(module));
  const std::string entry = name + "_thread";
  STRATA_TRY(const BlockFunction block, prepare_block_function(module, name));
  add_entry(block, entry, true);
  make_atomics_plain(module);
  STRATA_CHECK(optimize(module, *machine, std::vector<std::string>{entry}, options));
  for (llvm::GlobalObject& object : module.global_objects()) {
    if (object.hasLocalLinkage()) object.setName(fmt::format("{}.{}", name, object.getName().str()));
  }
  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream out(text);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return environment("LLVM makes no assembly text for this processor");
  passes.run(module);
  return std::string(text.begin(), text.end());
}

/// Of a file of its own, as part of another.
std::string as_part(std::string_view text, const std::string& name) {
  std::string part;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    std::string line(text.substr(0, end));
    text.remove_prefix(end);
    const size_t first = line.find_first_not_of(" \t");
    const auto begins = [&](std::string_view with) { return line.compare(first, with.size(), with) == 0; };
    if (first == std::string::npos || begins(".file") || begins(".ident") || begins(".addrsig") || begins("#"))
      continue;
    if (begins(".section") && line.find("note.GNU-stack") != std::string::npos) continue;
    for (size_t at = 0; (at = line.find(".L", at)) != std::string::npos; at += 2 + name.size())
      line.insert(at + 2, name);
    part += line;
  }
  return part + "\t.text\n";
}

}  // namespace

Result<std::string> make_assembly(llvm::Module& module, const std::string& name, const OptimizeOptions& options) {
  std::string text;
  STRATA_CHECK(guard_llvm(module.getContext(), [&]() -> Result<void> {
    STRATA_TRY(text, assembly_text(module, name, options));
    return {};
  }));
  return as_part(text, name);
}

Result<std::vector<KernelCode>> make_cpu_code(llvm::Module& module, std::span<const std::string> names,
                                              const OptimizeOptions& options) {
  Compiled compiled;
  STRATA_TRY(const LlvmRemarks remarks, guard_llvm(module.getContext(), [&]() -> Result<void> {
               STRATA_TRY(compiled, generate(module, names, options));
               return {};
             }));
  uint64_t stack = 0;
  for (const auto& [function, bytes] : remarks.stack_bytes) stack += bytes;
  if (stack > kMaxStackBytes)
    return unsupported("{} bytes of stack for a thread; expected at most {}", stack, kMaxStackBytes);
  STRATA_TRY(const std::shared_ptr<LinkedCode> code, link_object(std::move(compiled.object)));
  for (KernelCode& kernel : compiled.kernels) {
    kernel.owner = code;
    kernel.stack_bytes = stack;
    STRATA_TRY(void* const entry, code->address(kernel.name));
    kernel.entry = reinterpret_cast<ThreadCode>(entry);
  }
  return std::move(compiled.kernels);
}

}  // namespace strata::emitters
