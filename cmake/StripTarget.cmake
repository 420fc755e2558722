# cmake -DFILE=module.ll -P StripTarget.cmake: removes from the functions of a module in text what keeps LLVM from
# inlining them into functions that do not say the same: the CPU, its features, and that there is no C library.
file(READ ${FILE} TEXT)
string(REGEX REPLACE " ?\"(target-cpu|target-features|tune-cpu)\"=\"[^\"]*\"" "" TEXT "${TEXT}")
string(REGEX REPLACE " ?\"no-builtins\"" "" TEXT "${TEXT}")
file(WRITE ${FILE} "${TEXT}")
