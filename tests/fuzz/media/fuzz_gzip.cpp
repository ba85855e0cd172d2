// gzip: arbitrary bytes, or two valid members, which must expand to the original.

#include <memory>
#include <string>

#include <zlib.h>

#include "media/data/documents.h"
#include "tests/fuzz/media/checked_value.h"
#include "tests/fuzz/media/choices.h"
#include "tests/fuzz/media/exact_memory.h"

namespace energon::fuzz {
namespace {

std::string gzip_member(std::string_view content) {
  constexpr int kGzip = 15 + 16;
  z_stream stream = {};
  require(deflateInit2(&stream, 1, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string member(deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(member.data());
  stream.avail_out = static_cast<uInt>(member.size());
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  member.resize(stream.total_out);
  deflateEnd(&stream);
  return member;
}

}  // namespace
}  // namespace energon::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace energon;
  fuzz::Choices choices(data, size);
  const std::string_view content = as_text(choices.rest());
  fuzz::ExactMemory memory;
  if (choices.below(4) == 1) {
    const std::size_t first = content.size() * choices.byte() / 256;
    const std::string encoded = fuzz::gzip_member(content.substr(0, first)) +
                                fuzz::gzip_member(content.substr(first)) +
                                std::string(choices.below(9), '\0');
    fuzz::require(as_text(expand_gzip(as_bytes(encoded), fuzz::kFuzzLimits, memory).view) ==
                  content);
    return 0;
  }
  return fuzz::try_to_read([&] {
    const SharedBytes expanded = expand_gzip(choices.rest(), fuzz::kFuzzLimits, memory);
    fuzz::require(expanded.view.size() <= fuzz::kFuzzLimits.max_bytes);
    fuzz::touch(expanded.view);
  });
}
