#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "commands.h"
#include "runtime/result_cache.h"
#include "terminal.h"
#include "usage.h"

namespace strata::cli {

Result<void> make_folder(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  if (failed) {
    return with_remedy(
        environment("cannot make the folder '{}': {}", path, failed.message()),
        "name a folder, one that exists or one below a folder that you may write to; it cannot be a file");
  }
  return {};
}

Result<void> check_writable(const std::string& folder, std::string_view option) {
  const std::string probe = folder + "/.strata-probe";
  const auto written = write_file(probe, "\n", Sync::None);
  if (written) {
    std::error_code ignored;
    std::filesystem::remove(probe, ignored);
    return {};
  }
  return tl::unexpected(Error{ErrorCode::Environment,
                              fmt::format("cannot write to the folder '{}': {}", folder, written.error().message),
                              fmt::format("check its permissions and free space, or name another with {}", option),
                              {}});
}

namespace {

/// Compilers take and free many small pieces: memory that goes back to the system between two kernels comes back page
/// by page, each cleared.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_TOP_PAD, 16 << 20);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that it takes
#endif
}

/// Standard streams that the caller closed are taken by /dev/null, from which nothing is read and to which writing
/// fails, as it would have: else the first file that is opened becomes one of them, and messages go into it.
void hold_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) < 0) open("/dev/null", O_RDONLY);
  }
}

/// What is printed is buffered, so that a full disk shows only here; scripts must not take half a report for a whole.
int finish(int code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr, "error: cannot write to the standard output: %s\n", std::strerror(errno != 0 ? errno : EIO));
  return kEnvironment;
}

/// On a terminal its first word stands out.
void print_error(const Error& error) {
  std::string text = error.to_string();
  const Style style = style_of(stderr);
  if (const size_t at = text.find("error:"); !style.wrong.empty() && at != std::string::npos) {
    text.insert(at + 6, style.plain);
    text.insert(at, style.wrong);
  }
  std::fprintf(stderr, "%s\n", text.c_str());
}

int run(int argc, char** argv, const Process& process) {
  CLI::App app("Strata: finds fast GPU kernels for tensor programs, and proves them equivalent.", "strata");
  app.require_subcommand(1);
  app.set_version_flag("--version", build_identity, "print the version and the build, and exit");
  Action action;
  add_optimize(app, action, process);
  add_verify(app, action);
  add_run(app, action);
  add_show(app, action);
  add_merge(app, action);
  add_ops(app, action);
  add_emit(app, action);
  add_machine(app, action);
  add_calibrate(app, action);
  add_decode(app, action);
  add_doctor(app, action, process);
  add_bench(app, action, process);
  add_explain(app, action);
  add_completions(app, action);
  add_measure_worker(app, action);
  for (CLI::App* command : app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); }))
    command->add_flag_callback("-q,--quiet", say_nothing,
                               "print the result and errors alone: no progress, notes or warnings");
  if (const auto empty = empty_word(argc, argv)) {
    print_error(*empty);
    return kBadInput;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return finish(app.exit(error));
    print_error(usage_error(app, error, argc, argv));
    return kBadInput;
  }
  const auto code = action();
  if (code) return finish(*code);
  print_error(code.error());
  return code.error().code == ErrorCode::Environment   ? kEnvironment
         : code.error().code == ErrorCode::Interrupted ? kInterrupted
                                                       : kBadInput;
}

}  // namespace

int run_commands(int argc, char** argv, const Process& process) {
  // A process may run several, one after the other.
  say_notices();
  std::clearerr(stdout);
  // What says that memory is missing, or a disk full, must not itself throw: no fmt here.
  try {
    hold_standard_streams();
    keep_freed_memory();
    const int code = run(argc, argv, process);
    std::fflush(stdout);
    return code;
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
  std::fflush(stdout);
  return kEnvironment;
}

}  // namespace strata::cli
