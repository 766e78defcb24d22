// SPDX-License-Identifier: Apache-2.0
#ifndef KOPE_SERVER_LOG_H_
#define KOPE_SERVER_LOG_H_

#include <string>

namespace kope {

/// Name every line after this board.
void NameLog(const std::string& board);

/// One line on stderr: the time, the board, the text.
void Log(const std::string& text);

}  // namespace kope

#endif  // KOPE_SERVER_LOG_H_
