// SPDX-License-Identifier: Apache-2.0
// Every global function of this library, in one place.
#include <tvm/ffi/reflection/registry.h>

#include "tir/features.h"

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef().def("kope.features", kope::Features,
                        "op_class, spatial_extents, reduce_extents, dtypes, flops, bytes_moved and "
                        "num_blocks of a PrimFunc or IRModule");
}
