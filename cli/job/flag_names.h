// Library messages name options of the library's interface; on the command line, these are flags.

#pragma once

#include <string>
#include <string_view>

namespace energon::cli {

/// `message` with the names of options (num_workers) replaced by the flags (--num-workers) that set
/// them. A name inside a longer word or a path stays.
std::string with_flag_names(std::string_view message);

}  // namespace energon::cli
