// A build without codecs says what it lacks. Exits with 0 if it does.

#include <iostream>
#include <string>

#include "energon/sample/buffer_allocator.h"
#include "io/bytes.h"
#include "io/error.h"
#include "media/data/documents.h"
#include "media/decode/sample_decoder.h"
#include "media/tokens/tokenizer.h"

namespace {

using energon::as_bytes;
using energon::Error;
using energon::ErrorCode;

// Whether `call` is refused and names `package`.
template <class Call>
bool lacks(const std::string& package, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    const bool is_named = error.message().find(package) != std::string::npos;
    if (error.code() == ErrorCode::kUnsupported && is_named) {
      return true;
    }
    std::cerr << error.what() << '\n';
    return false;
  }
  std::cerr << package << " is not missed\n";
  return false;
}

// Whether the part `name` that begins with `bytes` is refused.
bool lacks_decoder(const std::string& package, const std::string& name, const std::string& bytes) {
  const energon::SampleDecoder decoder({.image = "torchrgb8", .av = energon::AvMode::kTensors});
  return lacks(package, [&] {
    decoder.decode_part(name, {.view = as_bytes(bytes), .owner = nullptr}, energon::heap_memory());
  });
}

}  // namespace

int main() {
  using namespace std::string_literals;
  bool is_right = lacks_decoder("libjpeg62-turbo-dev", "jpg", "\xFF\xD8\xFF\xE0\0\x10JFIF\0"s);
  is_right &= lacks_decoder("libpng-dev", "png", "\x89PNG\r\n\x1A\n\0\0\0\rIHDR"s);
  is_right &= lacks_decoder("libwebp-dev", "webp", "RIFF\x1A\0\0\0WEBPVP8L"s);
  is_right &= lacks_decoder("libgif-dev", "gif", "GIF89a\1\0\1\0"s);
  is_right &= lacks_decoder("libtiff-dev", "tif", "II*\0\x08\0\0\0"s);
  is_right &= lacks_decoder("libavformat-dev", "wav", "RIFF\x24\0\0\0WAVEfmt "s);
  is_right &=
      lacks("libsentencepiece-dev", [] { energon::sentencepiece_tokenizer(as_bytes("model")); });
  return is_right ? 0 : 1;
}
