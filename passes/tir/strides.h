// SPDX-License-Identifier: Apache-2.0
#ifndef KOPE_TIR_STRIDES_H_
#define KOPE_TIR_STRIDES_H_

#include "tir/blocks.h"

namespace kope {

/*!
 * \brief Elements between what neighbours along the block's innermost axis read, load by load.
 *
 * Of the axes with more than one iteration; -1 where it is not constant.
 */
ffi::Array<int64_t> Strides(const Block& block);

}  // namespace kope

#endif  // KOPE_TIR_STRIDES_H_
