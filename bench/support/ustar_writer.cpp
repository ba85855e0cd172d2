#include "bench/support/ustar_writer.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "io/error.h"

namespace energon::bench {
namespace {

constexpr std::size_t kBlock = 512;
using Block = std::array<char, kBlock>;

void put(Block& block, std::size_t offset, std::string_view value) {
  std::copy(value.begin(), value.end(), block.begin() + static_cast<std::ptrdiff_t>(offset));
}

Block header(std::string_view name, std::size_t size) {
  Block block{};
  put(block, 0, name.substr(0, 99));
  put(block, 100, "0000644");
  put(block, 108, "0001750");
  put(block, 116, "0001750");
  put(block, 124, fmt::format("{:011o}", size));
  put(block, 136, "14000000000");
  put(block, 148, "        ");  // the checksum counts itself as spaces
  block[156] = '0';
  put(block, 257, std::string_view("ustar\00000", 8));
  const int sum = std::accumulate(block.begin(), block.end(), 0, [](int total, char c) {
    return total + static_cast<unsigned char>(c);
  });
  put(block, 148, fmt::format("{:06o}", sum));
  block[154] = '\0';
  return block;
}

}  // namespace

UstarWriter::UstarWriter(const std::string& path)
    : path_(path), file_(path, std::ios::binary | std::ios::trunc) {}

void UstarWriter::write(const char* bytes, std::size_t size) {
  if (!file_.write(bytes, static_cast<std::streamsize>(size))) {
    throw Error(ErrorCode::kIo, "cannot write a shard of the benchmark", {.path = path_});
  }
}

void UstarWriter::add(std::string_view name, ByteView content) {
  const Block head = header(name, content.size());
  write(head.data(), head.size());
  write(reinterpret_cast<const char*>(content.data()), content.size());
  const Block zeros{};
  write(zeros.data(), (kBlock - content.size() % kBlock) % kBlock);
}

void UstarWriter::finish() {
  const Block zeros{};
  write(zeros.data(), kBlock);
  write(zeros.data(), kBlock);
  file_.close();
}

}  // namespace energon::bench
