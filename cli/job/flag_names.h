// Messages of the library name options of its interface; on the command line they are flags.

#pragma once

#include <string>
#include <string_view>

namespace energon::cli {

/// `message` with the names of options (num_workers) written as the flags (--num-workers) that set
/// them here. What is part of a longer word or of a path stays.
std::string with_flag_names(std::string_view message);

}  // namespace energon::cli
