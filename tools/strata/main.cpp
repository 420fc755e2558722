#include "run_commands.h"

int main(int argc, char** argv) { return strata::cli::run_commands(argc, argv); }
