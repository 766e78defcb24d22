// SPDX-License-Identifier: Apache-2.0
#ifndef KOPE_SERVER_SESSION_H_
#define KOPE_SERVER_SESSION_H_

#include "options.h"
#include "wire.h"

namespace kope {

/// Serve one client in a process of its own, to its end.
///
/// Whatever becomes of that process, this one goes on, and a client that still waits is told.
/// `limit_secs` is what the client asked for, 0 if nothing.
void ServeSession(const Options& options, Socket client, double limit_secs);

/// Put what this server does otherwise than TVM's into the table of global functions.
void RegisterFunctions(const Options& options);

}  // namespace kope

#endif  // KOPE_SERVER_SESSION_H_
