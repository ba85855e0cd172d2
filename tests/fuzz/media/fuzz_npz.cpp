// Zips of arrays: arbitrary bytes, or a valid zip around an array of arbitrary bytes.

#include <optional>
#include <string>

#include "media/data/documents.h"
#include "tests/fuzz/media/checked_value.h"
#include "tests/fuzz/media/choices.h"
#include "tests/fuzz/media/exact_memory.h"
#include "tests/media/data/zip_builder.h"

namespace energon::fuzz {
namespace {

// The array in the zip must equal the array alone.
void check_member(ByteView array) {
  ExactMemory memory;
  std::optional<Tensor> alone;
  try_to_read([&] { alone = NpyDecoder(kFuzzLimits).decode(array, memory); });
  const std::string zip = testing::ZipBuilder().add("a.npy", as_text(array)).build();
  try {
    const Mapping arrays = decode_npz(as_bytes(zip), kFuzzLimits, memory);
    require(alone && arrays.size() == 1 && arrays.front().first == "a");
    require(same_tensor(std::get<Tensor>(arrays.front().second), *alone));
  } catch (const Error&) {
    require(!alone);
  }
}

}  // namespace
}  // namespace energon::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace energon;
  fuzz::Choices choices(data, size);
  if (choices.yes()) {
    fuzz::check_member(choices.rest());
    return 0;
  }
  return fuzz::try_to_read([&] {
    fuzz::ExactMemory memory;
    fuzz::check_value(decode_npz(choices.rest(), fuzz::kFuzzLimits, memory));
  });
}
