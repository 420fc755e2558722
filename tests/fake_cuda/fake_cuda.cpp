// A CUDA driver without a GPU, for tests: STRATA_CUDA_DRIVER names this library. Device memory is the process's own,
// and a "cubin" is a script that says what its kernels do when launched. One command a line:
//
//   kernel NAME       what follows is of this kernel alone; before the first such line, of all
//   time US           the launch takes so long; nothing else takes any time, so that measured times are exact
//   call ADDRESS      calls void f(const char* kernel, void** arguments) at this address of the process
//   write ARG FILE    the file's bytes to the memory that argument ARG (0 first) points to
//   fill ARG BYTE     that memory, to the end of its allocation, is filled with a byte
//   log FILE          appends a line with the shape and the attributes of the launch
//   error CODE        the launch succeeds; from the next wait on every call fails with this code, as after a fault
//   hang              the launch succeeds; the next wait never ends
//   abort             the process dies
//   refuse CODE       the module is not loaded
//
// Kernels in graphs that "call" get copies of what their arguments point to: `call ADDRESS COUNT` says how many there
// are, each of 8 bytes.
//
// A multiprocessor takes one block of a kernel.
//
// $STRATA_FAKE_CUDA_LOOPS=0 is a driver that takes no loops in graphs; =old one of a time before them; =serial one
// whose loops have no kernels that overlap. $STRATA_FAKE_CUDA_SCRIPT is the script of cubins that are real;
// $STRATA_FAKE_CUDA_DEVICES how many GPUs there are.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/cuda_driver.h"
#include "runtime/cuda_graph_nodes.h"

using namespace strata;

namespace {

constexpr int kInvalidValue = 1;
constexpr int kNoDevice = 100;
constexpr int kInvalidImage = 200;
constexpr int kNotFound = 500;
constexpr size_t kAlignment = 256;
constexpr size_t kMemory = size_t{256} << 20;

struct Command {
  std::string verb;
  size_t argument = 0;
  std::string text;
  double number = 0;
};

using Script = std::map<std::string, std::vector<Command>>;  // by kernel; "" is of all

struct Module {
  Script script;
  std::map<std::string, std::unique_ptr<std::pair<Module*, std::string>>> functions;
};

struct Launch {
  std::function<void()> host;  // what a library put on the stream
  std::vector<Command> commands;
  std::vector<char*> arguments;  // as many as the commands need
  std::vector<void*> values;     // of all arguments, in a graph
  void** raw = nullptr;          // of a launch that runs at once
  std::string shape;
  std::string name;
};

struct Graph {
  std::vector<Launch> launches;
  std::vector<std::shared_ptr<Graph>> bodies;  // of loops
};

/// The graph may be destroyed before.
using Executable = std::vector<Launch>;

/// A node's place does not matter: what is recorded is done in order.
struct Stream {
  CudaContext context = nullptr;
  Graph* recorded = nullptr;
};

// One thread: what a driver keeps for the process. Contexts, one a device, differ in nothing but their handles.
std::array<char, 8> contexts{};
double clock_us = 0;
int sticky = 0;
int pending = 0;
bool hanging = false;
std::map<uint64_t, unsigned> conditions;  // of loops in graphs
std::map<CudaPointer, size_t> allocated;

size_t allocated_bytes() {
  size_t sum = 0;
  for (const auto& [pointer, bytes] : allocated) sum += bytes;
  return sum;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool parse(const std::string& text, Module& module, int& refusal) {
  std::istringstream lines(text);
  std::string kernel;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Command command;
    if (!(words >> command.verb)) continue;
    if (command.verb == "write" || command.verb == "fill") words >> command.argument;
    words >> command.text;
    if (command.verb == "call") words >> command.argument;
    command.number = std::atof(command.text.c_str());
    if (command.verb == "kernel") {
      kernel = command.text;
    } else if (command.verb == "refuse") {
      refusal = static_cast<int>(command.number);
    } else if (std::string(" time write fill call log error hang abort ").find(" " + command.verb + " ") !=
               std::string::npos) {
      module.script[kernel].push_back(command);
    } else {
      return false;
    }
  }
  return true;
}

/// The bytes from here to the end of their allocation.
size_t room(CudaPointer at) {
  const auto& [pointer, size] = *std::prev(allocated.upper_bound(at));
  return pointer + size - at;
}

void perform(const Launch& launch) {
  if (launch.host) launch.host();
  if (!launch.commands.empty() && launch.commands.front().verb == "tell") {
    const auto number = [&](size_t i) { return reinterpret_cast<uint64_t>(launch.values[i]); };
    const unsigned answer = *static_cast<const unsigned char*>(launch.values[0]) & 1;
    for (const size_t handle : {1, 2}) {
      if (number(handle) != 0) conditions[number(handle)] = answer;
    }
    if (number(3) != 0) conditions[number(3)] = static_cast<unsigned>(number(4));
  }
  for (const Command& command : launch.commands) {
    std::vector<void*> copies = launch.values;
    std::vector<void*> places;
    for (void*& copy : copies) places.push_back(&copy);
    if (command.verb == "call" && (launch.raw != nullptr || !places.empty()))
      reinterpret_cast<void (*)(const char*, void**)>(std::stoull(command.text, nullptr, 16))(
          launch.name.c_str(), places.empty() ? launch.raw : places.data());
    if (command.verb == "time") clock_us += command.number;
    if (command.verb == "hang") hanging = true;
    if (command.verb == "abort") std::abort();
    if (command.verb == "error") pending = static_cast<int>(command.number);
    if (command.verb == "log") std::ofstream(command.text, std::ios::app) << launch.shape << "\n";
    if (command.verb != "write" && command.verb != "fill") continue;
    char* to = launch.arguments[command.argument];
    const size_t size = room(reinterpret_cast<CudaPointer>(to));
    if (command.verb == "fill") {
      std::memset(to, static_cast<int>(command.number), size);
    } else {
      const std::string bytes = contents(command.text);
      std::memcpy(to, bytes.data(), std::min(size, bytes.size()));
    }
  }
}

/// What every call that waits for the device does.
int wait() {
  while (hanging) pause();
  if (pending != 0) sticky = pending;
  return sticky;
}

/// Whether these bytes lie within one allocation.
bool holds(CudaPointer at, size_t bytes) {
  const auto after = allocated.upper_bound(at);
  if (after == allocated.begin()) return false;
  const auto& [pointer, size] = *std::prev(after);
  return at + bytes <= pointer + size;
}

Graph*& capturing(CudaStream stream) {
  static Stream without_name;  // the one that launchers take that make none
  return stream == nullptr ? without_name.recorded : reinterpret_cast<Stream*>(stream)->recorded;
}

/// Now, or whenever the graph is launched that is recorded on the stream.
int put_on(CudaStream stream, Launch launch) {
  if (sticky != 0) return sticky;
  if (capturing(stream) != nullptr) {
    capturing(stream)->launches.push_back(std::move(launch));
  } else {
    perform(launch);
  }
  return 0;
}

int put_on(CudaStream stream, std::function<void()> work) {
  Launch launch;
  launch.host = std::move(work);
  return put_on(stream, std::move(launch));
}

template <class Value>
int fill_with(CudaPointer to, Value value, size_t count, CudaStream stream) {
  if (!holds(to, count * sizeof value)) return kInvalidValue;
  return put_on(stream, [=] {
    for (size_t i = 0; i < count; ++i)
      std::memcpy(reinterpret_cast<char*>(to) + i * sizeof value, &value, sizeof value);
  });
}

/// What a driver's loops in graphs are: all, none (0), or without kernels that overlap (serial).
std::string loops() {
  const char* text = std::getenv("STRATA_FAKE_CUDA_LOOPS");
  return text == nullptr ? "all" : text;
}

template <class Tag>
Tag* handle(void* of) {
  return reinterpret_cast<Tag*>(of);
}

CudaContext context_of_device(CudaDevice device) { return handle<CudaContextTag>(&contexts.at(device)); }

/// Of a thread: the last one is current. Where nobody has chosen any, the first device's is.
thread_local std::vector<CudaContext> current{context_of_device(0)};

}  // namespace

extern "C" {

int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int* version) {
  const char* loops = std::getenv("STRATA_FAKE_CUDA_LOOPS");
  *version = loops != nullptr && std::string(loops) == "old" ? 12030 : 13000;
  return 0;
}
int cuGetErrorName(int status, const char** name) {
  *name = status == kNotFound ? "CUDA_ERROR_NOT_FOUND" : status == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : nullptr;
  return *name == nullptr ? kInvalidValue : 0;
}
int cuGetErrorString(int status, const char** text) {
  *text = status == 700 ? "an illegal memory access was encountered" : nullptr;
  return *text == nullptr ? kInvalidValue : 0;
}
int cuDeviceGet(CudaDevice* device, int number) {
  const char* count = std::getenv("STRATA_FAKE_CUDA_DEVICES");
  *device = number;
  return number < (count == nullptr ? 1 : std::atoi(count)) ? 0 : kNoDevice;
}
int cuDeviceGetName(char* name, int size, CudaDevice) {
  std::strncpy(name, "Fake GPU", static_cast<size_t>(size));
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, CudaDevice) {
  static const std::map<int, int> attributes{{CudaDriver::kCapabilityMajor, 9},
                                             {CudaDriver::kL2CacheBytes, 1 << 20},
                                             {CudaDriver::kMultiprocessors, 8},
                                             {CudaDriver::kCooperativeLaunch, 1},
                                             {CudaDriver::kMostSharedBytes, 227 << 10}};
  const auto found = attributes.find(attribute);
  *value = found == attributes.end() ? 0 : found->second;
  return 0;
}
int cuDevicePrimaryCtxRetain(CudaContext* context, CudaDevice device) {
  *context = context_of_device(device);
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(CudaDevice) {
  if (!allocated.empty()) std::abort();  // memory outlives its context
  sticky = pending = 0;
  return 0;
}
int cuCtxSetCurrent(CudaContext context) {
  current.back() = context == nullptr ? context_of_device(0) : context;
  return 0;
}
int cuCtxSynchronize() { return wait(); }
int cuMemGetInfo_v2(size_t* free, size_t* all) {
  *free = kMemory - allocated_bytes();
  *all = kMemory;
  return sticky;
}
int cuMemAlloc_v2(CudaPointer* pointer, size_t bytes) {
  if (sticky != 0) return sticky;
  if (allocated_bytes() + bytes > kMemory) return 2;
  *pointer =
      reinterpret_cast<CudaPointer>(std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment));
  allocated[*pointer] = bytes;
  return 0;
}
int cuMemFree_v2(CudaPointer pointer) {
  if (allocated.erase(pointer) == 0) return kInvalidValue;
  std::free(reinterpret_cast<void*>(pointer));
  return sticky;
}
int cuMemcpyHtoD_v2(CudaPointer to, const void* from, size_t bytes) {
  if (!holds(to, bytes)) return kInvalidValue;
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return wait();
}
int cuMemcpyDtoH_v2(void* to, CudaPointer from, size_t bytes) {
  if (const int failed = wait(); failed != 0) return failed;
  if (!holds(from, bytes)) return kInvalidValue;
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return 0;
}
int cuMemcpyDtoD_v2(CudaPointer to, CudaPointer from, size_t bytes) {
  return cuMemcpyHtoD_v2(to, reinterpret_cast<const void*>(from), bytes);
}
int cuMemHostAlloc(void** made, size_t bytes, unsigned) {
  *made = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  return sticky;
}
int cuMemFreeHost(void* memory) {
  std::free(memory);
  return sticky;
}
int cuMemsetD8_v2(CudaPointer to, unsigned char value, size_t bytes) {
  if (!holds(to, bytes)) return kInvalidValue;
  std::memset(reinterpret_cast<void*>(to), value, bytes);
  return sticky;
}
// On a stream, all of which run at once: memory within an allocation.
int cuMemcpyDtoDAsync_v2(CudaPointer to, CudaPointer from, size_t bytes, CudaStream stream) {
  if (!holds(to, bytes) || !holds(from, bytes)) return kInvalidValue;
  return put_on(stream, [=] { std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes); });
}
int cuMemcpyHtoDAsync_v2(CudaPointer to, const void* from, size_t bytes, CudaStream stream) {
  if (!holds(to, bytes)) return kInvalidValue;
  return put_on(stream, [=] { std::memmove(reinterpret_cast<void*>(to), from, bytes); });
}
int cuMemcpyDtoHAsync_v2(void* to, CudaPointer from, size_t bytes, CudaStream stream) {
  if (!holds(from, bytes)) return kInvalidValue;
  return put_on(stream, [=] { std::memmove(to, reinterpret_cast<const void*>(from), bytes); });
}
int cuMemsetD2D32Async(CudaPointer to, size_t pitch, unsigned value, size_t words, size_t rows, CudaStream stream) {
  if (rows == 0 || !holds(to, (rows - 1) * pitch + words * sizeof value)) return kInvalidValue;
  return put_on(stream, [=] {
    for (size_t row = 0; row < rows; ++row) {
      for (size_t i = 0; i < words; ++i)
        std::memcpy(reinterpret_cast<char*>(to) + row * pitch + i * sizeof value, &value, sizeof value);
    }
  });
}
int cuMemsetD8Async(CudaPointer to, unsigned char value, size_t count, CudaStream stream) {
  return fill_with(to, value, count, stream);
}
int cuMemsetD16Async(CudaPointer to, unsigned short value, size_t count, CudaStream stream) {
  return fill_with(to, value, count, stream);
}
int cuMemsetD32Async(CudaPointer to, unsigned value, size_t count, CudaStream stream) {
  return fill_with(to, value, count, stream);
}
/// What the kernel of runtime/matrix_pointers.cpp does.
static void write_addresses(const char*, void** arguments) {
  std::array<uint64_t, 6> values{};
  for (size_t i = 0; i < values.size(); ++i) values[i] = *static_cast<uint64_t*>(arguments[i]);
  auto* const to = reinterpret_cast<uint64_t*>(values[0]);
  const uint64_t count = values[5];
  for (uint64_t i = 0; i < count; ++i) {
    to[i] = values[1] + i * values[2];
    to[count + i] = values[3] + i * values[4];
  }
}
int cuModuleLoadData(CudaModule* made, const void* image) {
  if (sticky != 0) return sticky;
  std::string text = static_cast<const char*>(image);
  if (text.starts_with("\x7f"
                       "ELF")) {
    const char* script = std::getenv("STRATA_FAKE_CUDA_SCRIPT");
    if (script == nullptr) return kInvalidImage;
    text = contents(script);
  }
  auto module = std::make_unique<Module>();
  int refusal = 0;
  if (text.find("call.uni cudaGraphSetConditional") != std::string::npos) {
    module->script[""].push_back({.verb = "tell"});
  } else if (text.find(".entry matrix_pointers(") != std::string::npos) {
    char address[32];
    std::snprintf(address, sizeof address, "%zx", reinterpret_cast<size_t>(&write_addresses));
    module->script[""].push_back({.verb = "call", .argument = 6, .text = address});
  } else if (!parse(text, *module, refusal))
    return kInvalidImage;
  if (refusal != 0) return refusal;
  *made = handle<CudaModuleTag>(module.release());
  return 0;
}
int cuModuleUnload(CudaModule module) {
  delete reinterpret_cast<Module*>(module);
  return sticky;
}
int cuModuleGetFunction(CudaFunction* function, CudaModule of, const char* name) {
  auto* module = reinterpret_cast<Module*>(of);
  if (std::string(name).find("missing") != std::string::npos) return kNotFound;
  auto& entry = module->functions[name];
  if (!entry) entry = std::make_unique<std::pair<Module*, std::string>>(module, name);
  *function = handle<CudaFunctionTag>(entry.get());
  return 0;
}
int cuFuncSetAttribute(CudaFunction, int attribute, int value) {
  return attribute == CudaDriver::kMostDynamicSharedBytes && value <= 227 << 10 ? 0 : kInvalidValue;
}
int cuFuncGetAttribute(int* value, int attribute, CudaFunction) {
  *value = attribute == CudaDriver::kRegisters ? 128 : 0;
  return sticky;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CudaFunction, int, size_t) {
  *blocks = 1;
  return sticky;
}
/// The first word of a map is the tensor's address, the second its rank.
int cuTensorMapEncodeTiled(CudaTensorMap* map, int, unsigned rank, void* base, const uint64_t*, const uint64_t* strides,
                           const uint32_t* box, const uint32_t*, int, int, int, int) {
  bool fits = reinterpret_cast<uintptr_t>(base) % 16 == 0 && strides != nullptr;  // as the driver of CUDA 13.0
  for (unsigned d = 0; d < rank; ++d) fits &= box[d] >= 1 && box[d] <= 256 && (d == 0 || strides[d - 1] % 16 == 0);
  if (!fits) return kInvalidValue;
  map->words = {reinterpret_cast<uint64_t>(base), rank};
  return 0;
}
int cuLaunchKernelEx(const CudaLaunchConfig* config, CudaFunction of, void** arguments, void**) {
  if (sticky != 0) return sticky;
  const auto& [module, name] = *reinterpret_cast<std::pair<Module*, std::string>*>(of);
  Launch launch;
  for (const std::string& section : {std::string(), name}) {
    const auto found = module->script.find(section);
    if (found == module->script.end()) continue;
    launch.commands.insert(launch.commands.end(), found->second.begin(), found->second.end());
  }
  for (const Command& command : launch.commands) {
    while (command.verb != "log" && launch.arguments.size() <= command.argument &&
           (command.verb == "write" || command.verb == "fill")) {
      launch.arguments.push_back(*static_cast<char**>(arguments[launch.arguments.size()]));
    }
  }
  launch.name = name;
  const bool recorded = capturing(config->stream) != nullptr;
  launch.raw = recorded ? nullptr : arguments;
  for (const Command& command : launch.commands) {
    const size_t count = command.verb == "tell" ? 5 : command.verb == "call" && recorded ? command.argument : 0;
    while (launch.values.size() < count) launch.values.push_back(*static_cast<void**>(arguments[launch.values.size()]));
  }
  launch.shape = fmt::format("{} grid {}x{}x{} threads {} shared {}", name, config->grid[0], config->grid[1],
                             config->grid[2], config->block[0], config->shared_bytes);
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    const CudaLaunchAttribute& attribute = config->attributes[i];
    if (attribute.id == CudaLaunchAttribute::kClusterDimension)
      launch.shape += fmt::format(" cluster {}", attribute.value[0]);
    if (attribute.id == CudaLaunchAttribute::kCooperative) launch.shape += " resident";
    if (attribute.id == CudaLaunchAttribute::kOverlapsPrevious) launch.shape += " overlaps";
  }
  return put_on(config->stream, std::move(launch));
}
int cuLaunchHostFunc(CudaStream stream, void (*function)(void*), void* argument) {
  return put_on(stream, [function, argument] { function(argument); });
}
// For fake_cublas_lt: what it computes takes so long.
void fakeCudaSpend(double us) { clock_us += us; }
int cuStreamCreate(CudaStream* stream, unsigned) {
  *stream = handle<CudaStreamTag>(new Stream{current.back()});
  return sticky;
}
int cuStreamDestroy_v2(CudaStream stream) {
  delete reinterpret_cast<Stream*>(stream);
  return sticky;
}
int cuStreamQuery(CudaStream) {
  if (hanging) return CudaDriver::kNotReady;
  if (pending != 0) sticky = pending;
  return sticky;
}
int cuStreamSynchronize(CudaStream) { return wait(); }
int cuStreamBeginCapture_v2(CudaStream stream, int) {
  if (sticky != 0) return sticky;
  capturing(stream) = new Graph;
  return 0;
}
int cuStreamEndCapture(CudaStream stream, CudaGraph* graph) {
  *graph = handle<CudaGraphTag>(capturing(stream));
  capturing(stream) = nullptr;
  return sticky;
}
int cuGraphInstantiateWithFlags(CudaGraphExec* exec, CudaGraph graph, unsigned long long) {
  const auto* of = reinterpret_cast<const Graph*>(graph);
  for (const auto& body : of->bodies) {
    if (loops() == "0") return kInvalidValue;
    for (const Launch& launch : body->launches) {
      if (loops() == "serial" && launch.shape.ends_with(" overlaps")) return kInvalidValue;
    }
  }
  *exec = handle<CudaGraphExecTag>(new Executable(of->launches));
  return sticky;
}
// Loops in graphs.
int cuCtxGetCurrent(CudaContext* context) {
  *context = current.back();
  return 0;
}
int cuCtxPushCurrent_v2(CudaContext context) {
  current.push_back(context);
  return 0;
}
int cuCtxPopCurrent_v2(CudaContext* context) {
  *context = current.back();
  if (current.size() > 1) current.pop_back();
  return 0;
}
int cuStreamGetCtx(CudaStream stream, CudaContext* context) {
  *context = stream == nullptr ? current.back() : reinterpret_cast<Stream*>(stream)->context;
  return sticky;
}
int cuStreamIsCapturing(CudaStream stream, int* state) {
  *state = capturing(stream) == nullptr ? 0 : CudaGraphNodes::kRecorded;
  return sticky;
}
int cuStreamWaitEvent(CudaStream, CudaEvent, unsigned) { return sticky; }
int cuGraphConditionalHandleCreate(uint64_t* made, CudaGraph, CudaContext, unsigned, unsigned) {
  static uint64_t next = 1;
  *made = next++;
  return sticky;
}
int cuStreamGetCaptureInfo_v3(CudaStream stream, int* state, uint64_t*, CudaGraph* graph, const CudaGraphNode**,
                              const void**, size_t* count) {
  *state = capturing(stream) == nullptr ? 0 : CudaGraphNodes::kRecorded;
  *graph = handle<CudaGraphTag>(capturing(stream));
  *count = 0;
  return sticky;
}
int cuStreamUpdateCaptureDependencies_v2(CudaStream stream, CudaGraphNode*, const void*, size_t, unsigned) {
  return capturing(stream) == nullptr ? kInvalidValue : sticky;
}
int cuGraphAddNode_v2(CudaGraphNode*, CudaGraph graph, const CudaGraphNode*, const void*, size_t,
                      CudaConditionalNode* node) {
  const bool is_while = node->condition == CudaConditionalNode::kWhile;
  if (node->kind != CudaConditionalNode::kConditional || (!is_while && node->condition != CudaConditionalNode::kIf))
    return kInvalidValue;
  auto* of = reinterpret_cast<Graph*>(graph);
  of->bodies.push_back(std::make_shared<Graph>());
  Launch loop;
  loop.host = [handle = node->handle, body = of->bodies.back(), is_while] {
    while (conditions[handle] != 0) {
      for (const Launch& launch : body->launches) perform(launch);
      if (!is_while) break;
    }
  };
  of->launches.push_back(std::move(loop));
  static std::map<Graph*, CudaGraph> arrays;  // as long as the driver
  node->graphs = &(arrays[of->bodies.back().get()] = handle<CudaGraphTag>(of->bodies.back().get()));
  return sticky;
}
int cuStreamBeginCaptureToGraph(CudaStream stream, CudaGraph graph, const CudaGraphNode*, const void*, size_t, int) {
  capturing(stream) = reinterpret_cast<Graph*>(graph);
  return sticky;
}
#ifndef FAKE_CUDA_WITHOUT_GRAPHS
int cuGraphLaunch(CudaGraphExec exec, CudaStream) {
  if (sticky != 0) return sticky;
  for (const Launch& launch : *reinterpret_cast<Executable*>(exec)) perform(launch);
  return 0;
}
#endif
int cuGraphDestroy(CudaGraph graph) {
  delete reinterpret_cast<Graph*>(graph);
  return sticky;
}
int cuGraphExecDestroy(CudaGraphExec exec) {
  delete reinterpret_cast<Executable*>(exec);
  return sticky;
}
int cuEventCreate(CudaEvent* event, unsigned) {
  *event = handle<CudaEventTag>(new double(0));
  return sticky;
}
int cuEventDestroy_v2(CudaEvent event) {
  delete reinterpret_cast<double*>(event);
  return sticky;
}
int cuEventRecord(CudaEvent event, CudaStream) {
  *reinterpret_cast<double*>(event) = clock_us;
  return sticky;
}
int cuEventSynchronize(CudaEvent) { return wait(); }
int cuEventElapsedTime(float* milliseconds, CudaEvent begin, CudaEvent end) {
  *milliseconds = static_cast<float>((*reinterpret_cast<double*>(end) - *reinterpret_cast<double*>(begin)) * 1e-3);
  return sticky;
}

}  // extern "C"
