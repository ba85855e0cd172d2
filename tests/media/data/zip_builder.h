// Builds zip files of stored members, including invalid ones.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <zlib.h>

namespace energon::testing {

class ZipBuilder {
 public:
  /// The fields of the central directory and the local header that may be wrong; the others are
  /// right.
  struct Options {
    std::uint16_t flags = 0x0800;  ///< names are UTF-8
    std::uint16_t method = 0;      ///< stored
    std::uint32_t mode = 0100644;
    std::uint32_t size_claim = 0;  ///< added to both sizes
  };

  ZipBuilder& add(std::string_view name, std::string_view content, Options options) {
    const auto size = static_cast<std::uint32_t>(content.size()) + options.size_claim;
    const auto* const bytes = reinterpret_cast<const Bytef*>(content.data());
    std::string common;
    put16(common, 20);  // version
    put16(common, options.flags);
    put16(common, options.method);
    put32(common, 0x00210000);  // 1980-01-01
    put32(common, static_cast<std::uint32_t>(crc32(0, bytes, static_cast<uInt>(content.size()))));
    put32(common, size);
    put32(common, size);
    put16(common, static_cast<std::uint16_t>(name.size()));
    put16(common, 0);  // extra field
    directory_ += "PK\x01\x02";
    put16(directory_, 0x0314);  // made on Unix
    directory_ += common;
    put16(directory_, 0);  // comment
    put16(directory_, 0);  // disk
    put16(directory_, 0);
    put32(directory_, options.mode << 16);
    put32(directory_, static_cast<std::uint32_t>(members_.size()));
    directory_ += name;
    members_ += "PK\x03\x04";
    members_ += common;
    members_ += name;
    members_ += content;
    ++count_;
    return *this;
  }
  ZipBuilder& add(std::string_view name, std::string_view content) {
    return add(name, content, Options());
  }

  std::string build() const {
    std::string end = "PK\x05\x06";
    put32(end, 0);  // disks
    put16(end, count_);
    put16(end, count_);
    put32(end, static_cast<std::uint32_t>(directory_.size()));
    put32(end, static_cast<std::uint32_t>(members_.size()));
    put16(end, 0);  // comment
    return members_ + directory_ + end;
  }

 private:
  static void put16(std::string& to, std::uint32_t number) {
    to += static_cast<char>(number & 0xFF);
    to += static_cast<char>(number >> 8 & 0xFF);
  }
  static void put32(std::string& to, std::uint32_t number) {
    put16(to, number & 0xFFFF);
    put16(to, number >> 16);
  }

  std::string members_;
  std::string directory_;
  std::uint16_t count_ = 0;
};

}  // namespace energon::testing
