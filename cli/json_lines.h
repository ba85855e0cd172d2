// Files of JSON objects, one per line: debug logs, and the output of `energon run`.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace energon::cli {

/// Limit for numbers in lines: sums of a few of them fit into 64 bits, and every JSON reader
/// accepts them.
inline constexpr std::int64_t kLargestNumber = std::int64_t{1} << 53;

enum class LastLine { kWhole, kCut };

/// Calls `take` with each line of `path`, which may be a pipe. Returns kCut if the last line has no
/// end and is not JSON, because its writer was killed or still runs; that line is left out. Throws
/// Error: kNotFound, kIo, kInvalidArgument for a folder, or a line that is too long, not a JSON
/// object, or nested too deeply. These errors and those of `take` name path and line; a
/// kInvalidArgument message also states that the line is not from `noun`, such as "a debug log".
LastLine read_json_lines(const std::string& path, std::string_view noun,
                         const std::function<void(const nlohmann::json&)>& take);

/// The warning about an incomplete last line.
std::string cut_line_warning(const std::string& path);

/// Fields of a line and their values. All throw Error (kInvalidArgument) with the name of the
/// field.
const nlohmann::json& field(const nlohmann::json& line, const char* name);
std::int64_t to_number(const nlohmann::json& value,
                       const char* name);  ///< whole, 0 to kLargestNumber
std::int64_t number_in(const nlohmann::json& line, const char* name);  ///< same range
std::string text_in(const nlohmann::json& line, const char* name);
/// The field "keys", whose values are strings.
const nlohmann::json& keys_in(const nlohmann::json& line);

/// The files that `patterns` (file names or shell patterns) match, without duplicates. The name of
/// an existing file is not treated as a pattern. Throws Error (kNotFound) if one matches nothing;
/// `noun` names what is missing, such as "log".
std::vector<std::string> expand_patterns(const std::vector<std::string>& patterns,
                                         std::string_view noun);

}  // namespace energon::cli
