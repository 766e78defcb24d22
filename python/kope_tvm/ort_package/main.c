// SPDX-License-Identifier: Apache-2.0
// Runs a model with its library, as any program of ONNX Runtime's C interface would, and compares
// with stored values. kope_ort.h stands for onnxruntime_c_api.h, with which it compiles too.
#include "kope_check.h"
#include "kope_ort.h"

typedef struct {
  const char* name;
  int type, code, bits;
  size_t count, num_axes;
  const int64_t* shape;
} Edge;

typedef struct {
  const double* values;
  size_t num_values, stride;
  double allowed;
} Wanted;

#include "sample.h"

static const OrtApi* api;

static void must(OrtStatus* status) {
  if (!status) return;
  fprintf(stderr, "%s\n", api->GetErrorMessage(status));
  exit(1);
}

static OrtSession* opened(OrtEnv* env, const char* library, const char* model) {
  OrtSessionOptions* options;
  OrtSession* session;
  must(api->CreateSessionOptions(&options));
  must(api->RegisterCustomOpsLibrary_V2(options, library));
  must(api->CreateSession(env, model, options, &session));
  api->ReleaseSessionOptions(options);
  return session;
}

static OrtValue* made(const OrtMemoryInfo* memory, const Edge* edge, void* data) {
  OrtValue* value;
  must(api->CreateTensorWithDataAsOrtValue(memory, data, edge->count * (size_t)edge->bits / 8,
                                           edge->shape, edge->num_axes, edge->type, &value));
  return value;
}

static int run(OrtSession* session) {
  const char* names[NUM_INPUTS + 1] = {0};
  const char* output_names[NUM_OUTPUTS + 1] = {0};
  void* data[NUM_INPUTS + 1] = {0};
  OrtValue* values[NUM_INPUTS + 1] = {0};
  OrtValue* results[NUM_OUTPUTS + 1] = {0};
  OrtMemoryInfo* memory;
  must(api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory));
  for (int i = 0; i < NUM_INPUTS; ++i) {
    names[i] = inputs[i].name;
    data[i] = input(i, inputs[i].code, inputs[i].bits, inputs[i].count);
    values[i] = made(memory, &inputs[i], data[i]);
  }
  for (int i = 0; i < NUM_OUTPUTS; ++i) output_names[i] = outputs[i].name;
  must(api->Run(session, NULL, names, (const OrtValue* const*)values, NUM_INPUTS, output_names,
                NUM_OUTPUTS, results));
  int num_wrong = 0;
  for (int i = 0; i < NUM_OUTPUTS; ++i) {
    void* found;
    must(api->GetTensorMutableData(results[i], &found));
    num_wrong += compare(outputs[i].name, found, outputs[i].code, outputs[i].bits, wanted[i].stride,
                         wanted[i].values, wanted[i].num_values, wanted[i].allowed);
    api->ReleaseValue(results[i]);
  }
  for (int i = 0; i < NUM_INPUTS; ++i) api->ReleaseValue(values[i]), free(data[i]);
  api->ReleaseMemoryInfo(memory);
  return num_wrong;
}

int main(int count, char** arguments) {
  if (count != 3) {
    fprintf(stderr, "usage: %s LIBRARY MODEL, the library with its whole path\n", arguments[0]);
    return 2;
  }
  if (!(api = OrtGetApiBase()->GetApi(17))) return 2;
  OrtEnv* env;
  must(api->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "kope", &env));
  OrtSession* session = opened(env, arguments[1], arguments[2]);
  int num_wrong = run(session);
  api->ReleaseSession(session);
  api->ReleaseEnv(env);
  return num_wrong ? 1 : 0;
}
