#include "tests/support/tar_builder.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <stdexcept>

#include <fmt/format.h>

namespace energon::testing {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::size_t kSize = 124;
constexpr std::size_t kChecksum = 148;

void put(std::string& block, std::size_t offset, std::size_t limit, std::string_view value) {
  if (value.size() > limit) {
    throw std::invalid_argument(fmt::format("'{}' does not fit into its tar field", value));
  }
  std::copy(value.begin(), value.end(), block.begin() + static_cast<std::ptrdiff_t>(offset));
}

std::string octal(std::uint64_t value, int digits) { return fmt::format("{:0{}o}", value, digits); }

std::string pax_body(PaxPairs records) {
  std::string body;
  for (const auto& [key, value] : records) {
    body += pax_record(key, value);
  }
  return body;
}

}  // namespace

std::string tar_header(const TarHeaderSpec& spec) {
  std::string block(kBlock, '\0');
  put(block, 0, 100, spec.name);
  put(block, 100, 8, "0000644");
  put(block, 108, 8, "0001750");
  put(block, 116, 8, "0001750");
  put(block, kSize, 12, spec.size_field.empty() ? octal(spec.size, 11) : spec.size_field);
  put(block, 136, 12, "14000000000");
  block[156] = spec.type;
  put(block, 157, 100, spec.link);
  put(block, 257, 8, spec.magic);
  put(block, 345, 155, spec.prefix);
  block = with_checksum(std::move(block));
  put(block, kChecksum, 8, spec.checksum_field);
  return block;
}

std::string with_checksum(std::string block) {
  put(block, kChecksum, 8, "        ");
  const int sum = std::accumulate(block.begin(), block.end(), 0, [](int total, char c) {
    return total + static_cast<unsigned char>(c);
  });
  put(block, kChecksum, 8, octal(static_cast<std::uint64_t>(sum), 6) + std::string("\0 ", 2));
  return block;
}

std::string base256(std::int64_t value) {
  std::string field(12, value < 0 ? '\xff' : '\0');
  for (std::size_t i = 0; i < 8; ++i) {
    field[11 - i] = static_cast<char>(value >> (8 * i));
  }
  field[0] = static_cast<char>(value < 0 ? 0xff : 0x80);
  return field;
}

std::string pax_record(std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t length = rest;
  while (length != rest + std::to_string(length).size()) {
    length = rest + std::to_string(length).size();
  }
  return fmt::format("{} {}={}\n", length, key, value);
}

TarBuilder& TarBuilder::header(const TarHeaderSpec& spec) { return raw(tar_header(spec)); }

TarBuilder& TarBuilder::data(std::string_view bytes) {
  text_ += bytes;
  text_.resize((text_.size() + kBlock - 1) / kBlock * kBlock, '\0');
  return *this;
}

TarBuilder& TarBuilder::raw(std::string_view bytes) {
  text_ += bytes;
  return *this;
}

TarBuilder& TarBuilder::file(std::string_view name, std::string_view content) {
  return header({.name = std::string(name), .size = content.size()}).data(content);
}

TarBuilder& TarBuilder::gnu_file(std::string_view name, std::string_view content) {
  return header({.name = std::string(name), .size = content.size(), .magic = kGnuMagic})
      .data(content);
}

TarBuilder& TarBuilder::v7_file(std::string_view name, std::string_view content) {
  return header(
             {.name = std::string(name), .size = content.size(), .type = '\0', .magic = kV7Magic})
      .data(content);
}

TarBuilder& TarBuilder::directory(std::string_view name) {
  return header({.name = std::string(name), .type = '5'});
}

TarBuilder& TarBuilder::hard_link(std::string_view name, std::string_view target) {
  return header({.name = std::string(name), .type = '1', .link = std::string(target)});
}

TarBuilder& TarBuilder::symbolic_link(std::string_view name, std::string_view target) {
  return header({.name = std::string(name), .type = '2', .link = std::string(target)});
}

TarBuilder& TarBuilder::fifo(std::string_view name) {
  return header({.name = std::string(name), .type = '6'});
}

TarBuilder& TarBuilder::gnu_long_name(std::string_view name) {
  return extension('L', kGnuMagic, std::string(name) + '\0');
}

TarBuilder& TarBuilder::gnu_long_link(std::string_view target) {
  return extension('K', kGnuMagic, std::string(target) + '\0');
}

TarBuilder& TarBuilder::pax(PaxPairs records) { return pax_raw(pax_body(records)); }

TarBuilder& TarBuilder::pax_raw(std::string_view body) { return extension('x', kUstarMagic, body); }

TarBuilder& TarBuilder::pax_global(PaxPairs records) {
  return extension('g', kUstarMagic, pax_body(records));
}

TarBuilder& TarBuilder::gnu_sparse_file(std::string_view name) {
  std::string block =
      tar_header({.name = std::string(name), .size = 1024, .type = 'S', .magic = kGnuMagic});
  put(block, 386, 12, octal(0, 11));     // first piece: offset
  put(block, 398, 12, octal(1024, 11));  // and size
  put(block, 410, 12, octal(5000, 11));  // second piece
  put(block, 422, 12, octal(0, 11));
  put(block, 483, 12, octal(5000, 11));  // logical size
  return raw(with_checksum(std::move(block))).data(std::string(1024, 's'));
}

TarBuilder& TarBuilder::zero_blocks(int count) {
  return raw(std::string(kBlock * static_cast<std::size_t>(count), '\0'));
}

TarBuilder& TarBuilder::extension(char type, std::string_view magic, std::string_view body) {
  return header({.name = "././@extension", .size = body.size(), .type = type, .magic = magic})
      .data(body);
}

}  // namespace energon::testing
