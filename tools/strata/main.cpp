#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "commands.h"
#include "runtime/result_cache.h"
#include "usage.h"

namespace strata::cli {

Result<void> write_file(const std::string& path, std::string_view contents) {
  const std::string temporary = path + ".writing";
  std::ofstream file(temporary, std::ios::binary);
  file << contents;
  file.close();
  std::error_code failed;
  if (file) std::filesystem::rename(temporary, path, failed);
  if (!file || failed) {
    std::filesystem::remove(temporary, failed);
    return tl::unexpected(Error{ErrorCode::Environment,
                                fmt::format("cannot write '{}'", path),
                                "check the folder's permissions and free space",
                                {}});
  }
  return {};
}

Result<void> make_folder(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  if (failed) return environment("cannot make the folder '{}': {}", path, failed.message());
  return {};
}

namespace {

/// What is printed is buffered, so that a full disk shows only here; scripts must not take half a report for a whole.
int finish(int code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr, "error: cannot write to the standard output: %s\n", std::strerror(errno != 0 ? errno : EIO));
  return kEnvironment;
}

int run(int argc, char** argv) {
  CLI::App app("Strata: finds fast GPU kernels for tensor programs, and proves them equivalent.", "strata");
  app.require_subcommand(1);
  app.set_version_flag("--version", build_identity, "print the version and the build, and end");
  Action action;
  add_optimize(app, action);
  add_verify(app, action);
  add_run(app, action);
  add_show(app, action);
  add_merge(app, action);
  add_ops(app, action);
  add_emit(app, action);
  add_bench(app, action);
  add_measure_worker(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return finish(app.exit(error));
    std::fprintf(stderr, "%s\n", usage_error(app, error, argc, argv).to_string().c_str());
    return kBadInput;
  }
  const auto code = action();
  if (code) return finish(*code);
  std::fprintf(stderr, "%s\n", code.error().to_string().c_str());
  return code.error().code == ErrorCode::Environment   ? kEnvironment
         : code.error().code == ErrorCode::Interrupted ? kInterrupted
                                                       : kBadInput;
}

}  // namespace
}  // namespace strata::cli

int main(int argc, char** argv) {
  using namespace strata::cli;
  // What says that memory is missing, or a disk full, must not itself throw: no fmt here.
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("error: out of memory\n", stderr);
  } catch (const std::length_error&) {  // more elements than any memory has
    std::fputs("error: out of memory\n", stderr);
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return finish(kEnvironment);  // a full disk, met while printing
    std::fprintf(stderr, "internal error: %s\n  please report it with the program that you ran\n", error.what());
  } catch (...) {
    std::fputs("internal error: an exception of no known type\n  please report it with the program that you ran\n",
               stderr);
  }
  return kEnvironment;
}
