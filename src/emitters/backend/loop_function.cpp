#include "emitters/backend/loop_function.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <algorithm>
#include <functional>
#include <map>
#include <span>

#include "emitters/backend/block_function.h"
#include "emitters/backend/llvm_guard.h"

namespace strata::emitters {
namespace {

constexpr unsigned kShared = 3;
constexpr int64_t kFlagBytes = 16;  ///< of shared memory: whether the block came last, and room so that the rest aligns
constexpr int64_t kMostParts = 15;  ///< barriers of a block beside that of all its threads
constexpr int kWidest = 16;
constexpr uint64_t kAlignment = 16;

int64_t rounded(int64_t bytes) { return (bytes + kFlagBytes - 1) / kFlagBytes * kFlagBytes; }

class Builder {
 public:
  Builder(llvm::Module& module, const LoopFunction& loop)
      : module_(module), context_(module.getContext()), loop_(loop), builder_(context_), i32_(builder_.getInt32Ty()) {}

  Result<void> build() {
    // What one launch only reads, another one of the loop may write.
    for (llvm::Function& function : module_) {
      for (llvm::Instruction& it : llvm::instructions(function))
        it.setMetadata(llvm::LLVMContext::MD_invariant_load, nullptr);
    }
    llvm::Type* shared = nullptr;
    for (const auto* stages : {&loop_.ahead, &loop_.stages}) {
      for (const LoopStage& stage : *stages) {
        for (const LoopWork& work : stage.works) {
          if (work.kind != LoopWork::Kind::Call) continue;
          STRATA_TRY(const Part* const part, part_of(work));
          shared = part->function->getArg(static_cast<unsigned>(part->function->arg_size()) - 2)->getType();
        }
      }
    }
    if (shared == nullptr) return invalid("the loop {} calls nothing", loop_.name);
    if (loop_.blocks > 1 && shared->getPointerAddressSpace() != kShared)
      return unsupported("blocks of {} wait for each other: on this processor one does all", loop_.name);
    start(shared);
    write();
    return {};
  }

 private:
  /// A block function with the number of the part of the block that runs it: its barriers are for that part.
  struct Part {
    llvm::Function* function = nullptr;
    bool waits = false;
  };
  using Pointers = std::function<llvm::Value*(const LoopSlot&)>;

  llvm::Value* number(int64_t value) { return builder_.getInt32(static_cast<uint32_t>(value)); }
  llvm::BasicBlock* block(const char* name) { return llvm::BasicBlock::Create(context_, name, function_); }

  llvm::FunctionCallee barrier() {
    return module_.getOrInsertFunction(kBarrier, llvm::FunctionType::get(builder_.getVoidTy(), false));
  }
  llvm::FunctionCallee part_barrier() {
    return module_.getOrInsertFunction(kPartBarrier,
                                       llvm::FunctionType::get(builder_.getVoidTy(), {i32_, i32_}, false));
  }

  int64_t parts(const LoopWork& work) const { return parts_of(work, loop_.threads, loop_.shared_bytes); }
  /// Whether the whole block computes one block of the work.
  bool is_whole(const LoopWork& work) const { return work.threads == loop_.threads; }

  Result<const Part*> part_of(const LoopWork& work) {
    const auto known = parts_.find(work.function);
    if (known != parts_.end()) return &known->second;
    STRATA_TRY(const BlockFunction body, prepare_block_function(module_, work.function));
    if (body.buffers != work.slots.size())
      return invalid("{} takes {} buffers, not {}", work.function, body.buffers, work.slots.size());
    std::vector<llvm::Type*> types(body.function->getFunctionType()->params());
    types.push_back(i32_);
    auto* function = llvm::Function::Create(llvm::FunctionType::get(builder_.getVoidTy(), types, false),
                                            llvm::GlobalValue::InternalLinkage, work.function + "_part", module_);
    function->addFnAttr(llvm::Attribute::AlwaysInline);
    for (const char* mode : {"denormal-fp-math", "denormal-fp-math-f32"}) {
      if (body.function->hasFnAttribute(mode)) function->addFnAttr(body.function->getFnAttribute(mode));
    }
    llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context_, "", function));
    std::vector<llvm::Value*> arguments;
    for (unsigned i = 0; i + 1 < function->arg_size(); ++i) {
      function->addParamAttrs(i, llvm::AttrBuilder(context_, body.function->getAttributes().getParamAttrs(i)));
      arguments.push_back(function->getArg(i));
    }
    llvm::CallInst* call = builder.CreateCall(body.function, arguments);
    builder.CreateRetVoid();
    llvm::InlineFunctionInfo info;
    if (!llvm::InlineFunction(*call, info).isSuccess())
      return unsupported("{} cannot be a part of a loop", work.function);
    if (!is_whole(work) && body.waits) STRATA_CHECK(wait_for_part(*function, work));
    return &parts_.emplace(work.function, Part{function, body.waits}).first->second;
  }

  Result<void> wait_for_part(llvm::Function& function, const LoopWork& work) {
    constexpr int64_t kWarp = 32;
    if (work.threads % kWarp != 0) return unsupported("{} has barriers and no whole warps", work.function);
    std::vector<llvm::CallInst*> barriers;
    for (llvm::Instruction& it : llvm::instructions(function)) {
      auto* call = llvm::dyn_cast<llvm::CallInst>(&it);
      llvm::Function* callee = call == nullptr ? nullptr : call->getCalledFunction();
      if (callee == nullptr) continue;
      if (callee->getName() == kBarrier) {
        barriers.push_back(call);
      } else {
        STRATA_TRY(const bool waits, reaches_barrier(*callee));
        if (waits) return unsupported("{} calls {}, which has a barrier", work.function, callee->getName().str());
      }
    }
    for (llvm::CallInst* call : barriers) {
      llvm::IRBuilder<> builder(call);
      builder.CreateCall(part_barrier(),
                         {function.getArg(static_cast<unsigned>(function.arg_size()) - 1), number(work.threads)});
      call->eraseFromParent();
    }
    return {};
  }

  void start(llvm::Type* shared) {
    std::vector<llvm::Type*> types(static_cast<size_t>(loop_.buffers), builder_.getPtrTy());
    types.insert(types.end(), {i32_, i32_, shared});
    function_ = llvm::Function::Create(llvm::FunctionType::get(builder_.getVoidTy(), types, false),
                                       llvm::GlobalValue::ExternalLinkage, loop_.name + "_block", module_);
    const llvm::Function& any = *parts_.begin()->second.function;
    for (const char* mode : {"denormal-fp-math", "denormal-fp-math-f32"}) {
      if (any.hasFnAttribute(mode)) function_->addFnAttr(any.getFnAttribute(mode));
    }
    for (unsigned i = 0; i < static_cast<unsigned>(loop_.buffers); ++i)
      function_->addParamAttr(i, llvm::Attribute::getWithAlignment(context_, llvm::Align(kAlignment)));
    const auto at = static_cast<unsigned>(loop_.buffers);
    block_ = function_->getArg(at);
    thread_ = function_->getArg(at + 1);
    shared_ = function_->getArg(at + 2);
    builder_.SetInsertPoint(block("begin"));
    blocks_ = number(1);
    if (loop_.blocks > 1) blocks_ = builder_.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x, {}, {});
  }

  llvm::Value* buffer(int of) { return function_->getArg(static_cast<unsigned>(of)); }

  /// An iteration: its number, where iterations are counted, and the place in Value::places that it reads.
  struct Turn {
    llvm::Value* number = nullptr;
    llvm::Value* place = nullptr;
  };

  Turn first_turn() { return {number(0), number(0)}; }

  Turn after(const Turn& turn) {
    llvm::Value* is_last = builder_.CreateICmpEQ(turn.place, number(loop_.places - 1));
    return {builder_.CreateAdd(turn.number, number(1)),
            builder_.CreateSelect(is_last, number(loop_.repeats), builder_.CreateAdd(turn.place, number(1)))};
  }

  llvm::Value* place_of(const LoopFunction::Value& value, const Turn& turn) {
    if (value.stride > 0) {
      llvm::Value* offset = builder_.CreateMul(turn.number, number(value.stride));
      return builder_.CreateGEP(builder_.getInt8Ty(), buffer(value.places.front()), offset);
    }
    llvm::Value* at = buffer(value.places.front());
    for (size_t i = 1; i < value.places.size(); ++i) {
      if (buffer(value.places[i]) == at) continue;
      at = builder_.CreateSelect(builder_.CreateICmpEQ(turn.place, number(static_cast<int64_t>(i))),
                                 buffer(value.places[i]), at);
    }
    return at;
  }

  /// Where everything lies in an iteration.
  Pointers pointers(const Turn& turn) {
    const Turn next = after(turn);
    std::vector<std::pair<llvm::Value*, llvm::Value*>> values;
    for (const LoopFunction::Value& it : loop_.values) values.emplace_back(place_of(it, turn), place_of(it, next));
    return [this, values](const LoopSlot& slot) -> llvm::Value* {
      if (slot.kind == LoopSlot::Kind::Buffer) return buffer(slot.number);
      const auto& [current, next_one] = values[static_cast<size_t>(slot.number)];
      return slot.kind == LoopSlot::Kind::Current ? current : next_one;
    };
  }

  /// for (at = begin; at < end; at += step) body(at)
  void for_each(llvm::Value* begin, llvm::Value* end, llvm::Value* step,
                const std::function<void(llvm::Value*)>& body) {
    llvm::BasicBlock* before = builder_.GetInsertBlock();
    llvm::BasicBlock* header = block("each");
    llvm::BasicBlock* inside = block("do");
    llvm::BasicBlock* after = block("done");
    builder_.CreateBr(header);
    builder_.SetInsertPoint(header);
    llvm::PHINode* at = builder_.CreatePHI(begin->getType(), 2);
    at->addIncoming(begin, before);
    builder_.CreateCondBr(builder_.CreateICmpSLT(at, end), inside, after);
    builder_.SetInsertPoint(inside);
    body(at);
    at->addIncoming(builder_.CreateAdd(at, step), builder_.GetInsertBlock());
    builder_.CreateBr(header);
    builder_.SetInsertPoint(after);
  }

  void if_then(llvm::Value* condition, const std::function<void()>& body) {
    llvm::BasicBlock* inside = block("if");
    llvm::BasicBlock* after = block("then");
    builder_.CreateCondBr(condition, inside, after);
    builder_.SetInsertPoint(inside);
    body();
    builder_.CreateBr(after);
    builder_.SetInsertPoint(after);
  }

  /// The blocks from `first` on at `step` from each other.
  void call(const LoopWork& work, const Pointers& at, llvm::Value* first, llvm::Value* step) {
    const Part& part = parts_.at(work.function);
    const int64_t count = parts(work);
    llvm::Value* own = is_whole(work) ? number(0) : builder_.CreateUDiv(thread_, number(work.threads));
    llvm::Value* thread = is_whole(work) ? thread_ : builder_.CreateURem(thread_, number(work.threads));
    const auto run = [&] {
      llvm::Value* begin = builder_.CreateAdd(first, builder_.CreateMul(own, step));
      for_each(begin, number(work.blocks), builder_.CreateMul(step, number(count)), [&](llvm::Value* block) {
        std::vector<llvm::Value*> arguments;
        for (const LoopSlot& slot : work.slots) arguments.push_back(at(slot));
        llvm::Value* offset =
            builder_.CreateAdd(builder_.CreateMul(own, number(rounded(work.shared_bytes))), number(kFlagBytes));
        arguments.insert(arguments.end(),
                         {block, thread, builder_.CreateGEP(builder_.getInt8Ty(), shared_, offset), own});
        builder_.CreateCall(part.function, arguments);
        if (work.shared_bytes == 0 || !part.waits) return;
        // The next one writes where this one reads.
        if (is_whole(work)) {
          builder_.CreateCall(barrier());
        } else {
          builder_.CreateCall(part_barrier(), {own, number(work.threads)});
        }
      });
    };
    if (count * work.threads == loop_.threads) return run();
    if_then(builder_.CreateICmpULT(own, number(count)), run);
  }

  llvm::Type* word(int width) {
    return width == kWidest ? static_cast<llvm::Type*>(llvm::FixedVectorType::get(i32_, 4))
                            : builder_.getIntNTy(static_cast<unsigned>(8 * width));
  }

  /// Words of so many bytes at `to`, by threads of the blocks from `first` on.
  void each_word(int64_t bytes, int width, llvm::Value* first, llvm::Value* step,
                 const std::function<void(llvm::Value*)>& body) {
    llvm::Type* i64 = builder_.getInt64Ty();
    const auto wide = [&](llvm::Value* value) { return builder_.CreateZExt(value, i64); };
    llvm::Value* threads = builder_.getInt64(static_cast<uint64_t>(loop_.threads));
    llvm::Value* begin = builder_.CreateAdd(builder_.CreateMul(wide(first), threads), wide(thread_));
    for_each(begin, builder_.getInt64(static_cast<uint64_t>(bytes / width)), builder_.CreateMul(wide(step), threads),
             body);
  }

  void copy(int64_t bytes, llvm::Value* from, llvm::Value* to, llvm::Value* first, llvm::Value* step) {
    if (from == to || bytes == 0) return;
    int width = kWidest;
    while (bytes % width != 0) width /= 2;
    if_then(builder_.CreateICmpNE(from, to), [&] {
      each_word(bytes, width, first, step, [&](llvm::Value* at) {
        llvm::Value* value = builder_.CreateAlignedLoad(word(width), builder_.CreateGEP(word(width), from, at),
                                                        llvm::Align(static_cast<uint64_t>(width)));
        builder_.CreateAlignedStore(value, builder_.CreateGEP(word(width), to, at),
                                    llvm::Align(static_cast<uint64_t>(width)));
      });
    });
  }

  void fill(const LoopWork& work, llvm::Value* to, llvm::Value* first, llvm::Value* step) {
    const auto width = static_cast<int>(work.pattern.size());
    llvm::APInt bits(static_cast<unsigned>(8 * width), 0);
    for (int i = 0; i < width; ++i)
      bits.insertBits(static_cast<uint64_t>(static_cast<unsigned char>(work.pattern[static_cast<size_t>(i)])),
                      static_cast<unsigned>(8 * i), 8);
    llvm::Value* value = builder_.CreateBitCast(llvm::ConstantInt::get(context_, bits), word(width));
    each_word(work.bytes, width, first, step, [&](llvm::Value* at) {
      builder_.CreateAlignedStore(value, builder_.CreateGEP(word(width), to, at),
                                  llvm::Align(static_cast<uint64_t>(width)));
    });
  }

  void run(const LoopStage& stage, const Pointers& at, llvm::Value* first, llvm::Value* step) {
    bool is_busy = false;  // parts of the block may still use its barriers or shared memory
    for (const LoopWork& work : stage.works) {
      switch (work.kind) {
        case LoopWork::Kind::Call: {
          const bool uses = parts_.at(work.function).waits || work.shared_bytes > 0;
          // Its parts are others, of other threads.
          if (is_busy && uses) builder_.CreateCall(barrier());
          call(work, at, first, step);
          is_busy |= uses;
          break;
        }
        case LoopWork::Kind::Copy:
          copy(work.bytes, at(work.slots[0]), at(work.slots[1]), first, step);
          break;
        case LoopWork::Kind::Fill:
          fill(work, at(work.slots[0]), first, step);
          break;
      }
    }
  }

  /// Stages that one block does, one after the other.
  void run_alone(std::span<const LoopStage> stages, const Pointers& at) {
    for (const LoopStage& stage : stages) {
      run(stage, at, number(0), number(1));
      builder_.CreateCall(barrier());
    }
  }

  /// Whether there is the iteration.
  llvm::Value* goes_on(const Turn& turn, const Pointers& at) {
    if (loop_.count) return builder_.CreateICmpSLT(turn.number, number(*loop_.count));
    llvm::Value* answer = builder_.CreateLoad(builder_.getInt8Ty(), at({LoopSlot::Kind::Current, loop_.answer}));
    return builder_.CreateTrunc(answer, builder_.getInt1Ty());
  }

  llvm::Value* assembly(llvm::Type* result, const char* text, const char* constraints,
                        std::vector<llvm::Value*> operands) {
    std::vector<llvm::Type*> types;
    for (const llvm::Value* operand : operands) types.push_back(operand->getType());
    return builder_.CreateCall(
        llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false), text, constraints, true), operands);
  }

  llvm::Value* counter(int64_t bytes) {
    return builder_.CreateGEP(builder_.getInt8Ty(), buffer(loop_.buffers - 1), number(bytes));
  }

  /// Of one thread, for its block: how many came before, since the counter was 0.
  llvm::Value* arrive() {
    return assembly(i32_, "fence.acq_rel.gpu;\n\tatom.relaxed.gpu.add.u32 $0, [$1], 1;\n\tfence.acq_rel.gpu;",
                    "=r,l,~{memory}", {counter(0)});
  }

  /// By one thread, after which the others go on that wait for barrier number `count`.
  void release(llvm::Value* count) {
    assembly(builder_.getVoidTy(), "fence.acq_rel.gpu;\n\tst.relaxed.gpu.u32 [$0], $1;", "l,r,~{memory}",
             {counter(4), count});
  }

  void wait_for_release(llvm::Value* count) {
    llvm::BasicBlock* again = block("wait");
    llvm::BasicBlock* after = block("released");
    builder_.CreateBr(again);
    builder_.SetInsertPoint(again);
    llvm::Value* seen = assembly(i32_, "ld.acquire.gpu.u32 $0, [$1];", "=r,l,~{memory}", {counter(4)});
    builder_.CreateCondBr(builder_.CreateICmpEQ(seen, count), after, again);
    builder_.SetInsertPoint(after);
  }

  llvm::Value* is_last(llvm::Value* arrived, llvm::Value* count) {
    return builder_.CreateICmpEQ(builder_.CreateAdd(arrived, number(1)), builder_.CreateMul(count, blocks_));
  }

  /// All blocks wait for each other; `alone` is done by the one that comes last, before the others go on. Barriers are
  /// numbered from 1. A block's own barrier stands for all where it is the only one.
  void meet(llvm::Value* count, bool any_alone, const std::function<void()>& alone) {
    builder_.CreateCall(barrier());
    if (loop_.blocks == 1) {
      alone();
      return;
    }
    llvm::Value* is_thread_0 = builder_.CreateICmpEQ(thread_, number(0));
    if (!any_alone) {
      if_then(is_thread_0, [&] {
        llvm::BasicBlock* last = block("last");
        llvm::BasicBlock* other = block("other");
        llvm::BasicBlock* after = block("met");
        builder_.CreateCondBr(is_last(arrive(), count), last, other);
        builder_.SetInsertPoint(last);
        release(count);
        builder_.CreateBr(after);
        builder_.SetInsertPoint(other);
        wait_for_release(count);
        builder_.CreateBr(after);
        builder_.SetInsertPoint(after);
      });
      builder_.CreateCall(barrier());
      return;
    }
    if_then(is_thread_0, [&] { builder_.CreateStore(builder_.CreateZExt(is_last(arrive(), count), i32_), shared_); });
    builder_.CreateCall(barrier());
    llvm::BasicBlock* last = block("last");
    llvm::BasicBlock* other = block("other");
    llvm::BasicBlock* after = block("met");
    builder_.CreateCondBr(builder_.CreateICmpNE(builder_.CreateLoad(i32_, shared_), number(0)), last, other);
    builder_.SetInsertPoint(last);
    alone();  // ends with a barrier of the block
    if_then(is_thread_0, [&] { release(count); });
    builder_.CreateBr(after);
    builder_.SetInsertPoint(other);
    if_then(is_thread_0, [&] { wait_for_release(count); });
    builder_.CreateBr(after);
    builder_.SetInsertPoint(after);
    builder_.CreateCall(barrier());
  }

  /// What the iteration begins with, if there is one.
  void begin(const Turn& turn) {
    if (loop_.ahead.empty()) return;
    const Pointers at = pointers(turn);
    if_then(goes_on(turn, at), [&] { run_alone(loop_.ahead, at); });
  }

  /// The number of the barrier before.
  llvm::Value* prepare() {
    bool copies = false;
    for (const LoopFunction::Value& it : loop_.values) {
      if (it.before < 0) continue;
      copy(it.bytes, buffer(it.before), buffer(it.places.front()), block_, blocks_);
      copies = true;
    }
    if (!copies && loop_.ahead.empty()) return number(0);
    meet(number(1), !loop_.ahead.empty(), [&] { begin(first_turn()); });
    return number(1);
  }

  void write() {
    llvm::Value* met = prepare();
    llvm::BasicBlock* before = builder_.GetInsertBlock();
    llvm::BasicBlock* header = block("iteration");
    llvm::BasicBlock* inside = block("body");
    llvm::BasicBlock* end = block("end");
    builder_.CreateBr(header);
    builder_.SetInsertPoint(header);
    llvm::PHINode* turn_number = builder_.CreatePHI(i32_, 2);
    llvm::PHINode* turn_place = builder_.CreatePHI(i32_, 2);
    llvm::PHINode* count = builder_.CreatePHI(i32_, 2);
    const Turn turn{turn_number, turn_place};
    turn_number->addIncoming(first_turn().number, before);
    turn_place->addIncoming(first_turn().place, before);
    count->addIncoming(met, before);
    const Pointers at = pointers(turn);
    builder_.CreateCondBr(goes_on(turn, at), inside, end);
    builder_.SetInsertPoint(inside);
    const Turn next = after(turn);
    llvm::Value* barriers = count;
    for (size_t i = 0; i < loop_.stages.size();) {
      run(loop_.stages[i], at, block_, blocks_);
      size_t last = ++i;
      while (last < loop_.stages.size() && loop_.stages[last].serial) ++last;
      const std::span<const LoopStage> alone(loop_.stages.data() + i, last - i);
      const bool ends = last == loop_.stages.size();
      barriers = builder_.CreateAdd(barriers, number(1));
      meet(barriers, !alone.empty() || (ends && !loop_.ahead.empty()), [&] {
        run_alone(alone, at);
        if (ends) begin(next);
      });
      i = last;
    }
    turn_number->addIncoming(next.number, builder_.GetInsertBlock());
    turn_place->addIncoming(next.place, builder_.GetInsertBlock());
    count->addIncoming(barriers, builder_.GetInsertBlock());
    builder_.CreateBr(header);
    builder_.SetInsertPoint(end);
    for (size_t i = 0; i < loop_.values.size(); ++i) {
      const LoopFunction::Value& it = loop_.values[i];
      if (it.result >= 0)
        copy(it.bytes, at({LoopSlot::Kind::Current, static_cast<int>(i)}), buffer(it.result), block_, blocks_);
    }
    if (loop_.blocks > 1) clear_counters(count);
    builder_.CreateRetVoid();
  }

  /// By the last block to come here: none waits any more.
  void clear_counters(llvm::Value* count) {
    if_then(builder_.CreateICmpEQ(thread_, number(0)), [&] {
      llvm::Value* last = is_last(arrive(), builder_.CreateAdd(count, number(1)));
      if_then(last, [&] {
        builder_.CreateStore(number(0), counter(0));
        builder_.CreateStore(number(0), counter(4));
      });
    });
  }

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  const LoopFunction& loop_;
  llvm::IRBuilder<> builder_;
  llvm::Type* i32_;
  std::map<std::string, Part> parts_;
  llvm::Function* function_ = nullptr;
  llvm::Value *block_ = nullptr, *thread_ = nullptr, *shared_ = nullptr, *blocks_ = nullptr;
};

}  // namespace

int64_t parts_of(const LoopWork& work, int threads, int64_t shared_memory) {
  if (work.kind != LoopWork::Kind::Call) return 1;
  int64_t parts = std::min({int64_t{threads / work.threads}, work.blocks, kMostParts});
  if (work.shared_bytes > 0) parts = std::min(parts, (shared_memory - kFlagBytes) / rounded(work.shared_bytes));
  return std::max<int64_t>(parts, 1);
}

int64_t shared_bytes_of(const LoopFunction& loop, int64_t shared_memory) {
  int64_t most = 0;
  for (const auto* stages : {&loop.ahead, &loop.stages}) {
    for (const LoopStage& stage : *stages) {
      for (const LoopWork& work : stage.works) {
        if (work.kind != LoopWork::Kind::Call) continue;
        most = std::max(most, parts_of(work, loop.threads, shared_memory) * rounded(work.shared_bytes));
      }
    }
  }
  return kFlagBytes + most;
}

Result<void> add_loop_function(llvm::Module& module, const LoopFunction& loop) {
  STRATA_CHECK(guard_llvm(module.getContext(), [&] { return Builder(module, loop).build(); }));
  return {};
}

}  // namespace strata::emitters
