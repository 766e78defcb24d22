// SPDX-License-Identifier: Apache-2.0
// The only file that changes with the versions' names.
#include "versions.h"

namespace kope {

const char kTvmVersion[] = KOPE_TVM_VERSION;
const char kFfiVersion[] = KOPE_FFI_VERSION;

}  // namespace kope
