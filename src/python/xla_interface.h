// The part of XLA's interface for foreign functions that Strata uses: its C interface of major version 0, in which
// structs grow at their end alone and begin with their size. Written here because jaxlib's headers come with jaxlib,
// which a build of Strata does not need; tests/python/test_jax_ffi.py compares the two.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::python::xla {

enum Stage : int { kExecute = 3 };
enum ExtensionType : int { kMetadata = 1 };
enum AttributeType : int { kScalar = 3 };
enum ErrorCode : int { kInvalidArgument = 3, kFailedPrecondition = 9, kInternal = 13 };
enum DataType : int { kS64 = 5 };

struct Context;
struct Error;

struct Extension {
  size_t struct_size;
  int type;
  Extension* next;
};

struct Version {
  size_t struct_size;
  Extension* extension_start;
  int major_version;
  int minor_version;
};

struct ErrorArguments {
  size_t struct_size;
  Extension* extension_start;
  const char* message;
  int code;
};

struct StreamArguments {
  size_t struct_size;
  Extension* extension_start;
  Context* context;
  void* stream;  ///< is set
};

/// Memory of the device on which a call runs.
struct AllocateArguments {
  size_t struct_size;
  Extension* extension_start;
  Context* context;
  size_t size;
  size_t alignment;
  void* data;  ///< is set
};

struct FreeArguments {
  size_t struct_size;
  Extension* extension_start;
  Context* context;
  size_t size;
  void* data;
};

struct Api {
  size_t struct_size;
  Extension* extension_start;
  Version version;
  const void* internal;
  Error* (*make_error)(ErrorArguments*);
  // Errors of what follows are the caller's, or may be what a handler returns.
  void (*error_text)();
  void (*destroy_error)();
  void (*register_handler)();
  Error* (*stream)(StreamArguments*);
  void (*register_type)();
  void (*of_context)();
  void (*set_state)();
  void (*state)();
  Error* (*allocate)(AllocateArguments*);
  Error* (*free)(FreeArguments*);
};

struct Buffer {
  size_t struct_size;
  Extension* extension_start;
  int type;
  void* data;
  int64_t rank;
  int64_t* sizes;
};

/// All of type 1, buffers.
struct Buffers {
  size_t struct_size;
  Extension* extension_start;
  int64_t count;
  int* types;
  Buffer** buffers;
};

struct Bytes {
  const char* data;
  size_t size;
};

struct Scalar {
  int type;
  void* value;
};

struct Attributes {
  size_t struct_size;
  Extension* extension_start;
  int64_t count;
  int* types;
  Bytes** names;
  void** values;
};

struct Call {
  size_t struct_size;
  Extension* extension_start;
  const Api* api;
  Context* context;
  int stage;
  Buffers arguments;
  Buffers results;
  Attributes attributes;
};

struct Metadata {
  size_t struct_size;
  Version version;
  uint32_t traits;
};

struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

}  // namespace strata::python::xla
