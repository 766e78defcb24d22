// SPDX-License-Identifier: Apache-2.0
// Operators of ONNX Runtime: each checks its tensors, brings them where the code
// wants them and calls a function of the library. Many threads may run one at once: none
// shares memory with another.
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kope_op.h"
#include "kope_runtime.h"

OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base);

typedef struct {
  const OrtApi* api;
  const KopeOp* op;
  size_t num_bytes;      // Of room for copies of all tensors.
  _Atomic(char*) spare;  // Such room that no call is using: new pages cost more than a copy.
} Kernel;

// A tensor of ONNX Runtime's and, where that is not aligned, a copy of it.
typedef struct {
  void *theirs, *ours;
} Place;

// What a call was given to run loops with; parts of a loop begin no loops of their own.
static _Thread_local struct {
  const OrtApi* api;
  const OrtKernelContext* context;
} caller;

int kope_parallel_for(void (*run)(void* data, size_t number), size_t count, void* data) {
  if (!caller.context) {
    for (size_t number = 0; number < count; ++number) run(data, number);
    return 0;
  }
  const OrtKernelContext* context = caller.context;
  caller.context = NULL;
  OrtStatus* status = caller.api->KernelContext_ParallelFor(context, run, count, 0, data);
  caller.context = context;
  if (status) caller.api->ReleaseStatus(status);
  return status != NULL;
}

__attribute__((format(printf, 3, 4))) static OrtStatus* refusal(const Kernel* kernel, int code,
                                                                const char* format, ...) {
  char text[1024];
  int length = snprintf(text, sizeof text, "%s::%s: ", kernel->op->domain, kernel->op->name);
  va_list parts;
  va_start(parts, format);
  vsnprintf(text + length, sizeof text - (size_t)length, format, parts);
  va_end(parts);
  return kernel->api->CreateStatus(code, text);
}

static const char* spelled(char* text, size_t room, const int64_t* shape, size_t num_axes) {
  size_t length = (size_t)snprintf(text, room, "[");
  for (size_t axis = 0; axis < num_axes && length < room; ++axis)
    length +=
        (size_t)snprintf(text + length, room - length, "%s%" PRId64, axis ? ", " : "", shape[axis]);
  if (length < room) snprintf(text + length, room - length, "]");
  return text;
}

static OrtStatus* check_shape(const Kernel* kernel, const KopeEdge* edge, int type, size_t num_axes,
                              const int64_t* shape) {
  char found[256], wanted[256];
  if (type != edge->type)
    return refusal(kernel, ORT_INVALID_ARGUMENT,
                   "input '%s' has elements of type %d of ONNX; expected %d, %s", edge->name, type,
                   edge->type, edge->dtype);
  if (num_axes == edge->num_axes && !memcmp(shape, edge->shape, num_axes * sizeof *shape))
    return NULL;
  if (num_axes > KOPE_MAX_AXES) num_axes = KOPE_MAX_AXES;
  return refusal(kernel, ORT_INVALID_ARGUMENT,
                 "input '%s' has shape %s; expected %s, for which it is compiled", edge->name,
                 spelled(found, sizeof found, shape, num_axes),
                 spelled(wanted, sizeof wanted, edge->shape, edge->num_axes));
}

static OrtStatus* check(const Kernel* kernel, const KopeEdge* edge, const OrtValue* value) {
  const OrtApi* api = kernel->api;
  OrtTensorTypeAndShapeInfo* info = NULL;
  OrtStatus* status = api->GetTensorTypeAndShape(value, &info);
  if (status) return status;
  int type = 0;
  size_t num_axes = 0;
  int64_t shape[KOPE_MAX_AXES];
  status = api->GetTensorElementType(info, &type);
  if (!status) status = api->GetDimensionsCount(info, &num_axes);
  size_t num_read = num_axes < KOPE_MAX_AXES ? num_axes : KOPE_MAX_AXES;
  if (!status) status = api->GetDimensions(info, shape, num_read);
  if (!status) status = check_shape(kernel, edge, type, num_axes, shape);
  api->ReleaseTensorTypeAndShapeInfo(info);
  return status;
}

static OrtStatus* find(const Kernel* kernel, OrtKernelContext* context, const KopeEdge* edge,
                       size_t number, void** data) {
  const OrtApi* api = kernel->api;
  OrtValue* value = NULL;
  const OrtValue* input = NULL;
  OrtStatus* status = edge->is_output ? api->KernelContext_GetOutput(context, number, edge->shape,
                                                                     edge->num_axes, &value)
                                      : api->KernelContext_GetInput(context, number, &input);
  if (status) return status;
  if (!edge->is_output) {
    if (!input)
      return refusal(kernel, ORT_INVALID_ARGUMENT, "input '%s' was not given", edge->name);
    if ((status = check(kernel, edge, input))) return status;
    value = (OrtValue*)(uintptr_t)input;
  }
  // An output that nobody takes has no tensor.
  return value ? api->GetTensorMutableData(value, data) : NULL;
}

static size_t rounded(size_t num_bytes) {
  return (num_bytes / KOPE_ALIGNMENT + 1) * KOPE_ALIGNMENT;
}

static char* take_room(Kernel* kernel) {
  char* room = atomic_exchange(&kernel->spare, NULL);
  return room ? room : aligned_alloc(KOPE_ALIGNMENT, kernel->num_bytes);
}

static void give_room_back(Kernel* kernel, char* room) {
  char* none = NULL;
  if (!atomic_compare_exchange_strong(&kernel->spare, &none, room)) free(room);
}

static OrtStatus* align(Kernel* kernel, const KopeEdge* edge, Place* place, char** room,
                        size_t begin) {
  place->ours = place->theirs;
  if (place->theirs && (uintptr_t)place->theirs % KOPE_ALIGNMENT == 0) return NULL;
  if (!*room && !(*room = take_room(kernel)))
    return refusal(kernel, ORT_FAIL, "no memory for copies, %zu bytes", kernel->num_bytes);
  place->ours = *room + begin;
  if (!edge->is_output && edge->num_bytes) memcpy(place->ours, place->theirs, edge->num_bytes);
  return NULL;
}

static OrtStatus* take(Kernel* kernel, OrtKernelContext* context, Place* places, char** room) {
  const KopeOp* op = kernel->op;
  size_t numbers[2] = {0, 0}, begin = 0;
  for (size_t i = 0; i < op->num_edges; ++i) {
    const KopeEdge* edge = &op->edges[i];
    OrtStatus* status = find(kernel, context, edge, numbers[edge->is_output]++, &places[i].theirs);
    if (!status) status = align(kernel, edge, &places[i], room, begin);
    if (status) return status;
    begin += rounded(edge->num_bytes);
  }
  return NULL;
}

static OrtStatus* call(const Kernel* kernel, OrtKernelContext* context, const Place* places,
                       void** params) {
  const KopeOp* op = kernel->op;
  for (size_t i = 0; i < op->num_edges; ++i) params[i] = places[i].ours;
  caller.api = kernel->api, caller.context = context;
  int code = op->call(params);
  caller.context = NULL;
  if (code) return refusal(kernel, ORT_FAIL, "%s", op->message(code));
  for (size_t i = 0; i < op->num_edges; ++i)
    if (op->edges[i].is_output && places[i].theirs && places[i].ours != places[i].theirs)
      memcpy(places[i].theirs, places[i].ours, op->edges[i].num_bytes);
  return NULL;
}

static OrtStatus* compute(void* state, OrtKernelContext* context) {
  Kernel* kernel = state;
  char* room = NULL;
  size_t num_edges = kernel->op->num_edges;
  Place* places = calloc(num_edges, sizeof *places);
  void** params = calloc(num_edges, sizeof *params);
  OrtStatus* status = places && params ? take(kernel, context, places, &room)
                                       : refusal(kernel, ORT_FAIL, "no memory for a call");
  if (!status) status = call(kernel, context, places, params);
  if (room) give_room_back(kernel, room);
  free(params);
  free(places);
  return status;
}

static const KopeOp* op_of(const OrtCustomOp* op) { return ((const KopeCustomOp*)op)->op; }

static OrtStatus* create(const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info,
                         void** made) {
  (void)info;
  Kernel* kernel = malloc(sizeof *kernel);
  if (!kernel) return api->CreateStatus(ORT_FAIL, "no memory for an operator of kope");
  kernel->api = api;
  kernel->op = op_of(op);
  kernel->num_bytes = 0;
  for (size_t i = 0; i < kernel->op->num_edges; ++i)
    kernel->num_bytes += rounded(kernel->op->edges[i].num_bytes);
  atomic_init(&kernel->spare, NULL);
  *made = kernel;
  return NULL;
}

static void destroy(void* state) {
  Kernel* kernel = state;
  free(atomic_load(&kernel->spare));
  free(kernel);
}

static const char* name_of(const OrtCustomOp* op) { return op_of(op)->name; }

static const char* provider_of(const OrtCustomOp* op) {
  (void)op;
  return NULL;  // The processor.
}

static size_t count(const OrtCustomOp* op, int is_output) {
  size_t found = 0;
  for (size_t i = 0; i < op_of(op)->num_edges; ++i)
    found += op_of(op)->edges[i].is_output == is_output;
  return found;
}

static int type_of(const OrtCustomOp* op, int is_output, size_t number) {
  const KopeEdge* edge = op_of(op)->edges;
  while (edge->is_output != is_output || number--) ++edge;
  return edge->type;
}

static size_t num_inputs(const OrtCustomOp* op) { return count(op, 0); }
static size_t num_outputs(const OrtCustomOp* op) { return count(op, 1); }
static int input_type(const OrtCustomOp* op, size_t number) { return type_of(op, 0, number); }
static int output_type(const OrtCustomOp* op, size_t number) { return type_of(op, 1, number); }

// All are required, none is variadic, all lie in the default memory.
static int none_of_one(const OrtCustomOp* op, size_t number) {
  (void)op, (void)number;
  return 0;
}

static int none(const OrtCustomOp* op) {
  (void)op;
  return 0;
}

static int version(const OrtCustomOp* op) {
  (void)op;
  return 1;
}

#define KOPE_BASE                                                                    \
  {                                                                                  \
      KOPE_ORT_VERSION, NULL,        name_of, provider_of, input_type,  num_inputs,  \
      output_type,      num_outputs, NULL,    destroy,     none_of_one, none_of_one, \
      none_of_one,      none,        none,    none,        none,        create,      \
      compute,          NULL,        version, version,                               \
  }

// The table, `kope_ops`.
#include "kope_ops.h"

// A domain has to outlive all sessions of its options, and nobody says when the last is gone.
__attribute__((visibility("default"))) OrtStatus* RegisterCustomOps(OrtSessionOptions* options,
                                                                    const OrtApiBase* base) {
  const OrtApi* api = base->GetApi(KOPE_ORT_VERSION);
  if (!api) {
    char text[160];
    snprintf(text, sizeof text, "kope's operators need ONNX Runtime 1.%d or newer; this is %s",
             KOPE_ORT_VERSION, base->GetVersionString());
    return base->GetApi(1)->CreateStatus(ORT_FAIL, text);
  }
  OrtCustomOpDomain* domain = NULL;
  OrtStatus* status = api->CreateCustomOpDomain(kope_ops[0].op->domain, &domain);
  for (size_t i = 0; !status && i < sizeof kope_ops / sizeof *kope_ops; ++i)
    status = api->CustomOpDomain_Add(domain, &kope_ops[i].base);
  return status ? status : api->AddCustomOpDomain(options, domain);
}
