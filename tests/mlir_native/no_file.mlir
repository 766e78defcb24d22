// RUN: not mlir-opt --load-pass-plugin=%plugin --pass-pipeline='builtin.module(kope-annotate{experience=nowhere.json})' %s 2>&1 | FileCheck %s

// CHECK: error: kope-annotate{experience=FILE}: nowhere.json: cannot be read
func.func @nothing() {
  return
}
