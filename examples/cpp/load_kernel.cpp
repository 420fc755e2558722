// Loads what Kernel::save, or the Python package's Kernel.save, wrote, and says what it is.
//
//   load_kernel FOLDER
#include <strata/strata.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: load_kernel FOLDER\n");
    return 2;
  }
  try {
    const strata::Kernel kernel = strata::load(argv[1]);
    std::printf("%s\n%s\n%s", kernel.headline().c_str(), kernel.proof().c_str(), kernel.mugraph().c_str());
  } catch (const strata::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
