#include "runtime/fft.h"

#include <array>
#include <cassert>
#include <numeric>
#include <optional>
#include <utility>

namespace strata {
namespace {

constexpr std::array<std::string_view, 4> kKinds{"forward", "inverse", "from real", "to real"};
constexpr int64_t kAlignment = 256;

int64_t all(const std::vector<int64_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{1}, std::multiplies<>());
}

int64_t halved(const std::vector<int64_t>& lengths) { return all(lengths) / lengths.back() * (lengths.back() / 2 + 1); }

class PreparedFft final : public PreparedWork {
 public:
  PreparedFft(const FftLibrary& library, const Fft& fft) : library_(library), fft_(fft) {}
  ~PreparedFft() override {
    if (made_) library_.functions().destroy(plan_);
  }

  int64_t workspace_bytes() const override { return copied_bytes() + work_bytes_; }

  Result<void> make() {
    const Cufft& cufft = library_.functions();
    const std::string what = describe(fft_);
    STRATA_CHECK(cufft.check(cufft.create(&plan_), what));
    made_ = true;
    STRATA_CHECK(cufft.check(cufft.allocate_work(plan_, 0), what));
    std::vector<long long> lengths(fft_.lengths.begin(), fft_.lengths.end());
    size_t bytes = 0;
    const int type = fft_.kind == FftKind::FromReal ? Cufft::kRealToComplex
                     : fft_.kind == FftKind::ToReal ? Cufft::kComplexToReal
                                                    : Cufft::kComplexToComplex;
    STRATA_CHECK(cufft.check(cufft.make_plan(plan_, static_cast<int>(lengths.size()), lengths.data(), nullptr, 1, 0,
                                             nullptr, 1, 0, type + (fft_.wide ? Cufft::kWide : 0), fft_.batch, &bytes),
                             what));
    work_bytes_ = static_cast<int64_t>(bytes);
    return {};
  }

  Result<void> run(CudaStream stream, const std::vector<CudaPointer>& arguments, CudaPointer workspace) const override {
    assert(arguments.size() == Fft::arguments());
    const Cufft& cufft = library_.functions();
    const std::string what = describe(fft_);
    CudaPointer from = arguments[0];
    if (copied_bytes() > 0) {
      const CudaDriver& driver = library_.driver();
      STRATA_CHECK(driver.check(
          driver.copy_on_device_later(workspace, from, static_cast<size_t>(fft_.bytes_read()), stream), what));
      from = workspace;
    }
    STRATA_CHECK(use(stream, workspace + static_cast<CudaPointer>(copied_bytes())));
    const CudaPointer to = arguments[1];
    const auto run = [&] {
      switch (fft_.kind) {
        case FftKind::FromReal:
          return (fft_.wide ? cufft.real_to_complex_f64 : cufft.real_to_complex)(plan_, from, to);
        case FftKind::ToReal:
          return (fft_.wide ? cufft.complex_to_real_f64 : cufft.complex_to_real)(plan_, from, to);
        default:
          return (fft_.wide ? cufft.complex_to_complex_f64 : cufft.complex_to_complex)(
              plan_, from, to, fft_.kind == FftKind::Forward ? Cufft::kForward : Cufft::kInverse);
      }
    };
    return cufft.check(run(), what);
  }

 private:
  int64_t copied_bytes() const {
    if (fft_.kind != FftKind::ToReal || fft_.overwrites) return 0;
    return (fft_.bytes_read() + kAlignment - 1) / kAlignment * kAlignment;
  }

  /// Once for all runs: a stream that a graph is made of shall see launches alone.
  Result<void> use(CudaStream stream, CudaPointer work) const {
    if (used_ == std::pair(stream, work)) return {};
    const Cufft& cufft = library_.functions();
    STRATA_CHECK(cufft.check(cufft.use_stream(plan_, stream), describe(fft_)));
    STRATA_CHECK(cufft.check(cufft.use_work(plan_, work), describe(fft_)));
    used_ = std::pair(stream, work);
    return {};
  }

  const FftLibrary& library_;
  Fft fft_;
  mutable std::optional<std::pair<CudaStream, CudaPointer>> used_;
  Cufft::Plan plan_ = 0;
  bool made_ = false;
  int64_t work_bytes_ = 0;
};

}  // namespace

std::string_view name_of(FftKind kind) { return kKinds[static_cast<size_t>(kind)]; }

Result<FftKind> parse_fft_kind(std::string_view name) {
  for (size_t i = 0; i < kKinds.size(); ++i) {
    if (kKinds[i] == name) return static_cast<FftKind>(i);
  }
  return invalid("'{}' is no kind of Fourier transform", name);
}

int64_t Fft::read() const { return kind == FftKind::ToReal ? halved(lengths) : all(lengths); }
int64_t Fft::written() const { return kind == FftKind::FromReal ? halved(lengths) : all(lengths); }
int64_t Fft::bytes_read() const { return batch * read() * (wide ? 8 : 4) * (kind == FftKind::FromReal ? 1 : 2); }
int64_t Fft::bytes_written() const { return batch * written() * (wide ? 8 : 4) * (kind == FftKind::ToReal ? 1 : 2); }

std::string describe(const Fft& fft) {
  return fmt::format("{} {} {} of {}{}", name_of(fft.kind), fft.wide ? "f64" : "f32", fft.batch,
                     fmt::join(fft.lengths, "×"), fft.kind == FftKind::ToReal && !fft.overwrites ? ", copied" : "");
}

Result<std::unique_ptr<FftLibrary>> FftLibrary::open(const CudaDriver& driver) {
  STRATA_TRY(const Cufft cufft, open_cufft());
  return std::unique_ptr<FftLibrary>(new FftLibrary(driver, cufft));
}

Result<std::unique_ptr<PreparedWork>> prepare(const FftLibrary& library, const Fft& fft) {
  if (fft.algorithm != 0) return unsupported("cuFFT has 1 algorithm for {}", describe(fft));
  auto made = std::make_unique<PreparedFft>(library, fft);
  STRATA_CHECK(made->make());
  return made;
}

}  // namespace strata
