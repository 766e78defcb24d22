// SPDX-License-Identifier: Apache-2.0
// Every global function of this library, in one place.
#include <tvm/ffi/reflection/registry.h>

#include "tir/features.h"
#include "tir/static_checks.h"

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def("kope.features", kope::Features,
           "op_class, spatial_extents, reduce_extents, dtypes, flops, bytes_moved, num_blocks and "
           "strides of a PrimFunc or IRModule")
      .def("kope.write_coverage", kope::WriteCoverage,
           "param, yes/no/unknown and the first region never written, of each param given")
      .def("kope.read_uninitialised", kope::ReadUninitialised,
           "buffer and element of what is certainly read before it is written")
      .def("kope.out_of_bounds", kope::IndicesOutOfBounds,
           "buffer, axis, index and extent of what certainly leaves its buffer")
      .def("kope.written_params", kope::WrittenParams, "places of the params that are written to")
      .def("kope.races", kope::Races, "buffer and parallel loop of what certainly races")
      .def("kope.calls", kope::Calls, "names of the operators called")
      .def("kope.dtypes", kope::Dtypes, "dtypes computed in, accumulated in and cast between")
      .def("kope.literals", kope::Literals, "number of different constants computed with")
      .def("kope.addresses", kope::Addresses, "names of what handles addresses")
      .def("kope.input_branches", kope::InputBranches,
           "statements whose course depends on the values of a param")
      .def("kope.annotations", kope::Annotations, "keys of annotations and attributes")
      .def("kope.undeclared_uses", kope::UndeclaredUses,
           "block and buffer of what is used without being declared")
      .def("kope.temporary_bytes", kope::TemporaryBytes, "bytes of all temporaries together")
      .def("kope.counts", kope::Counts, "operations, bytes loaded and bytes stored")
      .def("kope.loop_tree", kope::LoopTree, "depth, kind, name and extent of loops and blocks");
}
