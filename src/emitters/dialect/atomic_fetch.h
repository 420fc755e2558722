// An atomic update whose old value is used (atomic_fetch.td).
#pragma once

#include "emitters/dialect/dialect.h"

#define GET_OP_CLASSES
#include "emitters/dialect/atomic_fetch.h.inc"
