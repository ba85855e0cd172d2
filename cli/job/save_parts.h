// Saves parts of a sample as files.

#pragma once

#include <string>
#include <string_view>

#include "io/bytes.h"

namespace energon::cli {

/// Writes `bytes` to `path`, or to standard output if it is "-". Throws Error (kIo), ClosedOutput.
void save_bytes(const std::string& path, ByteView bytes);

/// Writes a part to the file `folder`/`part`; creates the folder if it does not exist. A name from
/// a shard cannot lead out of the folder. Throws Error: kInvalidArgument if the part's name is not
/// a file name, kIo.
void save_part(const std::string& folder, std::string_view part, ByteView bytes);

}  // namespace energon::cli
