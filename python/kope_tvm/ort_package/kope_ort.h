// SPDX-License-Identifier: Apache-2.0
// What this library and its example need of ONNX Runtime's C interface. Functions are found by
// their place in a table, which never changes; names are those of onnxruntime_c_api.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

// The oldest that has KernelContext_ParallelFor; ONNX Runtime 1.17.
#define KOPE_ORT_VERSION 17

typedef struct OrtStatus OrtStatus;
typedef struct OrtEnv OrtEnv;
typedef struct OrtSession OrtSession;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtRunOptions OrtRunOptions;
typedef struct OrtValue OrtValue;
typedef struct OrtMemoryInfo OrtMemoryInfo;
typedef struct OrtTensorTypeAndShapeInfo OrtTensorTypeAndShapeInfo;
typedef struct OrtCustomOpDomain OrtCustomOpDomain;
typedef struct OrtKernelInfo OrtKernelInfo;
typedef struct OrtKernelContext OrtKernelContext;
typedef struct OrtCustomOp OrtCustomOp;

enum { ORT_FAIL = 1, ORT_INVALID_ARGUMENT = 2 };
enum { ORT_LOGGING_LEVEL_WARNING = 2 };
enum { OrtDeviceAllocator = 0, OrtMemTypeDefault = 0 };

// Places that nothing here calls.
#define KOPE_OTHERS(first, last) void* others_##first[last - first + 1]

typedef struct OrtApi {
  OrtStatus* (*CreateStatus)(int code, const char* message);  // 0
  KOPE_OTHERS(1, 1);
  const char* (*GetErrorMessage)(const OrtStatus* status);  // 2
  OrtStatus* (*CreateEnv)(int log_level, const char* name, OrtEnv** made);
  KOPE_OTHERS(4, 6);
  OrtStatus* (*CreateSession)(const OrtEnv* env, const char* model,  // 7
                              const OrtSessionOptions* options, OrtSession** made);
  KOPE_OTHERS(8, 8);
  OrtStatus* (*Run)(OrtSession* session, const OrtRunOptions* options,  // 9
                    const char* const* input_names, const OrtValue* const* inputs,
                    size_t num_inputs, const char* const* output_names, size_t num_outputs,
                    OrtValue** outputs);
  OrtStatus* (*CreateSessionOptions)(OrtSessionOptions** made);
  KOPE_OTHERS(11, 25);
  OrtStatus* (*CreateCustomOpDomain)(const char* name, OrtCustomOpDomain** made);  // 26
  OrtStatus* (*CustomOpDomain_Add)(OrtCustomOpDomain* domain, const OrtCustomOp* op);
  OrtStatus* (*AddCustomOpDomain)(OrtSessionOptions* options, OrtCustomOpDomain* domain);
  KOPE_OTHERS(29, 48);
  OrtStatus* (*CreateTensorWithDataAsOrtValue)(const OrtMemoryInfo* info, void* data,  // 49
                                               size_t num_bytes, const int64_t* shape,
                                               size_t num_axes, int type, OrtValue** made);
  KOPE_OTHERS(50, 50);
  OrtStatus* (*GetTensorMutableData)(OrtValue* value, void** data);  // 51
  KOPE_OTHERS(52, 59);
  OrtStatus* (*GetTensorElementType)(const OrtTensorTypeAndShapeInfo* info, int* type);  // 60
  OrtStatus* (*GetDimensionsCount)(const OrtTensorTypeAndShapeInfo* info, size_t* num_axes);
  OrtStatus* (*GetDimensions)(const OrtTensorTypeAndShapeInfo* info, int64_t* shape,
                              size_t num_axes);
  KOPE_OTHERS(63, 64);
  OrtStatus* (*GetTensorTypeAndShape)(const OrtValue* value,  // 65
                                      OrtTensorTypeAndShapeInfo** made);
  KOPE_OTHERS(66, 68);
  OrtStatus* (*CreateCpuMemoryInfo)(int allocator, int memory, OrtMemoryInfo** made);  // 69
  KOPE_OTHERS(70, 89);
  OrtStatus* (*KernelContext_GetInput)(const OrtKernelContext* context, size_t number,  // 90
                                       const OrtValue** value);
  OrtStatus* (*KernelContext_GetOutput)(OrtKernelContext* context, size_t number,
                                        const int64_t* shape, size_t num_axes, OrtValue** value);
  void (*ReleaseEnv)(OrtEnv* env);  // 92
  void (*ReleaseStatus)(OrtStatus* status);
  void (*ReleaseMemoryInfo)(OrtMemoryInfo* info);
  void (*ReleaseSession)(OrtSession* session);
  void (*ReleaseValue)(OrtValue* value);
  KOPE_OTHERS(97, 98);
  void (*ReleaseTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo* info);  // 99
  void (*ReleaseSessionOptions)(OrtSessionOptions* options);
  KOPE_OTHERS(101, 227);
  OrtStatus* (*RegisterCustomOpsLibrary_V2)(OrtSessionOptions* options, const char* path);  // 228
  KOPE_OTHERS(229, 273);
  OrtStatus* (*KernelContext_ParallelFor)(const OrtKernelContext* context,  // 274
                                          void (*run)(void* data, size_t number), size_t count,
                                          size_t num_batches, void* data);
} OrtApi;

_Static_assert(offsetof(OrtApi, KernelContext_ParallelFor) == 274 * sizeof(void*), "a slot is off");

typedef struct OrtApiBase {
  const OrtApi* (*GetApi)(uint32_t version);
  const char* (*GetVersionString)(void);
} OrtApiBase;

const OrtApiBase* OrtGetApiBase(void);

// An operator as ONNX Runtime sees it, up to what version 17 asks for.
struct OrtCustomOp {
  uint32_t version;
  void* (*CreateKernel)(const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info);
  const char* (*GetName)(const OrtCustomOp* op);
  const char* (*GetExecutionProviderType)(const OrtCustomOp* op);
  int (*GetInputType)(const OrtCustomOp* op, size_t number);
  size_t (*GetInputTypeCount)(const OrtCustomOp* op);
  int (*GetOutputType)(const OrtCustomOp* op, size_t number);
  size_t (*GetOutputTypeCount)(const OrtCustomOp* op);
  void (*KernelCompute)(void* kernel, OrtKernelContext* context);
  void (*KernelDestroy)(void* kernel);
  int (*GetInputCharacteristic)(const OrtCustomOp* op, size_t number);
  int (*GetOutputCharacteristic)(const OrtCustomOp* op, size_t number);
  int (*GetInputMemoryType)(const OrtCustomOp* op, size_t number);
  int (*GetVariadicInputMinArity)(const OrtCustomOp* op);
  int (*GetVariadicInputHomogeneity)(const OrtCustomOp* op);
  int (*GetVariadicOutputMinArity)(const OrtCustomOp* op);
  int (*GetVariadicOutputHomogeneity)(const OrtCustomOp* op);
  OrtStatus* (*CreateKernelV2)(const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info,
                               void** kernel);
  OrtStatus* (*KernelComputeV2)(void* kernel, OrtKernelContext* context);
  OrtStatus* (*InferOutputShape)(const OrtCustomOp* op, void* context);
  int (*GetStartVersion)(const OrtCustomOp* op);
  int (*GetEndVersion)(const OrtCustomOp* op);
};
