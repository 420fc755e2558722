// Factors and solves of matrices as work of cuSOLVER and cuBLAS: random ones, by libraries that compute on the host,
// against the interpreter; and when they stay loops.
#include "emitters/library/solvers.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "emitters/library/test_library_calls.h"
#include "machine/target.h"

namespace strata::emitters {
namespace {

using testing::HasSubstr;

template <class Value>
Value one_of(Random& random, std::initializer_list<Value> of) {
  return std::data(of)[random.below(of.size())];
}

std::vector<int64_t> with(std::vector<int64_t> batch, std::initializer_list<int64_t> sizes) {
  batch.insert(batch.end(), sizes);
  return batch;
}

/// A parameter `p`, and `a`, which is p + n · 1 of square matrices: far from singular, whatever is random in it.
std::string dominant(const std::string& type, const std::vector<int64_t>& batch, int64_t rows, int64_t columns) {
  const std::vector<int64_t> sizes = with(batch, {rows, columns});
  const std::string all = dims(sizes);
  return fmt::format(R"(
  p = {0}{1} parameter(0)
  i = s32{1} iota(), iota_dimension={2}
  j = s32{1} iota(), iota_dimension={3}
  same = pred{1} compare(i, j), direction=EQ
  one = {0}{1} convert(same)
  n = {0}[] constant({4})
  ns = {0}{1} broadcast(n), dimensions={{}}
  d = {0}{1} multiply(one, ns)
  a = {0}{1} add(p, d))",
                     type, all, batch.size(), batch.size() + 1, std::max(rows, columns));
}

struct Sizes {
  std::string type;
  std::vector<int64_t> batch;
  int64_t n = 1;
};

Sizes random_sizes(Random& random) {
  Sizes made{one_of<std::string>(random, {"f32", "f64", "c64", "c128"}), {}, one_of<int64_t>(random, {1, 2, 5, 9, 20})};
  for (uint64_t i = random.below(3); i > 0; --i) made.batch.push_back(one_of<int64_t>(random, {1, 2, 7}));
  return made;
}

class SolversTest : public LibraryCallsTest {
 protected:
  void expect_checked(const std::string& text, uint64_t seed) {
    const hlo::ModulePtr module = parsed(text);
    ASSERT_TRUE(module);
    const std::string wrong = checked(*module, seed, 64, LibraryUse::WherePossible, hlo::Unit::Array);
    ASSERT_EQ(wrong, "") << "seed " << seed << "\n" << text << explained_;
    EXPECT_TRUE(notes_.empty()) << notes_.front() << "\n" << text;
    together_ += explained_.find(", together") != std::string::npos ? 1 : 0;
  }

  int together_ = 0;
};

TEST_F(SolversTest, RandomCholeskyFactorsAgreeWithTheInterpreter) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    const auto [type, batch, n] = random_sizes(random);
    // Of what is no positive matrix there is no factor. One triangle is read.
    const bool positive = random.below(4) > 0;
    const std::string matrix = type + dims(with(batch, {n, n}));
    const std::string text = fmt::format("HloModule m\nENTRY e {{{}\n  ROOT r = {} cholesky({}), lower={}\n}}\n",
                                         dominant(type, batch, n, n), matrix, positive ? "a" : "p",
                                         one_of<std::string>(random, {"true", "false"}));
    expect_checked(text, seed);
    EXPECT_EQ(libraries_, 1) << text;
    EXPECT_THAT(explained_, HasSubstr("cuSOLVER         Cholesky")) << text;
  }
  EXPECT_GE(together_, 10);
}

TEST_F(SolversTest, RandomSolvesAgreeWithTheInterpreter) {
  int of_transposed_sides = 0;  // which pays for large matrices
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    Random random(seed);
    auto [type, batch, n] = random_sizes(random);
    if (random.below(4) == 0) {
      batch.clear();
      n = 40;
    }
    const bool left = random.below(2) == 0, transposed = random.below(3) == 0;
    const int64_t sides = one_of<int64_t>(random, {1, 3, 8});
    const std::string b = type + dims(left ? with(batch, {n, sides}) : with(batch, {sides, n}));
    std::vector<int64_t> exchanged(batch.size() + 2);
    std::iota(exchanged.begin(), exchanged.end(), 0);
    std::swap(exchanged[batch.size()], exchanged[batch.size() + 1]);
    const std::string matrix = type + dims(with(batch, {n, n}));
    std::string text =
        fmt::format("HloModule m\nENTRY e {{{}\n  b = {} parameter(1)\n", dominant(type, batch, n, n), b);
    text += fmt::format("  t = {} transpose(a), dimensions={}\n", matrix, list(exchanged));
    text += fmt::format(
        "  ROOT r = {} triangular-solve({}, b), left_side={}, lower={}, "
        "unit_diagonal={}, transpose_a={}\n}}\n",
        b, transposed ? "t" : "a", left, random.below(2) == 0, random.below(3) == 0,
        one_of<std::string>(random, {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"}));
    expect_checked(text, seed);
    EXPECT_EQ(libraries_, 1) << text;
    of_transposed_sides += left && explained_.find("left solve") != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(together_, 20);
  EXPECT_GE(of_transposed_sides, 8);
}

TEST_F(SolversTest, RandomFactorsWithPivotsAgreeWithTheInterpreter) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    auto [type, batch, rows] = random_sizes(random);
    const int64_t columns = random.below(2) == 0 ? rows : one_of<int64_t>(random, {1, 3, 6});
    const std::string matrix = type + dims(with(batch, {rows, columns}));
    const int64_t steps = std::min(rows, columns);
    const std::string pivots = "s32" + dims(with(batch, {steps})), info = "s32" + dims(batch);
    std::string text = fmt::format(
        "HloModule m\nENTRY e {{{}\n  c = ({}, {}, {}) custom-call({}), "
        "custom_call_target=\"cusolver_getrf_ffi\"\n",
        dominant(type, batch, rows, columns), matrix, pivots, info, random.below(2) == 0 ? "a" : "p");
    // Of the results some are read.
    const uint64_t read = random.below(3);
    text += fmt::format(
        "  l = {} get-tuple-element(c), index=0\n  o = {} "
        "get-tuple-element(c), index=1\n",
        matrix, pivots);
    text += read == 0   ? "  ROOT r = " + matrix + " negate(l)\n}\n"
            : read == 1 ? fmt::format("  ROOT r = ({}, {}) tuple(l, o)\n}}\n", matrix, pivots)
                        : fmt::format("  ROOT r = ({}, {}, {}) tuple(c0, c1, c2)\n}}\n", matrix, pivots, info);
    if (read == 2) {
      const size_t at = text.find("  ROOT");
      std::string elements;
      for (int i = 0; i < 3; ++i)
        elements += fmt::format("  c{} = {} get-tuple-element(c), index={}\n", i,
                                i == 0   ? matrix
                                : i == 1 ? pivots
                                         : info,
                                i);
      text.insert(at, elements);
    }
    expect_checked(text, seed);
    EXPECT_EQ(libraries_, 1) << text;
  }
  EXPECT_GE(together_, 8);
}

TEST_F(SolversTest, RandomReflectorsAgreeWithTheInterpreter) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    const auto [type, batch, rows] = random_sizes(random);
    const int64_t columns = random.below(2) == 0 ? rows : one_of<int64_t>(random, {1, 3, 6});
    const int64_t steps = std::min(rows, columns);
    const std::string matrix = type + dims(with(batch, {rows, columns}));
    const std::string factors = type + dims(with(batch, {steps}));
    std::string text = fmt::format(
        "HloModule m\nENTRY e {{\n  p = {0} parameter(0)\n  c = "
        "({0}, {1}) custom-call(p), "
        "custom_call_target=\"cusolver_geqrf_ffi\"\n"
        "  f = {1} get-tuple-element(c), index=1\n  m = {0} "
        "get-tuple-element(c), index=0\n",
        matrix, factors);
    const bool has_product = random.below(4) > 0;
    if (has_product)
      text += fmt::format(
          "  q = {} custom-call(m, f), "
          "custom_call_target=\"cusolver_orgqr_ffi\"\n",
          matrix);
    text += has_product ? fmt::format("  ROOT r = ({0}, {1}, {0}) tuple(m, f, q)\n}}\n", matrix, factors)
                        : fmt::format("  ROOT r = ({}, {}) tuple(m, f)\n}}\n", matrix, factors);
    expect_checked(text, seed);
    EXPECT_EQ(libraries_, has_product && rows >= columns ? 2 : 1) << text;  // of wide ones the product is a loop
  }
  EXPECT_GE(together_, 8);
}

/// a · diag(w), of a: [batch…, rows, n], w: [batch…, n], as instructions of these names; the last one is `scaled`.
std::string scaled_columns(const std::string& type, const std::vector<int64_t>& batch, int64_t rows, int64_t n) {
  std::vector<int64_t> kept(batch.size() + 1);
  std::iota(kept.begin(), kept.end(), 0);
  kept.back() = std::ssize(batch) + 1;
  return fmt::format("  wide = {0}{1} broadcast(w), dimensions={2}\n  scaled = {0}{1} multiply(u, wide)\n", type,
                     dims(with(batch, {rows, n})), list(kept));
}

/// `name` = left · right, matrix by matrix; of right transposed where `adjoint`.
std::string product(const std::string& name, const std::string& type, const std::vector<int64_t>& batch,
                    const std::string& left, const std::string& right, int64_t rows, int64_t columns, bool adjoint) {
  std::vector<int64_t> numbers(batch.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  const size_t last = batch.size() + 1;
  return fmt::format(
      "  {} = {}{} dot({}, {}), lhs_batch_dims={}, rhs_batch_dims={}, lhs_contracting_dims={{{}}}, "
      "rhs_contracting_dims={{{}}}, operand_precision={{highest,highest}}\n",
      name, type, dims(with(batch, {rows, columns})), left, right, list(numbers), list(numbers), last,
      adjoint ? last : last - 1);
}

// Vectors' signs, and which of equal values have, are the library's own: what they give back is compared.
TEST_F(SolversTest, RandomEigenpairsAgreeWithTheInterpreter) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    auto [type, batch, n] = random_sizes(random);
    if (random.below(6) == 0) n = 34;
    type = one_of<std::string>(random, {"f32", "f64"});
    const std::string matrix = type + dims(with(batch, {n, n})), values = type + dims(with(batch, {n}));
    const bool vectors = random.below(4) > 0, lower = random.below(2) == 0;
    std::string text = fmt::format(
        "HloModule m\nENTRY e {{{}\n  c = ({}, {}, s32{}) custom-call(a), custom_call_target=\"cusolver_syevd_ffi\", "
        "backend_config={{lower = {}}}\n  w = {} get-tuple-element(c), index=1\n  o = s32{} get-tuple-element(c), "
        "index=2\n",
        dominant(type, batch, n, n), matrix, values, dims(batch), lower, values, dims(batch));
    if (vectors) {
      text += fmt::format("  u = {} get-tuple-element(c), index=0\n", matrix) + scaled_columns(type, batch, n, n);
      text += product("again", type, batch, "scaled", "u", n, n, true);
      text += product("unit", type, batch, "u", "u", n, n, true);
      text +=
          fmt::format("  ROOT r = ({0}, {1}, {0}, s32{2}) tuple(again, w, unit, o)\n}}\n", matrix, values, dims(batch));
    } else {
      text += fmt::format("  ROOT r = ({}, s32{}) tuple(w, o)\n}}\n", values, dims(batch));
    }
    expect_checked(text, seed);
    EXPECT_THAT(explained_, HasSubstr(vectors ? "cuSOLVER         eigenpairs" : "cuSOLVER         eigenvalues"))
        << text;
    EXPECT_THAT(explained_, HasSubstr(lower ? ", lower" : ", upper")) << text;
  }
}

TEST_F(SolversTest, RandomSingularVectorsAgreeWithTheInterpreter) {
  int thin = 0, full = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    Random random(seed);
    auto [type, batch, rows] = random_sizes(random);
    type = one_of<std::string>(random, {"f32", "f64"});
    if (random.below(6) == 0) rows = 35;
    const int64_t columns = random.below(2) == 0 ? rows : one_of<int64_t>(random, {1, 3, 6, 34}),
                  k = std::min(rows, columns);
    const bool all = random.below(2) == 0, vectors = random.below(4) > 0, of_gesvd = random.below(2) == 0;
    const bool swapped = of_gesvd && random.below(2) == 0;
    const int64_t left = all ? rows : k, right = all ? columns : k;
    const std::string matrix = type + dims(with(batch, {rows, columns})), values = type + dims(with(batch, {k}));
    const std::string u = type + dims(with(batch, {rows, left}));
    const std::string v = type + dims(of_gesvd ? with(batch, {right, columns}) : with(batch, {columns, right}));
    std::string text = fmt::format(
        "HloModule m\nENTRY e {{\n  p = {0} parameter(0)\n  c = ({0}, {1}, {2}, {3}, s32{4}) custom-call(p), "
        "custom_call_target=\"cusolver_{5}_ffi\", backend_config={{compute_uv = {6}, full_matrices = {7}{8}}}\n"
        "  w = {1} get-tuple-element(c), index=1\n  o = s32{4} get-tuple-element(c), index=4\n",
        matrix, values, swapped ? v : u, swapped ? u : v, dims(batch), of_gesvd ? "gesvd" : "gesvdj", vectors, all,
        of_gesvd ? fmt::format(", transposed = {}", swapped) : "");
    if (vectors) {
      text += fmt::format("  us = {} get-tuple-element(c), index={}\n  vs = {} get-tuple-element(c), index={}\n", u,
                          swapped ? 3 : 2, v, swapped ? 2 : 3);
      const auto slice = [&](const std::string& name, const std::string& of, int64_t a, int64_t b) {
        std::string ranges;
        for (const int64_t size : with(batch, {a, b}))
          ranges += fmt::format("{}[0:{}]", ranges.empty() ? "" : ", ", size);
        return fmt::format("  {} = {}{} slice({}), slice={{{}}}\n", name, type, dims(with(batch, {a, b})), of, ranges);
      };
      text += slice("u", "us", rows, k) + slice("v", "vs", of_gesvd ? k : columns, of_gesvd ? columns : k);
      text += scaled_columns(type, batch, rows, k);
      text += product("again", type, batch, "scaled", "v", rows, columns, !of_gesvd);
      text += product("unit", type, batch, "us", "us", rows, rows, true);
      const bool whole = left == rows;  // else the product is none of the identity
      text += fmt::format("  ROOT r = ({}, {}, s32{}{}) tuple(again, w, o{})\n}}\n", matrix, values, dims(batch),
                          whole ? ", " + type + dims(with(batch, {rows, rows})) : "", whole ? ", unit" : "");
    } else {
      text += fmt::format("  ROOT r = ({}, s32{}) tuple(w, o)\n}}\n", values, dims(batch));
    }
    const bool has_whole = !vectors || all || rows == columns;
    if (std::max(rows, columns) > 32 || !has_whole) {  // loops: what they compute is tested with them
      EXPECT_THAT(explained_work(text), testing::Not(HasSubstr("singular"))) << text;
      continue;
    }
    expect_checked(text, seed);
    EXPECT_THAT(explained_,
                HasSubstr(vectors ? "cuSOLVER         singular vectors" : "cuSOLVER         singular values"))
        << text;
    const bool has_full = explained_.find(", full") != std::string::npos;
    full += has_full ? 1 : 0;
    thin += vectors && !has_full ? 1 : 0;
  }
  EXPECT_GE(thin, 8);
  EXPECT_GE(full, 8);
}

// As JAX writes jnp.linalg.solve for CUDA, and the others.
TEST_F(SolversTest, ModulesOfJaxAgreeWithTheInterpreter) {
  int modules = 0;
  for (const auto& file : std::filesystem::directory_iterator(STRATA_SOURCE_DIR "/tests/hlo")) {
    if (!file.path().string().ends_with("_cuda.hlo")) continue;
    std::ifstream in(file.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (text.find("cusolver_") == std::string::npos) continue;
    SCOPED_TRACE(file.path().string());
    const hlo::ModulePtr module = parsed(text);
    ASSERT_TRUE(module);
    EXPECT_EQ(checked(*module, 3, 256, LibraryUse::WherePossible, hlo::Unit::Array), "");
    EXPECT_GT(libraries_, 0);
    EXPECT_EQ(explained_.find("interpreter"), std::string::npos) << explained_;
    ++modules;
  }
  EXPECT_GE(modules, 5);
}

constexpr const char* kCholesky = R"(ENTRY e {
  a = f32[300,300] parameter(0)
  t = f32[300,300] transpose(a), dimensions={1,0}
  p = f32[300,300] dot(a, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[300,300] cholesky(p), lower=true
})";

TEST_F(SolversTest, LoopsStandInWhereALibraryIsMissing) {
  for (const char* variable : {"STRATA_CUSOLVER", "STRATA_CUBLAS"}) {
    const std::string before = std::getenv(variable);
    setenv(variable, "/nowhere/lib.so", 1);
    EXPECT_EQ(checked(*parsed(kCholesky), 1, 64, LibraryUse::WhereFaster, hlo::Unit::Array), "");
    EXPECT_TRUE(notes_.empty());
    EXPECT_EQ(explained_.find("cuSOLVER"), std::string::npos) << explained_;
    EXPECT_THAT(explained_, HasSubstr(" iterations"));
    setenv(variable, before.c_str(), 1);
  }
}

/// What becomes of a factor of so many matrices, by the prices.
bool is_a_librarys(int64_t batch, int64_t n) {
  const std::string shape = fmt::format("f32[{},{},{}]", batch, n, n);
  const hlo::ModulePtr module =
      parsed(fmt::format("ENTRY e {{\n  a = {} parameter(0)\n  ROOT r = {} "
                         "cholesky(a), lower=true\n}}\n",
                         shape, shape));
  const auto choice = solver_choice(Solvers::Assumed, LibraryUse::WhereFaster, default_target());
  const hlo::Computation& entry = module->entry_computation();
  return choice(entry, entry.root_instruction());
}

TEST_F(SolversTest, PricesDecide) {
  EXPECT_TRUE(is_a_librarys(1, 517));
  EXPECT_TRUE(is_a_librarys(257, 33));
  EXPECT_FALSE(is_a_librarys(3001, 5));  // its columns are written out, in one kernel
  EXPECT_FALSE(solver_choice(Solvers::None, LibraryUse::WhereFaster, default_target()));  // as for a CPU
  EXPECT_FALSE(solver_choice(Solvers::Assumed, LibraryUse::Never, default_target()));
}

/// The same of singular vectors.
bool are_a_librarys(int64_t batch, int64_t rows, int64_t columns) {
  const std::string a = fmt::format("f32[{},{},{}]", batch, rows, columns);
  const int64_t k = std::min(rows, columns);
  const hlo::ModulePtr module =
      parsed(fmt::format("ENTRY e {{\n  a = {0} parameter(0)\n  ROOT r = ({0}, f32[{1},{2}], f32[{1},{3},{2}], "
                         "f32[{1},{4},{2}], s32[{1}]) custom-call(a), custom_call_target=\"cusolver_gesvdj_ffi\", "
                         "backend_config={{compute_uv = true, full_matrices = false}}\n}}\n",
                         a, batch, k, rows, columns));
  const auto choice = solver_choice(Solvers::Assumed, LibraryUse::WhereFaster, default_target());
  const hlo::Computation& entry = module->entry_computation();
  return choice(entry, entry.root_instruction());
}

TEST_F(SolversTest, PricesOfSingularVectorsDecide) {
  EXPECT_TRUE(are_a_librarys(1000, 20, 20));
  EXPECT_FALSE(are_a_librarys(1, 256, 256));  // the library has those of up to 32 rows
  EXPECT_FALSE(are_a_librarys(100, 64, 64));
}

constexpr const char* kEigenvalues = R"(ENTRY e {
  a = f32[40,40] parameter(0)
  c = (f32[40,40], f32[40], s32[]) custom-call(a), custom_call_target="cusolver_syevd_ffi",
    backend_config={lower = true}
  ROOT w = f32[40] get-tuple-element(c), index=1
})";

TEST_F(SolversTest, VectorsThatNothingReadsAreNotComputed) {
  EXPECT_EQ(explained_work(kEigenvalues), "kernel; eigenvalues f32 1 of 40×40, lower; ");
  std::string both = kEigenvalues;
  both.replace(both.find("index=1"), 7, "index=0").replace(both.find("ROOT w = f32[40] "), 17, "ROOT w = f32[40,40] ");
  EXPECT_EQ(explained_work(both), "kernel; eigenpairs f32 1 of 40×40, lower; kernel; ");
}

/// A solve reads transposed factors as they are.
TEST_F(SolversTest, FactorsWithPivotsAreNotTransposedForASolve) {
  const std::string text = R"(ENTRY e {
  a = f32[200,200] parameter(0)
  b = f32[200,3] parameter(1)
  c = (f32[200,200], s32[200], s32[]) custom-call(a), custom_call_target="cusolver_getrf_ffi"
  l = f32[200,200] get-tuple-element(c), index=0
  y = f32[200,3] triangular-solve(l, b), left_side=true, lower=true, unit_diagonal=true, transpose_a=NO_TRANSPOSE
  ROOT x = f32[200,3] triangular-solve(l, y), left_side=true, lower=false, transpose_a=NO_TRANSPOSE
})";
  EXPECT_EQ(explained_work(text),
            "kernel; LU f32 1 of 200×200; kernel; left solve f32 1 of 200 for 3, lower, unit; "
            "left solve f32 1 of 200 for 3, upper; kernel; ");
}

}  // namespace
}  // namespace strata::emitters
