#include "cli/job/at_least.h"

#include <charconv>
#include <string>

#include <fmt/format.h>

namespace energon::cli {

CLI::Validator at_least(std::int64_t least) {
  const auto check = [least](const std::string& text) {
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, value);
    return error == std::errc() && stopped == end && value >= least
               ? std::string()
               : fmt::format("'{}' is not a whole number of at least {}", text, least);
  };
  return CLI::Validator(check, fmt::format("INT >= {}", least));
}

}  // namespace energon::cli
