#include "emitters/math/math_library.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/TargetSelect.h>

#include <cmath>
#include <cstring>
#include <set>
#include <string>

#include "emitters/math/math_testing.h"
#include "emitters/math/strata_math.h"

namespace strata::emitters {
namespace {

std::unique_ptr<llvm::Module> parse(MathTarget target, llvm::LLVMContext& context) {
  const std::span<const std::byte> bytes = math_bitcode(target);
  const llvm::StringRef text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto module = llvm::parseBitcodeFile(llvm::MemoryBufferRef(text, "math"), context);
  EXPECT_TRUE(static_cast<bool>(module));
  return module ? std::move(*module) : nullptr;
}

const std::set<std::string> kSymbols = {
#define STRATA_MATH_REAL1(name, ulp_f32, ulp_nvptx, ulp_f64) "strata_" #name "_f32", "strata_" #name "_f64",
#define STRATA_MATH_REAL2(name, ulp_f32, ulp_nvptx, ulp_f64) "strata_" #name "_f32", "strata_" #name "_f64",
#define STRATA_MATH_HALF(name) "strata_" #name "_f32_half",
#define STRATA_MATH_BF16(name) "strata_" #name "_f32_bf16",
#define STRATA_MATH_COMPLEX1(name) "strata_" #name "_c64", "strata_" #name "_c128",
#define STRATA_MATH_COMPLEX2(name) "strata_" #name "_c64", "strata_" #name "_c128",
#define STRATA_MATH_SMALL(type, bits) "strata_f32_to_" #type, "strata_f64_to_" #type, "strata_" #type "_to_f32",
#include "emitters/math/strata_math.def"
    "strata_abs_c64",          "strata_abs_c128",    "strata_divide_f32",
    "strata_divide_f32_half",  "strata_erf_inv_f32", "strata_inverse_f32",
    "strata_pow_quarters_f32", "strata_sqrt_f32",    "strata_quarter_turns_f64"};

class MathBitcodeOf : public testing::TestWithParam<MathTarget> {};

TEST_P(MathBitcodeOf, DefinesTheFunctionsAndNeedsNothing) {
  llvm::LLVMContext context;
  const auto module = parse(GetParam(), context);
  ASSERT_TRUE(module);
  EXPECT_FALSE(llvm::verifyModule(*module, &llvm::errs()));
  std::set<std::string> defined;
  for (const llvm::Function& function : *module) {
    if (!function.isDeclaration()) {
      for (const char* attribute : {"target-cpu", "target-features", "no-builtins"}) {
        EXPECT_FALSE(function.hasFnAttribute(attribute))
            << function.getName().str() << " cannot be inlined into functions without " << attribute;
      }
      if (function.hasExternalLinkage()) defined.insert(function.getName().str());
    } else {
      EXPECT_TRUE(function.isIntrinsic()) << function.getName().str() << " is not defined";
    }
  }
  EXPECT_EQ(defined, kSymbols);
}

TEST_P(MathBitcodeOf, CallsNoIntrinsicThatBecomesACallOfALibrary) {
  llvm::LLVMContext context;
  const auto module = parse(GetParam(), context);
  ASSERT_TRUE(module);
  const std::set<std::string> instructions = {"llvm.fma.f32",     "llvm.fma.f64",    "llvm.fabs.f32", "llvm.fabs.f64",
                                              "llvm.trunc.f32",   "llvm.trunc.f64",  "llvm.sqrt.f32", "llvm.sqrt.f64",
                                              "llvm.minimum.f32", "llvm.maximum.f32"};
  for (const llvm::Function& function : *module) {
    const std::string name = function.getName().str();
    if (!function.isDeclaration() || name.starts_with("llvm.nvvm.") || name.starts_with("llvm.lifetime.") ||
        name.find(".v2") != std::string::npos || instructions.contains(name)) {
      continue;
    }
    EXPECT_TRUE(function.getReturnType()->isIntOrIntVectorTy()) << name;
  }
}

TEST_P(MathBitcodeOf, HasTheSignaturesOfTheHeader) {
  llvm::LLVMContext context;
  const auto module = parse(GetParam(), context);
  ASSERT_TRUE(module);
  const auto signature = [&](const char* name) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    module->getFunction(name)->getFunctionType()->print(stream);
    return text;
  };
  EXPECT_EQ(signature("strata_exp_f32"), "float (float)");
  EXPECT_EQ(signature("strata_pow_f64"), "double (double, double)");
  EXPECT_EQ(signature("strata_abs_c64"), "float (float, float)");
  EXPECT_EQ(signature("strata_exp_c64"), "void (float, float, ptr, ptr)");
  EXPECT_EQ(signature("strata_pow_c128"), "void (double, double, double, double, ptr, ptr)");
  EXPECT_EQ(signature("strata_f32_to_bf16"), "i16 (float)");
  EXPECT_EQ(signature("strata_f64_to_f8e5m2"), "i8 (double)");
  EXPECT_EQ(signature("strata_f8e5m2_to_f32"), "float (i8)");
}

INSTANTIATE_TEST_SUITE_P(Targets, MathBitcodeOf, testing::Values(MathTarget::Nvptx, MathTarget::X86),
                         [](const auto& test) { return test.param == MathTarget::Nvptx ? "Nvptx" : "X86"; });

/// Bit for bit: neither compiler may contract or reorder.
TEST(MathBitcode, GivesTheSameBitsAsTheSourcesCompiledForTheHost) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto context = std::make_unique<llvm::LLVMContext>();
  auto module = parse(MathTarget::X86, *context);
  ASSERT_TRUE(module);
  auto jit = llvm::cantFail(llvm::orc::LLJITBuilder().create());
  llvm::cantFail(jit->addIRModule(llvm::orc::ThreadSafeModule(std::move(module), std::move(context))));
  const auto compare = [&](const char* symbol, auto* host, auto zero) {
    using T = decltype(zero);
    const auto compiled = llvm::cantFail(jit->lookup(symbol)).toPtr<T (*)(T)>();
    const auto expect_same = [&](T x) {
      const T result = compiled(x);
      const T wanted = host(x);
      EXPECT_TRUE(std::memcmp(&result, &wanted, sizeof(T)) == 0 || (std::isnan(result) && std::isnan(wanted)))
          << symbol << " of " << x << " is " << result << ", not " << wanted;
    };
    for (const T x : special_values<T>()) expect_same(x);
    Arguments<T> arguments;
    for (int i = 0; i < 2000; ++i) expect_same(arguments.next());
  };
#undef STRATA_MATH_REAL1
#undef STRATA_MATH_REAL2
#undef STRATA_MATH_HALF
#undef STRATA_MATH_BF16
#undef STRATA_MATH_COMPLEX1
#undef STRATA_MATH_COMPLEX2
#undef STRATA_MATH_SMALL
#define STRATA_MATH_REAL1(name, ulp_f32, ulp_nvptx, ulp_f64)     \
  compare("strata_" #name "_f32", strata_##name##_f32, float{}); \
  compare("strata_" #name "_f64", strata_##name##_f64, double{});
#define STRATA_MATH_REAL2(name, ulp_f32, ulp_nvptx, ulp_f64)
#define STRATA_MATH_HALF(name) compare("strata_" #name "_f32_half", strata_##name##_f32_half, float{});
#define STRATA_MATH_BF16(name) compare("strata_" #name "_f32_bf16", strata_##name##_f32_bf16, float{});
#define STRATA_MATH_COMPLEX1(name)
#define STRATA_MATH_COMPLEX2(name)
#define STRATA_MATH_SMALL(type, bits)
#include "emitters/math/strata_math.def"
  compare("strata_erf_inv_f32", strata_erf_inv_f32, float{});
}

TEST(MathLibrary, FindsFunctions) {
  const auto exp = find_math_function("exp", "f32");
  ASSERT_TRUE(exp);
  EXPECT_EQ(exp->symbol, "strata_exp_f32");
  EXPECT_EQ(exp->shape, MathShape::Unary);
  EXPECT_EQ(find_math_function("exp", "f32", MathPrecision::F16)->symbol, "strata_exp_f32_half");
  EXPECT_EQ(find_math_function("sin", "f32", MathPrecision::F16)->symbol, "strata_sin_f32");
  EXPECT_EQ(find_math_function("tanh", "f32", MathPrecision::Bf16)->symbol, "strata_tanh_f32_bf16");
  EXPECT_EQ(find_math_function("exp", "f32", MathPrecision::Bf16)->symbol, "strata_exp_f32_half");
  EXPECT_EQ(find_math_function("exp", "f64", MathPrecision::F16)->symbol, "strata_exp_f64");
  EXPECT_EQ(find_math_function("atan2", "c64")->shape, MathShape::ComplexBinary);
  EXPECT_EQ(find_math_function("abs", "c128")->symbol, "strata_abs_c128");
  EXPECT_FALSE(find_math_function("erf", "c64"));
  EXPECT_FALSE(find_math_function("exp", "f16"));
}

TEST(MathLibrary, FindsEveryFunctionUnderItsSymbol) {
  const auto expect = [](const std::string& function, const std::string& type) {
    const auto found = find_math_function(function, type);
    ASSERT_TRUE(found) << function << " of " << type;
    EXPECT_EQ(found->symbol, fmt::format("strata_{}_{}", function, type));
    EXPECT_TRUE(kSymbols.contains(found->symbol));
  };
#undef STRATA_MATH_REAL1
#undef STRATA_MATH_REAL2
#undef STRATA_MATH_HALF
#undef STRATA_MATH_BF16
#undef STRATA_MATH_COMPLEX1
#undef STRATA_MATH_COMPLEX2
#undef STRATA_MATH_SMALL
#define STRATA_MATH_REAL1(name, ulp_f32, ulp_nvptx, ulp_f64) expect(#name, "f32"), expect(#name, "f64");
#define STRATA_MATH_REAL2(name, ulp_f32, ulp_nvptx, ulp_f64) expect(#name, "f32"), expect(#name, "f64");
#define STRATA_MATH_HALF(name) \
  EXPECT_EQ(find_math_function(#name, "f32", MathPrecision::F16)->symbol, "strata_" #name "_f32_half");
#define STRATA_MATH_BF16(name) \
  EXPECT_EQ(find_math_function(#name, "f32", MathPrecision::Bf16)->symbol, "strata_" #name "_f32_bf16");
#define STRATA_MATH_COMPLEX1(name) expect(#name, "c64"), expect(#name, "c128");
#define STRATA_MATH_COMPLEX2(name) expect(#name, "c64"), expect(#name, "c128");
#define STRATA_MATH_SMALL(type, bits)
#include "emitters/math/strata_math.def"
}

}  // namespace
}  // namespace strata::emitters
