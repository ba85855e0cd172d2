#include "io/lint/lint_parts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "io/lint/media_header.h"

namespace energon {
namespace {

constexpr std::uint64_t kLongestJson = std::uint64_t{64} << 20;
// Cameras put pictures of 64 KiB in front of the header.
constexpr std::uint64_t kHeaderBytes = std::uint64_t{256} << 10;

// In lower case, without the dot: of "seg.PNG" png.
std::string extension_of(std::string_view part) {
  std::string extension(part.substr(part.rfind('.') + 1));
  std::ranges::transform(extension, extension.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return extension;
}

std::vector<std::byte> read(const FileSource& tar, const ScannedPart& part, std::uint64_t most) {
  std::vector<std::byte> bytes(std::min(part.size, most));
  tar.read_at(part.content_offset, bytes);
  return bytes;
}

SharedBytes read_shared(const FileSource& tar, const ScannedPart& part) {
  auto bytes = std::make_shared<const std::vector<std::byte>>(read(tar, part, part.size));
  return {*bytes, bytes};
}

/// Takes nothing but the place and the kind of an error, so that large documents cost no memory.
class JsonCheck final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_object(std::size_t /*elements*/) override { return true; }
  bool key(string_t& /*value*/) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t /*elements*/) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t position, const std::string& /*last_token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    position_ = position;
    return false;
  }

  std::size_t position() const { return position_; }

 private:
  std::size_t position_ = 0;
};

std::optional<std::string> json_problem(std::string_view text) {
  // nlohmann::json takes it for the end of the text.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return fmt::format("is no valid JSON: its byte {} of {} is zero", nul, text.size());
  }
  JsonCheck check;
  if (nlohmann::json::sax_parse(text, &check)) {
    return std::nullopt;
  }
  const std::size_t at = check.position() > 0 ? check.position() - 1 : 0;
  return fmt::format("is no valid JSON: it breaks at its byte {} of {}{}", at, text.size(),
                     at < text.size() ? fmt::format(", '{}'", printable(text.substr(at, 1))) : "");
}

std::optional<std::string> problem_of(const FileSource& tar, const ScannedPart& part) {
  const std::string extension = extension_of(part.name);
  if (extension == "json") {
    if (part.size > kLongestJson) {
      return std::nullopt;
    }
    return json_problem(as_text(read(tar, part, kLongestJson)));
  }
  if (!promises_media(extension)) {
    return std::nullopt;
  }
  return media_problem(extension, read(tar, part, kHeaderBytes), part.size);
}

}  // namespace

void lint_parts(const FileSource& tar, const ShardScan& scan, std::size_t sample,
                const CheckPart& check, const ReportPart& report) {
  for (const ScannedPart& part : scan.samples[sample].parts) {
    std::optional<std::string> what = problem_of(tar, part);
    if (!what && check) {
      what = check(part.name, [&] { return read_shared(tar, part); });
    }
    if (what) {
      report(sample, part, std::move(*what));
    }
  }
}

}  // namespace energon
