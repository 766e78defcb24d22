// SPDX-License-Identifier: Apache-2.0
#ifndef KOPE_SERVER_VERSIONS_H_
#define KOPE_SERVER_VERSIONS_H_

namespace kope {

/// Of what this server is made of.
extern const char kTvmVersion[];
extern const char kFfiVersion[];

}  // namespace kope

#endif  // KOPE_SERVER_VERSIONS_H_
