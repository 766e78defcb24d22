// SPDX-License-Identifier: Apache-2.0
// Uploaded files, and the libraries among them that may be loaded.
#ifndef KOPE_SERVER_LIBRARY_H_
#define KOPE_SERVER_LIBRARY_H_

#include <tvm/ffi/extra/module.h>

#include <string>

#include "options.h"

namespace kope {

/// The place of an uploaded file in this session's folder.
std::string WorkPath(const std::string& name);

/// Write an upload whole, or throw: a full disk must not leave half a library.
void Upload(const std::string& name, const std::string& content);

/// Load an uploaded library, or one linked from an uploaded archive of objects.
///
/// Throws where it is for another machine, and where it was built for longer vectors than this
/// core has: it would compute wrong bytes without a sign of it.
tvm::ffi::Module LoadLibrary(const Options& options, const std::string& name);

/// Shortest vector length that an object's attributes ask for; 0 where it uses no vectors.
int RequiredVlenBits(const std::string& arch);

}  // namespace kope

#endif  // KOPE_SERVER_LIBRARY_H_
