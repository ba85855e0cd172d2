#include "cli/job/seconds.h"

#include <charconv>
#include <string>

#include <fmt/format.h>

namespace energon::cli {

CLI::Validator seconds() {
  const auto check = [](const std::string& text) {
    double value = 0;
    const char* end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, value);
    return error == std::errc() && stopped == end && value >= 0.001 && value <= 1e9
               ? std::string()
               : fmt::format("'{}' is not a number of seconds from 0.001 to 1e9", text);
  };
  return CLI::Validator(check, "SECONDS in [0.001, 1e9]");
}

}  // namespace energon::cli
