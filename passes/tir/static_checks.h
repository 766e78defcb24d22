// SPDX-License-Identifier: Apache-2.0
// What the static gates ask of a function; each is one file of its name.
#ifndef KOPE_TIR_STATIC_CHECKS_H_
#define KOPE_TIR_STATIC_CHECKS_H_

#include <tvm/ffi/container/tuple.h>

#include "tir/node.h"

namespace kope {

using ffi::Any;
using ffi::AnyView;

/*! \brief param, "yes" / "no" / "unknown", first region never written: its begin and its end. */
using Coverage = ffi::Tuple<int64_t, ffi::String, ffi::Array<int64_t>, ffi::Array<int64_t>>;

/*! \brief Whether every element of these parameters is written. */
ffi::Array<Coverage> WriteCoverage(Any prim_func, ffi::Array<int64_t> params);

/*! \brief buffer, its place among the parameters (-1: a temporary), element. */
using Element = ffi::Tuple<ffi::String, int64_t, ffi::Array<int64_t>>;

/*! \brief Elements of temporaries and outputs that are certainly read before they are written. */
ffi::Array<Element> ReadUninitialised(Any prim_func);

/*! \brief buffer, axis (-1: the place in memory), index, extent. */
using OutOfBounds = ffi::Tuple<ffi::String, int64_t, int64_t, int64_t>;

/*! \brief Accesses that certainly leave their buffer. */
ffi::Array<OutOfBounds> IndicesOutOfBounds(Any prim_func);

/*! \brief Places of the parameters that are stored to, or may be through an address. */
ffi::Array<int64_t> WrittenParams(Any prim_func);

/*! \brief buffer, parallel loop. */
using Race = ffi::Tuple<ffi::String, ffi::String>;

/*! \brief Shared buffers of which certainly two iterations of a parallel loop write one element. */
ffi::Array<Race> Races(Any prim_func);

/*! \brief Sorted names of the operators called, foreign ones with what they name. */
ffi::Array<ffi::String> Calls(Any prim_func);

/*! \brief Sorted `compute T`, `accumulate T` and `cast FROM TO` of what is computed. */
ffi::Array<ffi::String> Dtypes(Any prim_func);

/*! \brief Number of different constants in what is computed; indices and conditions left out. */
int64_t Literals(Any prim_func);

/*! \brief Sorted names of what takes or compares addresses. */
ffi::Array<ffi::String> Addresses(Any prim_func);

/*! \brief statement, place of the param on whose values its course depends. */
using InputBranch = ffi::Tuple<ffi::String, int64_t>;

ffi::Array<InputBranch> InputBranches(Any prim_func);

/*! \brief Sorted keys of annotations and attributes. */
ffi::Array<ffi::String> Annotations(Any prim_func);

/*! \brief block, buffer. */
using UndeclaredUse = ffi::Tuple<ffi::String, ffi::String>;

/*! \brief Buffers that a block uses though its `reads` and `writes` do not name them, sorted. */
ffi::Array<UndeclaredUse> UndeclaredUses(Any prim_func);

/*! \brief Bytes of all temporaries together. */
double TemporaryBytes(Any prim_func);

/*! \brief Arithmetic operations, bytes loaded, bytes stored, as the loops run them. */
ffi::Tuple<double, double, double> Counts(Any prim_func);

/*! \brief depth, kind, name, extent (-1: symbolic or a block) of each loop and block in order. */
using LoopNode = ffi::Tuple<int64_t, ffi::String, ffi::String, int64_t>;

ffi::Array<LoopNode> LoopTree(Any prim_func);

}  // namespace kope

#endif  // KOPE_TIR_STATIC_CHECKS_H_
