// Samples between processes, and the states in the checkpoint ring.

#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/sample/sample.h"
#include "energon/worker/transport.h"
#include "io/bytes.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace energon;
  const std::string_view bytes = fuzz::text_of(data, size);
  static const std::vector<SharedBytes> slots(3);
  fuzz::try_to_read([&] { decode_sample(bytes, slots); });
  return fuzz::try_to_read([&] {
    ByteReader reader(bytes, "a checkpoint");
    decode_checkpoint(reader);
  });
}
