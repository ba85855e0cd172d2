#include "io/tar/pax_records.h"

#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "io/tar/tar_header.h"

namespace energon {
namespace {

// All of `text` as decimal digits.
std::optional<std::uint64_t> parse_decimal(std::string_view text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

std::optional<PaxRecord> PaxRecords::next() {
  if (rest_.empty()) {
    return std::nullopt;
  }
  const std::size_t space = rest_.find(' ');
  const std::optional<std::uint64_t> length =
      space == std::string_view::npos ? std::nullopt : parse_decimal(rest_.substr(0, space));
  if (!length || *length <= space || *length > rest_.size() || rest_[*length - 1] != '\n') {
    throw corrupt_tar(offset_, fmt::format("malformed pax record: its length is wrong near '{}'",
                                           printable(rest_.substr(0, 40))));
  }
  const std::string_view text = rest_.substr(space + 1, *length - space - 2);
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw corrupt_tar(offset_, fmt::format("malformed pax record: no key in '{}'",
                                           printable(text.substr(0, 40))));
  }
  const PaxRecord record{text.substr(0, equals), text.substr(equals + 1), offset_};
  rest_.remove_prefix(*length);
  offset_ += *length;
  return record;
}

std::uint64_t parse_pax_size(const PaxRecord& record) {
  const std::optional<std::uint64_t> value = parse_decimal(record.value);
  if (!value || *value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    throw corrupt_tar(record.offset,
                      fmt::format("the pax size is '{}', not a number of bytes below 2^63",
                                  printable(record.value.substr(0, 40))));
  }
  return *value;
}

}  // namespace energon
