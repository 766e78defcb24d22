// SPDX-License-Identifier: Apache-2.0
// What the table of a library's operators is made of.
#pragma once

#include "kope_ort.h"

#define KOPE_MAX_AXES 32

typedef struct {
  const char *name, *dtype;
  int type, is_output;  // ONNX Runtime's number of the dtype.
  size_t num_axes, num_bytes;
  const int64_t* shape;
} KopeEdge;

typedef struct {
  const char *domain, *name;
  int (*call)(void* const* params);  // 0, or a code that has a message.
  const char* (*message)(int code);
  size_t num_edges;  // Inputs and outputs, in the order of the call's parameters.
  const KopeEdge* edges;
} KopeOp;

typedef struct {
  OrtCustomOp base;  // First, so that ONNX Runtime's pointer is ours.
  const KopeOp* op;
} KopeCustomOp;
