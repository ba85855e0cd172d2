#include "cli/show/decoding_failure.h"

#include <cstddef>

#include <fmt/format.h>

#include "io/error.h"

namespace energon::cli {

std::string reason_of_failure(const std::exception& error) {
  const auto* const known = dynamic_cast<const Error*>(&error);
  if (known == nullptr) {
    return error.what();
  }
  std::string text = known->message();
  const std::size_t end = text.find("': ");
  if (text.starts_with("part '") && end != std::string::npos) {
    text.erase(0, end + 3);
  }
  if (known->context().byte_offset) {
    text += fmt::format(" (byte {} of the part)", *known->context().byte_offset);
  }
  return text;
}

}  // namespace energon::cli
