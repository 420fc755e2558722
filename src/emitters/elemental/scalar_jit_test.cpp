#include "emitters/elemental/scalar_jit_test.h"

#include <gtest/gtest.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <mlir/Conversion/MathToLibm/MathToLibm.h>
#include <mlir/Conversion/Passes.h>
#include <mlir/Dialect/Arith/Transforms/Passes.h>
#include <mlir/Dialect/Complex/IR/Complex.h>
#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/Dialect/LLVMIR/LLVMDialect.h>
#include <mlir/Dialect/Math/IR/Math.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/IR/Verifier.h>
#include <mlir/Pass/PassManager.h>
#include <mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h>
#include <mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h>
#include <mlir/Target/LLVMIR/Export.h>
#include <mlir/Transforms/GreedyPatternRewriteDriver.h>

#include <complex>

#include "emitters/dialect/dialect.h"
#include "emitters/elemental/scalar_operators.h"
#include "emitters/elemental/types.h"
#include "hlo/small_float.h"

namespace strata::emitters {
namespace {

namespace arith = mlir::arith;
namespace LLVM = mlir::LLVM;
using hlo::ElementType;
using mlir::ImplicitLocOpBuilder;
using mlir::Value;
using Complex = std::complex<double>;

// --- loads and stores ---

Value address(ImplicitLocOpBuilder& b, Value array, mlir::Type type, Value index) {
  return b.create<LLVM::GEPOp>(array.getType(), type, array, index);
}

Value load(ImplicitLocOpBuilder& b, Value array, ElementType type, Value index) {
  const mlir::Type held = element_type(b.getContext(), type);
  if (const auto complex = llvm::dyn_cast<mlir::ComplexType>(held)) {
    const mlir::Type part = complex.getElementType();
    const Value one = b.create<arith::ConstantOp>(b.getI64IntegerAttr(1));
    const Value first = b.create<arith::AddIOp>(index, index);
    const Value second = b.create<arith::AddIOp>(first, one);
    const Value re = b.create<LLVM::LoadOp>(part, address(b, array, part, first));
    const Value im = b.create<LLVM::LoadOp>(part, address(b, array, part, second));
    return b.create<mlir::complex::CreateOp>(held, re, im);
  }
  if (held.getIntOrFloatBitWidth() >= 8) return b.create<LLVM::LoadOp>(held, address(b, array, held, index));
  const Value byte = b.create<LLVM::LoadOp>(b.getI8Type(), address(b, array, b.getI8Type(), index));
  return b.create<arith::TruncIOp>(held, byte);
}

void store(ImplicitLocOpBuilder& b, Value array, ElementType type, Value index, Value value) {
  const auto put = [&](Value x, Value at) { b.create<LLVM::StoreOp>(x, address(b, array, x.getType(), at)); };
  if (hlo::is_complex(type)) {
    const Value one = b.create<arith::ConstantOp>(b.getI64IntegerAttr(1));
    const Value first = b.create<arith::AddIOp>(index, index);
    put(b.create<mlir::complex::ReOp>(value), first);
    put(b.create<mlir::complex::ImOp>(value), b.create<arith::AddIOp>(first, one));
    return;
  }
  if (value.getType().getIntOrFloatBitWidth() >= 8) return put(value, index);
  put(hlo::is_signed(type) ? b.create<arith::ExtSIOp>(b.getI8Type(), value).getResult()
                           : b.create<arith::ExtUIOp>(b.getI8Type(), value).getResult(),
      index);
}

/// func @name(three operands, result, number of elements), at whose body the builder stands afterwards.
mlir::func::FuncOp begin_function(ImplicitLocOpBuilder& b, const std::string& name) {
  const mlir::Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  const mlir::Type arguments[] = {pointer, pointer, pointer, pointer, b.getI64Type()};
  auto function = b.create<mlir::func::FuncOp>(name, b.getFunctionType(arguments, {}));
  b.setInsertionPointToStart(function.addEntryBlock());
  return function;
}

// --- lowering ---

void call_instead(mlir::Operation* operation, const std::string& name) {
  ImplicitLocOpBuilder b(operation->getLoc(), operation);
  auto module = operation->getParentOfType<mlir::ModuleOp>();
  if (!module.lookupSymbol(name)) {
    const mlir::OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(module.getBody());
    const auto type = b.getFunctionType(operation->getOperandTypes(), operation->getResultTypes());
    b.create<mlir::func::FuncOp>(name, type).setPrivate();
  }
  auto call = b.create<mlir::func::CallOp>(name, operation->getResultTypes(), operation->getOperands());
  operation->replaceAllUsesWith(call);
  operation->erase();
}

/// Calls for what MLIR cannot lower, or not well: complex.exp becomes strata_exp_c128.
void call_functions(mlir::ModuleOp module) {
  llvm::SmallVector<std::pair<mlir::Operation*, std::string>> calls;
  module.walk([&](mlir::Operation* operation) {
    if (auto call = llvm::dyn_cast<PureCallOp>(operation)) calls.emplace_back(operation, call.getCallee().str());
    namespace complex = mlir::complex;
    if (llvm::isa<complex::ExpOp, complex::LogOp, complex::SinOp, complex::CosOp, complex::TanhOp, complex::SqrtOp,
                  complex::DivOp, complex::AbsOp>(operation)) {
      const auto number = llvm::cast<mlir::ComplexType>(operation->getOperand(0).getType());
      const char* suffix = number.getElementType().isF32() ? "_c64" : "_c128";
      calls.emplace_back(operation, "strata_" + operation->getName().stripDialect().str() + suffix);
    }
  });
  for (const auto& [operation, name] : calls) call_instead(operation, name);
}

void lower(mlir::ModuleOp module) {
  call_functions(module);
  mlir::RewritePatternSet patterns(module.getContext());
  mlir::arith::populateExpandBFloat16Patterns(patterns);
  mlir::populateMathToLibmConversionPatterns(patterns);
  ASSERT_TRUE(succeeded(mlir::applyPatternsAndFoldGreedily(module, std::move(patterns))));
  mlir::PassManager passes(module.getContext());
  passes.addPass(mlir::createConvertSCFToCFPass());
  passes.addNestedPass<mlir::func::FuncOp>(mlir::createConvertMathToLLVMPass());
  passes.addPass(mlir::createConvertComplexToLLVMPass());
  passes.addPass(mlir::createArithToLLVMConversionPass());
  passes.addPass(mlir::createConvertControlFlowToLLVMPass());
  passes.addPass(mlir::createConvertFuncToLLVMPass());
  passes.addPass(mlir::createReconcileUnrealizedCastsPass());
  ASSERT_TRUE(succeeded(passes.run(module)));
}

void optimize_module(llvm::Module& module, llvm::TargetMachine* machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager cycles;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.SLPVectorization = tuning.LoopUnrolling = false;  // only to save time
  llvm::PassBuilder builder(machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(cycles);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, cycles, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

// --- in the place of emitters/math ---

template <ElementType type>
float decode(uint8_t code) {
  return hlo::decode_table(type)[code & ((size_t{1} << hlo::bit_width(type)) - 1)];
}
template <ElementType type>
uint8_t encode(float value) {
  return static_cast<uint8_t>(hlo::encode(type, static_cast<double>(value)));
}
template <class T>
T logistic(T x) {
  return static_cast<T>(1 / (1 + std::exp(-static_cast<double>(x))));
}

llvm::orc::SymbolMap library(llvm::orc::LLJIT& jit) {
  llvm::orc::SymbolMap map;
  const auto define = [&](const std::string& name, auto* f) {
    map[jit.mangleAndIntern("strata_" + name)] = {llvm::orc::ExecutorAddr::fromPtr(f), llvm::JITSymbolFlags::Exported};
  };
#define STRATA_SMALL_FLOAT(name, type)                \
  define(name "_to_f32", &decode<ElementType::type>); \
  define("f32_to_" name, &encode<ElementType::type>);
  STRATA_SMALL_FLOAT("f4e2m1fn", F4E2M1FN)
  STRATA_SMALL_FLOAT("f8e3m4", F8E3M4)
  STRATA_SMALL_FLOAT("f8e4m3", F8E4M3)
  STRATA_SMALL_FLOAT("f8e4m3fn", F8E4M3FN)
  STRATA_SMALL_FLOAT("f8e4m3b11fnuz", F8E4M3B11FNUZ)
  STRATA_SMALL_FLOAT("f8e4m3fnuz", F8E4M3FNUZ)
  STRATA_SMALL_FLOAT("f8e5m2", F8E5M2)
  STRATA_SMALL_FLOAT("f8e5m2fnuz", F8E5M2FNUZ)
  STRATA_SMALL_FLOAT("f8e8m0fnu", F8E8M0FNU)
#undef STRATA_SMALL_FLOAT
  define("logistic_f32", &logistic<float>);
  define("logistic_f64", &logistic<double>);
  using Function = Complex (*)(Complex);
#define STRATA_COMPLEX(name, f) define(name "_c128", static_cast<Function>([](Complex z) -> Complex { return f(z); }));
  STRATA_COMPLEX("acos", std::acos)
  STRATA_COMPLEX("acosh", std::acosh)
  STRATA_COMPLEX("asinh", std::asinh)
  STRATA_COMPLEX("atanh", std::atanh)
  STRATA_COMPLEX("cos", std::cos)
  STRATA_COMPLEX("exp", std::exp)
  STRATA_COMPLEX("log", std::log)
  STRATA_COMPLEX("sin", std::sin)
  STRATA_COMPLEX("sqrt", std::sqrt)
  STRATA_COMPLEX("tanh", std::tanh)
#undef STRATA_COMPLEX
  // Two floats take a register each where LLVM passes them, and one where C does.
  define("abs_c64", static_cast<float (*)(float, float)>([](float re, float im) { return std::hypot(re, im); }));
  define("abs_c128", static_cast<double (*)(Complex)>([](Complex z) { return std::abs(z); }));
  define("div_c128", static_cast<Complex (*)(Complex, Complex)>([](Complex x, Complex y) { return x / y; }));
  return map;
}

}  // namespace

ScalarJit::ScalarJit() {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  context_.loadDialect<StrataDialect, arith::ArithDialect, mlir::complex::ComplexDialect, mlir::func::FuncDialect,
                       mlir::math::MathDialect, mlir::scf::SCFDialect, LLVM::LLVMDialect>();
  mlir::registerBuiltinDialectTranslation(context_);
  mlir::registerLLVMDialectTranslation(context_);
  module_ = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context_));
}

ScalarJit::~ScalarJit() = default;

Result<void> ScalarJit::add(const std::string& name, const hlo::Computation& computation) {
  ImplicitLocOpBuilder b(module_->getLoc(), &context_);
  b.setInsertionPointToEnd(module_->getBody());
  auto function = begin_function(b, name);
  const hlo::Instruction& root = computation.root_instruction();
  const Value zero = b.create<arith::ConstantOp>(b.getI64IntegerAttr(0));
  const Value one = b.create<arith::ConstantOp>(b.getI64IntegerAttr(1));
  auto loop = b.create<mlir::scf::ForOp>(zero, function.getArgument(4), one);
  b.setInsertionPointToStart(loop.getBody());
  llvm::SmallVector<Value> operands;
  for (size_t i = 0; i < root.operands.size(); ++i) {
    operands.push_back(load(b, function.getArgument(static_cast<unsigned>(i)), computation.operand_shape(root, i).type,
                            loop.getInductionVar()));
  }
  const Result<Value> result = emit_scalar(b, computation, root, operands);
  if (!result) {
    function.erase();
    return tl::unexpected(result.error());
  }
  store(b, function.getArgument(3), root.shape.type, loop.getInductionVar(), *result);
  b.setInsertionPointAfter(loop);
  b.create<mlir::func::ReturnOp>();
  return {};
}

void ScalarJit::add_constant(const std::string& name, const hlo::Literal& literal) {
  ImplicitLocOpBuilder b(module_->getLoc(), &context_);
  b.setInsertionPointToEnd(module_->getBody());
  auto function = begin_function(b, name);
  for (int64_t i = 0; i < literal.size(); ++i) {
    const Value index = b.create<arith::ConstantOp>(b.getI64IntegerAttr(i));
    store(b, function.getArgument(3), literal.type(), index, emit_constant(b, literal, i));
  }
  b.create<mlir::func::ReturnOp>();
}

std::string ScalarJit::compile() {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module_->print(stream);
  EXPECT_TRUE(succeeded(mlir::verify(*module_)));
  lower(*module_);
  auto context = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> module = mlir::translateModuleToLLVMIR(*module_, *context);
  EXPECT_TRUE(module);
  auto host = llvm::cantFail(llvm::orc::JITTargetMachineBuilder::detectHost());
  host.setCodeGenOptLevel(llvm::CodeGenOptLevel::Less);
  const auto machine = llvm::cantFail(host.createTargetMachine());
  module->setDataLayout(machine->createDataLayout());
  module->setTargetTriple(machine->getTargetTriple().str());
  optimize_module(*module, machine.get());
  jit_ = llvm::cantFail(llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(host).create());
  llvm::orc::JITDylib& symbols = jit_->getMainJITDylib();
  const char prefix = jit_->getDataLayout().getGlobalPrefix();
  symbols.addGenerator(llvm::cantFail(llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(prefix)));
  llvm::cantFail(symbols.define(llvm::orc::absoluteSymbols(library(*jit_))));
  llvm::cantFail(jit_->addIRModule(llvm::orc::ThreadSafeModule(std::move(module), std::move(context))));
  return text;
}

hlo::Literal ScalarJit::run(const std::string& name, const std::vector<hlo::Literal>& arguments,
                            const hlo::Shape& shape) {
  using Function = void (*)(const std::byte*, const std::byte*, const std::byte*, std::byte*, int64_t);
  auto* function = llvm::cantFail(jit_->lookup(name)).toPtr<Function>();
  const auto bytes = [&](size_t i) { return i < arguments.size() ? arguments[i].bytes() : nullptr; };
  hlo::Literal result(shape);
  function(bytes(0), bytes(1), bytes(2), result.mutable_bytes(), result.size());
  return result;
}

}  // namespace strata::emitters
