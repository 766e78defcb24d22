// SPDX-License-Identifier: Apache-2.0
#ifndef KOPE_TIR_FEATURES_H_
#define KOPE_TIR_FEATURES_H_

#include <tvm/ffi/container/tuple.h>

#include "tir/blocks.h"

namespace kope {

/*! \brief The fields of kope_tvm.task.Features, in their order. */
using FeatureTuple =
    ffi::Tuple<ffi::String, ffi::Array<int64_t>, ffi::Array<int64_t>, ffi::Array<ffi::String>,
               double, double, int64_t, ffi::Array<int64_t>>;

/*! \brief The block that the work is in: of the reductions if there are any, the last of equals. */
const Block* AnchorBlock(const Function& function);

/*! \brief What kope_tvm.task.Features calls op_class. */
const char* OpClass(const Function& function, const Block* anchor);

/*! \brief Features of a PrimFunc, or of an IRModule's `main` (else its first PrimFunc by name). */
FeatureTuple Features(ffi::Any node);

}  // namespace kope

#endif  // KOPE_TIR_FEATURES_H_
