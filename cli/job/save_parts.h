// Parts of a sample as files of their own.

#pragma once

#include <string>
#include <string_view>

#include "io/bytes.h"

namespace energon::cli {

/// Writes `bytes` to `path`, or to standard output if it is "-". Throws Error (kIo), ClosedOutput.
void save_bytes(const std::string& path, ByteView bytes);

/// Writes a part to the file `folder`/`part`; the folder is made if it is not there. Nothing of a
/// name in a shard can lead out of the folder. Throws Error: kInvalidArgument if the part's name is
/// no file name, kIo.
void save_part(const std::string& folder, std::string_view part, ByteView bytes);

}  // namespace energon::cli
